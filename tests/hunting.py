"""Hunting for secrets: in a dump of the database, in logs, in whatever is text, however a secret might be written."""

import base64
import subprocess
import urllib.parse
from collections.abc import Iterable, Iterator

from psycopg.conninfo import conninfo_to_dict

from everwhen.postgres.host import find_bin_dir


def dump_of(url: str) -> str:
    """Everything that a database holds, as text."""
    parts = conninfo_to_dict(url)
    words = [
        *("-h", str(parts["host"])),
        *("-p", str(parts.get("port", 5432))),
        *("-U", str(parts["user"])),
        *("-d", str(parts["dbname"])),
    ]
    done = subprocess.run(
        [find_bin_dir() / "pg_dump", *words],
        env={"PGPASSWORD": str(parts.get("password", ""))},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout


def found(text: str, secrets: Iterable[str]) -> list[str]:
    """Those of the secrets that a text holds: as they are, in base64 at any offset, in hex, or escaped as in a URL."""
    return [secret for secret in secrets if any(form in text for form in forms_of(secret))]


def forms_of(secret: str) -> Iterator[str]:
    """How a secret may be written."""
    raw = secret.encode()
    yield secret
    yield urllib.parse.quote(secret, safe="")
    yield raw.hex()
    yield raw.hex().upper()
    for offset in range(3):
        padded = b"\0" * offset + raw
        whole = len(padded) - len(padded) % 3  # what follows changes the last letters, what precedes the first ones
        encoded = base64.b64encode(padded[:whole]).decode()[4 if offset else 0 :]
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")
