"""The closed registry of reasons: why a run is skipped, missed, waiting, late or ended.

A code is `category.detail`. The sentence is what a person reads; docs/reference/reasons.md lists every one, and a test
keeps that page and this module equal.
"""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why a run is where it is."""

    CALENDAR_DST_GAP = "calendar.dst_gap"
    CALENDAR_EXCLUDED = "calendar.excluded"
    CALENDAR_ROLLED = "calendar.rolled"
    CALENDAR_CHANGED = "calendar.changed"
    CATCHUP_SKIP = "catchup.skip"
    CATCHUP_COALESCED = "catchup.coalesced"
    CATCHUP_WINDOW = "catchup.window"
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_CHANGED = "schedule.changed"
    SCHEDULE_DELETED = "schedule.deleted"
    SCHEDULE_REZONED = "schedule.rezoned"
    CANCEL_REQUESTED = "cancel.requested"
    START_DEADLINE = "start.deadline"
    ATTEMPT_FAILED = "attempt.failed"
    ATTEMPT_NOT_RETRYABLE = "attempt.not_retryable"
    ATTEMPT_TIMED_OUT = "attempt.timed_out"
    ATTEMPT_RELEASED = "attempt.released"
    RETRY_EXHAUSTED = "retry.exhausted"
    RETRY_UNREADABLE = "retry.unreadable"
    LEASE_EXPIRED = "lease.expired"
    LEASE_LOST = "lease.lost"
    RUN_ENDED = "run.ended"
    RUN_NOT_DUE = "run.not_due"
    RUN_NOT_CLAIMED = "run.not_claimed"
    RUN_ALREADY_CLAIMED = "run.already_claimed"


SENTENCES: Final[dict[Reason, str]] = {
    Reason.CALENDAR_DST_GAP: "The local time does not exist on that day: clocks went forward over it.",
    Reason.CALENDAR_EXCLUDED: "The schedule excludes that instant, by an exception or by a calendar that it names.",
    Reason.CALENDAR_ROLLED: "A calendar moves the instant to an open day; a run that it meets there stands for both.",
    Reason.CALENDAR_CHANGED: "A calendar that the schedule uses was changed before the run was due.",
    Reason.CATCHUP_SKIP: "The instant passed while nobody looked, and the schedule skips what it missed.",
    Reason.CATCHUP_COALESCED: "Several instants passed while nobody looked; one later run stands for this one.",
    Reason.CATCHUP_WINDOW: "The instant passed longer ago than the schedule's catch-up window.",
    Reason.SCHEDULE_PAUSED: "The schedule was paused at that instant.",
    Reason.SCHEDULE_CHANGED: "The schedule was changed before the run was due.",
    Reason.SCHEDULE_DELETED: "The schedule was deleted before the run was due.",
    Reason.SCHEDULE_REZONED: "A new release of the tz database moved the run's instant before it was due.",
    Reason.CANCEL_REQUESTED: "Somebody asked for the run to be cancelled.",
    Reason.START_DEADLINE: "No worker started the run before its start deadline.",
    Reason.ATTEMPT_FAILED: "The attempt failed; its error is on the attempt.",
    Reason.ATTEMPT_NOT_RETRYABLE: "The attempt failed with an error that a retry cannot mend.",
    Reason.ATTEMPT_TIMED_OUT: "The attempt ran longer than its time-out.",
    Reason.ATTEMPT_RELEASED: "The worker gave the run back before it was done, for example while it drained.",
    Reason.RETRY_EXHAUSTED: "Every attempt that the retry policy allows has failed.",
    Reason.RETRY_UNREADABLE: "The attempt failed, and the task's retry policy cannot be read: save the task anew.",
    Reason.LEASE_EXPIRED: "The worker stopped renewing its lease: it died, hung or lost the network.",
    Reason.LEASE_LOST: "The report names a lease that is no longer the run's: another attempt has taken over.",
    Reason.RUN_ENDED: "The run has already ended; what is terminal stays as it is.",
    Reason.RUN_NOT_DUE: "The run is not due yet.",
    Reason.RUN_NOT_CLAIMED: "Nobody holds a lease on the run.",
    Reason.RUN_ALREADY_CLAIMED: "Another worker holds the run.",
}
