"""Everything that the SDK raises.

Names say what happened (`LeaseLost`), because they are read in `except` clauses of task code.
"""

from datetime import timedelta


class WorkerError(Exception):
    """The worker cannot go on; the message says what to do."""


class ConfigurationError(WorkerError):
    """A setting is missing or makes no sense."""


class DuplicateTask(WorkerError):  # noqa: N818 - read as a sentence
    """Two functions claim the same task name."""


class Unauthorised(WorkerError):  # noqa: N818 - read as a sentence
    """The server refused the token (401) or what it asked for (403)."""


class ServerAway(WorkerError):  # noqa: N818 - read as a sentence
    """The server could not be reached, or asked to come back later; try again."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """Take `retry_after` in seconds, as the server asked, or None."""
        super().__init__(message)
        self.retry_after = retry_after


class RequestRefused(WorkerError):  # noqa: N818 - read as a sentence
    """The server will never accept this request; sending it again does not help."""

    def __init__(self, message: str, *, status: int, code: str | None = None) -> None:
        """Keep the status and, where the server gave one, the problem's code."""
        super().__init__(message)
        self.status = status
        self.code = code


class PayloadUnknown(WorkerError):  # noqa: N818 - read as a sentence
    """There is no such payload, or the run's input does not refer to it, or the lease does not hold any more."""


class PayloadBroken(WorkerError):  # noqa: N818 - read as a sentence
    """What arrived of a payload is not what its digest says."""


class AttemptEnded(Exception):  # noqa: N818 - read as a sentence
    """The attempt is over although the function still runs: stop, clean up, and let this pass."""


class LeaseLost(AttemptEnded):
    """Another worker may be executing this run; whatever this attempt returns is discarded."""


class CancelRequested(AttemptEnded):
    """Somebody asked for this run to be cancelled."""


class AttemptTimedOut(AttemptEnded):
    """The time-out has passed and the attempt has been reported as failed."""


class Retry(Exception):  # noqa: N818 - raised by tasks, read as a sentence
    """Raise it in a task to fail this attempt and ask for the next one, after `after` where given."""

    def __init__(self, message: str = "the task asked for another attempt", *, after: timedelta | None = None) -> None:
        """Take the least time to wait; None leaves it to the task's retry policy."""
        super().__init__(message)
        self.after = after


class NoRetry(Exception):  # noqa: N818 - raised by tasks, read as a sentence
    """Raise it in a task to fail the run for good: no further attempt can succeed."""


class ProgramFailed(Exception):  # noqa: N818 - raised by executors, read as a sentence
    """What an executor ran has failed, for a reason of the registry."""

    def __init__(self, message: str, *, reason: str, retryable: bool) -> None:
        """`reason` is a code such as `executor.exit`."""
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable


class Skip(Exception):  # noqa: N818 - raised by tasks, read as a sentence
    """Raise it in a task to skip this node of a workflow: its run succeeds, and what needs it sees `skipped`."""


class InputMismatch(WorkerError):  # noqa: N818 - read as a sentence
    """A run's input does not fit the signature of its task's function."""
