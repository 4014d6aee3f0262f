"""What is wrong with files: where, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MOST_TOLD: Final = 50


class Unreadable(Exception):  # noqa: N818  # a file's fault, not an accident
    """A text cannot be read."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong: its file, unless it is in none, the line where that is known, and a pointer."""

    file: Path | None
    message: str
    line: int | None = None
    pointer: str = ""
    code: str = "file"

    def __str__(self) -> str:
        if self.file is None:
            return self.message
        where = f"{self.file}" if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.pointer}: {self.message}" if self.pointer else f"{where}: {self.message}"

    def to_data(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "code": self.code,
            "file": self.file and str(self.file),
            "line": self.line,
            "pointer": self.pointer,
            "detail": self.message,
        }


class Faulty(Exception):  # noqa: N818
    """Files cannot be used as they are; nothing was done."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults
