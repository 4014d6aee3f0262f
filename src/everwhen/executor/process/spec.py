"""What an executor tells a warden at its start, one line of JSON. The standard library only."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from everwhen.executor.model import Limits

STARTED, FAILED, USAGE, ENDED = "started", "failed", "usage", "ended"
"""What a warden tells, one line of JSON each."""

TERMINATE, KILL = b"T", b"K"
"""What it is told meanwhile; the end of what it is told means that its executor is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A program, its environment and its folder, whom it runs as (None: as its executor), and within which limits."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    uid: int | None
    limits: Limits
    network: bool = False
    namespaces: bool = True

    def to_line(self) -> bytes:
        """Return it as a line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Spec":
        """Read it."""
        told: dict[str, Any] = json.loads(line)
        told["limits"] = Limits(**told["limits"])
        return cls(**told)
