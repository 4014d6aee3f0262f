"""From what a function did to what the server is told: pure, one decision per rule."""

import asyncio
import traceback
from datetime import datetime
from typing import Any, Final

import msgspec

from everwhen.worker.errors import (
    AttemptTimedOut,
    CancelRequested,
    InputMismatch,
    LeaseLost,
    NoRetry,
    ProgramFailed,
    Retry,
    Skip,
)
from everwhen.worker.leases import Lease
from everwhen.worker.protocol import NOTHING, Outcome, Report, RunError

MOST_MESSAGE_CHARACTERS: Final = 2_000
MOST_TRACEBACK_CHARACTERS: Final = 12_000
MOST_BASES: Final = 32
MOST_NAME_CHARACTERS: Final = 200

_encode = msgspec.json.Encoder().encode


def succeeded(lease: Lease, value: Any, *, started_at: datetime | None) -> Report:
    """Report a return; one after the function saw that cancel was requested ends the run `cancelled`."""
    try:
        result = NOTHING if value is None else msgspec.Raw(_encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        message = f"task {lease.run.task!r} returned {type(value).__name__}, which cannot be written as JSON: {error}"
        refused = RunError(type="ResultNotSerialisable", message=clean(message, MOST_MESSAGE_CHARACTERS))
        return _report(lease, "failed", error=refused, retryable=False, started_at=started_at)
    outcome: Outcome = "cancelled" if lease.cancel_seen else "succeeded"
    return _report(lease, outcome, result=result, started_at=started_at)


def failed(lease: Lease, error: BaseException, *, started_at: datetime | None) -> Report | None:
    """Report what was raised; None when the attempt is not ours to report any more."""
    if lease.lost:
        return None
    if lease.timed_out:
        return timed_out(lease, started_at=started_at)
    if lease.released:
        return released(lease)
    return _raised(lease, error, started_at=started_at)


def _raised(lease: Lease, error: BaseException, *, started_at: datetime | None) -> Report | None:
    match error:
        case LeaseLost():
            return None
        case AttemptTimedOut():
            return timed_out(lease, started_at=started_at)
        case CancelRequested() | asyncio.CancelledError() if lease.cancel_requested:
            return _report(lease, "cancelled", started_at=started_at)
        case Skip():
            said = msgspec.Raw(_encode({"$skip": clean(str(error), MOST_MESSAGE_CHARACTERS)}))
            return _report(lease, "succeeded", result=said, started_at=started_at)
        case Retry():
            return _retry(lease, error, started_at=started_at)
        case _:
            is_final = isinstance(error, NoRetry | InputMismatch)
            is_final = is_final or (isinstance(error, ProgramFailed) and not error.retryable)
            reason = error.reason if isinstance(error, ProgramFailed) else None
            told = describe(error)
            return _report(lease, "failed", error=told, reason=reason, retryable=not is_final, started_at=started_at)


def timed_out(lease: Lease, *, started_at: datetime | None) -> Report:
    """Report that the attempt took too long."""
    run = lease.run
    message = f"task {run.task!r}, attempt {run.attempt}: the time-out passed before the function returned"
    return _report(lease, "failed", error=RunError(type="TimeoutError", message=message), started_at=started_at)


def unknown_task(lease: Lease) -> Report:
    """Report that this worker lacks the task; another one may know it, so the run may be tried again."""
    message = f"this worker does not know task {lease.run.task!r}"
    return _report(lease, "failed", error=RunError(type="UnknownTask", message=message))


def released(lease: Lease) -> Report:
    """Give the run back, unharmed."""
    return _report(lease, "released")


def refused(report: Report, reason: str) -> Report:
    """Replace a report that the server will not take (a result too large, say) by a failure that tells why."""
    error = RunError(type="ReportRefused", message=clean(reason, MOST_MESSAGE_CHARACTERS))
    return msgspec.structs.replace(report, outcome="failed", result=NOTHING, error=error, retryable=False)


def describe(error: BaseException) -> RunError:
    """Say what was raised and where, within limits, as text that any database accepts."""
    if isinstance(error, ProgramFailed):  # where the executor stood tells nobody anything
        return RunError(type="ProgramFailed", message=clean(str(error), MOST_TRACEBACK_CHARACTERS))
    return RunError(
        type=type(error).__name__,
        message=clean(_message(error), MOST_MESSAGE_CHARACTERS),
        traceback=_traceback(error),
        bases=_bases(type(error)),
    )


def clean(text: str, most: int, *, keep_end: bool = False) -> str:
    """Return text without what JSON or PostgreSQL refuses (lone surrogates, NUL), cut to `most` characters."""
    if len(text) > most:
        text = "… " + text[2 - most :] if keep_end else text[: most - 2] + " …"
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{SYMBOL FOR NULL}")


def _bases(kind: type[BaseException]) -> tuple[str, ...]:
    """Name the classes that an error is of: its own with its module, then each base, bare and with its module."""
    named = [f"{kind.__module__}.{kind.__qualname__}"]
    for base in kind.__mro__[1:]:
        if issubclass(base, Exception):
            plain = base.__module__ == "builtins"
            named += [base.__name__] if plain else [base.__name__, f"{base.__module__}.{base.__qualname__}"]
    return tuple(clean(name, MOST_NAME_CHARACTERS) for name in named[:MOST_BASES])


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - a broken __str__ must not hide the failure itself
        return f"(its message cannot be read: {type(second).__name__})"


def _traceback(error: BaseException) -> str | None:
    try:
        lines = traceback.format_exception(error)
    except Exception:  # noqa: BLE001 - as for the message
        return None
    return clean("".join(lines), MOST_TRACEBACK_CHARACTERS, keep_end=True)


def _retry(lease: Lease, error: Retry, *, started_at: datetime | None) -> Report:
    after = None if error.after is None else error.after.total_seconds()
    return _report(lease, "failed", error=describe(error), retry_after_seconds=after, started_at=started_at)


def _report(lease: Lease, outcome: Outcome, **fields: Any) -> Report:
    run = lease.run
    return Report(tenant_id=run.tenant_id, run_id=run.run_id, lease_token=run.lease_token, outcome=outcome, **fields)
