"""From how a program ended to the reason: pure, one decision per rule."""

import signal
from dataclasses import dataclass

from everwhen.executor.model import Ending, EndReason, Limits

NEARLY = 0.9
"""A program that fails with so much of its memory in use failed for want of more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the warden tells. `killed_for`: what the program was killed for, if it was, by whoever watches it."""

    code: int | None
    signal: int | None
    killed_for: EndReason | None
    peak_bytes: int


def ending_of(ended: Ended, limits: Limits) -> Ending:
    """Say how the attempt ended."""
    reason = _reason(ended, limits)
    text = "" if reason is None else f"{_sentence(reason, limits)}{_how(ended)}"
    return Ending(reason=reason, text=text, exit_code=ended.code, signal=ended.signal)


def _reason(ended: Ended, limits: Limits) -> EndReason | None:
    if ended.killed_for is not None:
        return ended.killed_for
    if ended.code == 0:
        return None
    if ended.signal == signal.SIGXCPU:
        return EndReason.CPU_LIMIT
    if ended.signal == signal.SIGXFSZ:
        return EndReason.FILE_LIMIT
    if ended.peak_bytes >= NEARLY * limits.memory_bytes:
        return EndReason.OUT_OF_MEMORY
    return EndReason.EXIT if ended.signal is None else EndReason.SIGNAL


def _sentence(reason: EndReason, limits: Limits) -> str:
    mib = 1024 * 1024
    memory, file, disk = (each // mib for each in (limits.memory_bytes, limits.file_bytes, limits.disk_bytes))
    return {
        EndReason.OUT_OF_MEMORY: f"the program needed more than the {memory} MiB of memory that it may have",
        EndReason.CPU_LIMIT: f"the program used more than the {limits.cpu_seconds:g} s of CPU that it may use",
        EndReason.TIME_LIMIT: f"the program ran for longer than the {limits.seconds:g} s that it may run",
        EndReason.PROCESS_LIMIT: f"the program started more than the {limits.processes} processes that it may have",
        EndReason.FILE_LIMIT: f"the program wrote more than it may: a file of {file} MiB, {disk} MiB in all",
        EndReason.ZOMBIE: "the program did nothing for so long that it was taken for hung",
        EndReason.NOT_EXECUTABLE: "the payload is no program",
    }.get(reason, "the program failed")


def _how(ended: Ended) -> str:
    if ended.signal is not None and ended.killed_for is None:
        return f" (killed by {_name(ended.signal)})"
    return f" (exit code {ended.code})" if ended.code else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
