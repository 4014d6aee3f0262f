"""What the layouts are fed with: statements from their files, ids, partitions, rows."""

import json
import pathlib
import random
import re
import time
import uuid
from datetime import UTC, datetime, timedelta

HERE = pathlib.Path(__file__).parent
WEEK_MS = 7 * 86_400_000
INPUT = json.dumps({"url": "https://example.invalid/hook", "args": [1, 2, 3], "body": "x" * 640})


def pieces(files: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """All DDL in order, and the named statements."""
    ddl, statements = [], {}
    for file in files:
        text = (HERE / "layouts" / f"{file}.sql").read_text()
        for part in re.split(r"^-- name: ", text, flags=re.MULTILINE)[1:]:
            name, body = part.split("\n", 1)
            if name == "ddl":
                ddl.append(body)
            else:
                statements[name] = body.strip()
    return "\n".join(ddl), statements


def tenant(i: int) -> uuid.UUID:
    return uuid.UUID(f"00000000-0000-4000-8000-{i:012}")


def run_id(ms: int) -> uuid.UUID:
    return uuid.UUID(int=ms << 80 | 8 << 76 | random.getrandbits(12) << 64 | 2 << 62 | random.getrandbits(62))


def partitions(tables: tuple[str, ...]) -> str:
    start = int(time.time() * 1000) - WEEK_MS * 9 // 2  # the current week is the fifth, half over
    bound = [f"{start + week * WEEK_MS:012x}" for week in range(8)]
    bounds = [f"{b[:8]}-{b[8:]}-0000-0000-000000000000" for b in bound]
    return "".join(
        f"create table {t}_p{i} partition of {t} for values from ('{bounds[i]}') to ('{bounds[i + 1]}');"
        for t in tables
        for i in range(7)
    )


def held(leased: list[tuple]) -> dict[str, object]:
    return {"tenants": [r[0] for r in leased], "runs": [r[1] for r in leased], "tokens": [r[2] for r in leased]}


def make(n: int, due: datetime, tenants: int) -> list[tuple]:
    ms = int(due.timestamp() * 1000)
    return [
        (tenant(i % tenants), run_id(ms + i % 1000), uuid.UUID(int=i % 1000), "default", i * 7 % 10, due, INPUT)
        for i in range(n)
    ]


def columns(rows: list[tuple]) -> dict[str, object]:
    names = ("tenants", "runs", "schedules", "queues", "priorities", "dues", "inputs")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def past() -> datetime:
    return datetime.now(UTC) - timedelta(seconds=5)
