"""What is executed, within which limits, and how it ended. The standard library only: a warden imports it, too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from uuid import UUID


class EndReason(StrEnum):
    """Why an attempt did not succeed, by the codes of the registry of reasons."""

    CPU_LIMIT = "executor.cpu_limit"
    EXIT = "executor.exit"
    FILE_LIMIT = "executor.file_limit"
    NOT_EXECUTABLE = "executor.not_executable"
    OUT_OF_MEMORY = "executor.out_of_memory"
    PROCESS_LIMIT = "executor.process_limit"
    SIGNAL = "executor.signal"
    TIME_LIMIT = "executor.time_limit"
    ZOMBIE = "executor.zombie"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one attempt may use. Seconds of the wall clock and of CPU, bytes, and numbers."""

    seconds: float = 3_600.0
    cpu_seconds: float = 3_600.0
    memory_bytes: int = 512 * 1024 * 1024
    file_bytes: int = 256 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024
    processes: int = 64
    open_files: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One attempt to execute: a program, in a folder of its own that is removed afterwards."""

    run_id: UUID
    attempt: int
    name: str
    program: Path
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a program ended. `reason` None: well. `exit_code` None: it did not exit by itself."""

    reason: EndReason | None
    text: str
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an attempt uses at a moment: CPU seconds so far, bytes of memory, bytes read and written, processes."""

    cpu_seconds: float
    memory_bytes: int
    io_bytes: int
    processes: int
