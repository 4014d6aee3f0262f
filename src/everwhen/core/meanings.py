"""What each reason means: the registry that the API, the docs and every explanation speak from.

The sentence holds always. The telling says the same with numbers and names, where whoever asks has all of them. The
page docs/reference/reasons.md is made of this module, and a test keeps them equal.
"""

from collections.abc import Mapping
from typing import Final

from everwhen.core.meaning import Meaning, of
from everwhen.core.meanings_of_fleets import FLEET_MEANINGS
from everwhen.core.meanings_of_workflows import WORKFLOW_MEANINGS
from everwhen.core.reasons import Category, Reason, Severity

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR

_OTHERS: Final[Mapping[str, Meaning]] = {
    Reason.ATTEMPT_FAILED: of(
        Category.RETRY,
        _WARNING,
        "The attempt failed; its error is on the attempt.",
        telling="Attempt {attempt} failed{error}.",
        remedy="Read the error of the attempt; the next attempt follows by itself.",
    ),
    Reason.ATTEMPT_MANY: of(
        Category.RETRY,
        _INFO,
        "Further attempts followed, too many to be told one by one.",
        telling="Further attempts followed, {attempts} in all, too many to be told one by one.",
    ),
    Reason.ATTEMPT_NOT_RETRYABLE: of(
        Category.ENDED,
        _ERROR,
        "The attempt failed with an error that a retry cannot mend.",
        telling="Attempt {attempt} failed with an error that a retry cannot mend{error}.",
        remedy="Mend what the error names, then redrive the run.",
    ),
    Reason.ATTEMPT_RELEASED: of(
        Category.RETRY,
        _INFO,
        "The worker gave the run back before it was done, for example while it drained.",
        telling="{worker} gave the run back before it was done, for example while it drained.",
    ),
    Reason.ATTEMPT_RUNNING: of(
        Category.RETRY,
        _INFO,
        "An attempt was under way.",
        telling="Attempt {attempt} was under way on {worker}.",
    ),
    Reason.ATTEMPT_TIMED_OUT: of(
        Category.RETRY,
        _WARNING,
        "The attempt ran longer than its time-out.",
        telling="Attempt {attempt} ran longer than its time-out.",
        remedy="Make the task faster, or its time-out longer.",
    ),
    Reason.BACKFILL_REQUESTED: of(
        Category.POLICY,
        _INFO,
        "A backfill made the run later, for an instant that had passed.",
    ),
    Reason.CALENDAR_CHANGED: of(
        Category.CHANGED, _INFO, "A calendar that the schedule uses was changed before the run was due."
    ),
    Reason.CALENDAR_DST_DUPLICATE: of(
        Category.POLICY,
        _INFO,
        "The local time occurs twice on that day, and the schedule takes only the other one.",
        telling="{local} occurs twice on that day, and the schedule takes the {fold} one.",
        remedy="Set the schedule's fold policy to `both` if it is to run twice.",
    ),
    Reason.CALENDAR_DST_GAP: of(
        Category.POLICY,
        _INFO,
        "The local time does not exist on that day: clocks went forward over it.",
        telling="{local} does not exist in {timezone} on that day: clocks went forward over it.",
        remedy="Set the schedule's gap policy to `gap_end` or `shift` if it is to run on such days.",
    ),
    Reason.CALENDAR_EXCLUDED: of(
        Category.POLICY,
        _INFO,
        "The schedule excludes that instant, by an exception or by a calendar that it names.",
        telling="Calendar {calendar}, version {version}, is closed at that instant{label}.",
        remedy="Change the calendar, or take it off the schedule, if it is to run on such days.",
    ),
    Reason.CALENDAR_ROLLED: of(
        Category.COALESCED,
        _INFO,
        "A calendar moves the instant to an open day; a run that it meets there stands for both.",
    ),
    Reason.CANCEL_REQUESTED: of(
        Category.ENDED,
        _INFO,
        "Somebody asked for the run to be cancelled.",
        telling="{by} asked for the run to be cancelled{why}.",
    ),
    Reason.CATCHUP_COALESCED: of(
        Category.COALESCED,
        _INFO,
        "Several instants passed while nobody looked; one later run stands for this one.",
        remedy="Set the schedule's catch-up policy to `replay` if every instant has to run.",
    ),
    Reason.CATCHUP_EXCEEDED: of(
        Category.SYSTEM,
        _WARNING,
        "More instants passed while nobody looked than the schedule catches up on.",
        remedy="Backfill the range, or raise the schedule's maximum for catching up.",
    ),
    Reason.CATCHUP_PACED: of(
        Category.POLICY,
        _INFO,
        "The schedule catches up on what it missed at a limited rate; this run's turn came later.",
        remedy="Raise the schedule's catch-up rate.",
    ),
    Reason.CATCHUP_SKIP: of(
        Category.SYSTEM,
        _WARNING,
        "The instant passed while nobody looked, and the schedule skips what it missed.",
        remedy="Backfill the instant, or set the schedule's catch-up policy to `replay` or `coalesce`.",
    ),
    Reason.CATCHUP_WINDOW: of(
        Category.SYSTEM,
        _WARNING,
        "The instant passed longer ago than the schedule's catch-up window.",
        remedy="Backfill the instant, or make the schedule's catch-up window longer.",
    ),
    Reason.DEADLINE_TOTAL: of(
        Category.ENDED,
        _ERROR,
        "The run did not end within its total deadline.",
        remedy="Find what it waited for; make the deadline longer if the work is in order.",
    ),
    Reason.DEPENDENCY_UNMET: of(
        Category.WAITING,
        _INFO,
        "The run waits for others that have not ended yet.",
    ),
    Reason.FLEX_WINDOW: of(
        Category.POLICY,
        _INFO,
        "The schedule's flex window puts its runs off, to spread the load.",
        telling="The schedule's flex window put the run off by {seconds}, to spread the load.",
        remedy="Take the flex window off the schedule if it has to start on time.",
    ),
    Reason.LEASE_EXPIRED: of(
        Category.RETRY,
        _WARNING,
        "The worker stopped renewing its lease: it died, hung or lost the network.",
        telling="{worker} stopped renewing its lease: it died, hung or lost the network.",
        remedy="Look at the worker's own log; the next attempt follows by itself.",
    ),
    Reason.LEASE_LOST: of(
        Category.REFUSED,
        _WARNING,
        "The report names a lease that is no longer the run's: another attempt has taken over.",
    ),
    Reason.OPERATION_ABORTED: of(
        Category.ENDED, _INFO, "The operation that the run belonged to was aborted before the run started."
    ),
    Reason.OPERATION_CANARY_FAILED: of(
        Category.ENDED,
        _ERROR,
        "One of the first runs of the operation did not succeed, so the operation stopped.",
        remedy="Read the error of that run, mend it, and plan what is left anew.",
    ),
    Reason.OPERATION_DONE_ALREADY: of(
        Category.REFUSED, _INFO, "It was as the operation wanted it already, so there was nothing to change."
    ),
    Reason.OPERATION_ITEM_CHANGED: of(
        Category.REFUSED, _INFO, "It had changed since the plan, and the operation's filter did not find it any more."
    ),
    Reason.OPERATION_ITEM_GONE: of(
        Category.REFUSED, _INFO, "It was deleted before the operation came to it; what has its name since is another."
    ),
    Reason.OPERATION_ITEM_REFUSED: of(
        Category.REFUSED,
        _WARNING,
        "The change was refused, as it would have been for anybody who had asked for it alone.",
        remedy="Read the code beside it, and change that one by itself.",
    ),
    Reason.OPERATION_MADE_ALREADY: of(
        Category.REFUSED, _INFO, "The same backfill had made a run for the instant before."
    ),
    Reason.OPERATION_PLAN_CHANGED: of(
        Category.REFUSED,
        _WARNING,
        "What the operation was to do was no longer what its plan had seen, so it did nothing.",
        remedy="Plan it anew and look at the difference.",
    ),
    Reason.OPERATION_TAKEN: of(
        Category.REFUSED, _INFO, "Somebody had redriven or dismissed the dead run before the operation came to it."
    ),
    Reason.OPERATION_TOO_MANY_DEAD: of(
        Category.ENDED,
        _ERROR,
        "As many of the operation's runs are dead as it allows, so the operation stopped.",
        remedy="Read the errors of those runs, mend them, and plan what is left anew.",
    ),
    Reason.OPERATION_UNABLE: of(
        Category.ENDED,
        _ERROR,
        "The operation could not go on: what it needs has gone, or cannot be written.",
        remedy="See whether its schedule is still there and can be read; plan what is left anew.",
    ),
    Reason.OVERLAP_BUFFER_FULL: of(
        Category.POLICY,
        _WARNING,
        "The schedule's previous run had not ended, and as many waited for it already as its overlap policy allows.",
        remedy="Make the task shorter than the interval, or let more runs wait.",
    ),
    Reason.OVERLAP_BUFFERED: of(
        Category.WAITING,
        _INFO,
        "The schedule's previous run had not ended, and its overlap policy makes the next one wait.",
        telling="{run} had not ended, and the schedule's overlap policy makes the next one wait.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.OVERLAP_CANCELLED_OTHER: of(
        Category.ENDED,
        _INFO,
        "The schedule's next run became due, and its overlap policy cancels the one before.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.OVERLAP_LINE_HELD: of(
        Category.WAITING,
        _ERROR,
        "A dead run held the schedule's line up, so that nothing ran out of order.",
        telling="{run}, which is dead, held the schedule's line up, so that nothing ran out of order.",
        remedy="Redrive the dead run, or let the line go on: `everwhen schedule release`.",
    ),
    Reason.OVERLAP_PREVIOUS_RUNNING: of(
        Category.POLICY,
        _INFO,
        "The schedule's previous run had not ended, and its overlap policy skips what becomes due meanwhile.",
        telling="{run} had not ended, and the schedule's overlap policy skips what becomes due meanwhile.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.OVERLAP_STOPPING: of(
        Category.WAITING,
        _INFO,
        "An earlier run of the schedule was asked to stop for this one, and had not ended.",
        telling="{run} was asked to stop for this one, and had not ended.",
        remedy="Have the task look for the wish to cancel more often, or choose another overlap policy.",
    ),
    Reason.OVERLAP_SUPERSEDED: of(
        Category.POLICY,
        _INFO,
        "The schedule's previous run had not ended, and a later run took this one's place in waiting for it.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.PRIORITY_BEHIND: of(
        Category.RESOURCE,
        _INFO,
        "Runs with a higher priority, or older ones, were ahead of it in the line.",
        telling="{due} runs were due in the line of queue {queue}: higher priorities and older ones go first.",
        remedy="Start more workers, or give the run a higher priority.",
    ),
    Reason.QUOTA_LOG_BYTES: of(
        Category.POLICY,
        _WARNING,
        "All logs of the tenant together took as many bytes as they may: the attempt's log ends there.",
        remedy="Print less, or ask the platform for a higher limit of bytes of logs; old logs go by themselves.",
    ),
    Reason.QUOTA_RUNS_PER_DAY: of(
        Category.POLICY,
        _WARNING,
        "The tenant had used up its runs of that day; what its schedules intend beyond them is skipped.",
        remedy="Ask the platform for a higher limit of runs per day, or plan less; then backfill what was skipped.",
    ),
    Reason.REQUEST_AFTER_DUE: of(
        Category.POLICY,
        _INFO,
        "The run was asked for after the instant that it names.",
    ),
    Reason.RETRY_BACKOFF: of(
        Category.RETRY,
        _INFO,
        "An attempt had failed, and the retry policy waits before the next one.",
        telling="Attempt {attempt} had failed, and the retry policy waited {seconds} before the next one.",
    ),
    Reason.RETRY_EXHAUSTED: of(
        Category.ENDED,
        _ERROR,
        "Every attempt that the retry policy allows has failed.",
        telling="Every attempt that the retry policy allows has failed; it made {attempts}{error}.",
        remedy="Mend what the error names, then redrive the run.",
    ),
    Reason.RETRY_MAX_AGE: of(
        Category.ENDED,
        _ERROR,
        "The attempt failed, and the run is older than its retry policy allows for another.",
        remedy="Mend what the error names, then redrive the run.",
    ),
    Reason.RETRY_UNREADABLE: of(
        Category.ENDED,
        _ERROR,
        "The attempt failed, and the task's retry policy cannot be read: save the task anew.",
        remedy="Save the task anew.",
    ),
    Reason.RUN_ALREADY_CLAIMED: of(Category.REFUSED, _INFO, "Another worker holds the run."),
    Reason.RUN_ENDED: of(Category.REFUSED, _INFO, "The run has already ended; what is terminal stays as it is."),
    Reason.RUN_NOT_CLAIMED: of(Category.REFUSED, _INFO, "Nobody holds a lease on the run."),
    Reason.RUN_NOT_DUE: of(Category.REFUSED, _INFO, "The run is not due yet."),
    Reason.SCHEDULE_AFTER_DELETION: of(
        Category.NEVER,
        _INFO,
        "The schedule had been deleted by that instant.",
        telling="The schedule was deleted before that instant, at {deleted}.",
    ),
    Reason.SCHEDULE_BEFORE_CREATION: of(
        Category.NEVER,
        _INFO,
        "The schedule did not exist yet at that instant.",
        telling="The schedule did not exist yet: it was made at {created}.",
        remedy="Backfill the range if it is to run for instants before the schedule was made.",
    ),
    Reason.SCHEDULE_CHANGED: of(Category.CHANGED, _INFO, "The schedule was changed before the run was due."),
    Reason.SCHEDULE_DELETED: of(Category.CHANGED, _INFO, "The schedule was deleted before the run was due."),
    Reason.SCHEDULE_FAILING: of(
        Category.SYSTEM,
        _ERROR,
        "The schedule could not be planned: an error came of it each time.",
        telling="The schedule could not be planned, {failures} times in a row{error}.",
        remedy="Change the schedule so that it can be planned; its status names the error.",
    ),
    Reason.SCHEDULE_NOT_INTENDED: of(
        Category.NEVER,
        _INFO,
        "The schedule's trigger does not name that instant.",
        telling="The schedule's trigger does not name that instant; it names {before} before it and {after} after it.",
    ),
    Reason.SCHEDULE_PAUSED: of(
        Category.POLICY,
        _INFO,
        "The schedule was paused at that instant.",
        telling="The schedule was paused at that instant{why}.",
        remedy="Resume the schedule; backfill the instant if it has to run after all.",
    ),
    Reason.SCHEDULE_REZONED: of(
        Category.CHANGED, _INFO, "A new release of the tz database moved the run's instant before it was due."
    ),
    Reason.SCHEDULE_UPCOMING: of(
        Category.WAITING,
        _INFO,
        "The instant is still ahead.",
        telling="The instant is still ahead: the run becomes due at {due}.",
    ),
    Reason.SCHEDULER_DOWN: of(
        Category.SYSTEM,
        _ERROR,
        "No scheduler looked at the schedule at that time: none was running, or the database was away.",
        telling="No scheduler looked at the schedule between {since} and {until}.",
        remedy="Run two schedulers, and see why this one was away.",
    ),
    Reason.SCHEDULER_LATE: of(
        Category.SYSTEM,
        _WARNING,
        "The scheduler looked at the schedule a little late.",
        telling="The scheduler looked at the schedule {seconds} late.",
    ),
    Reason.START_DEADLINE: of(
        Category.ENDED,
        _ERROR,
        "No worker started the run before its start deadline.",
        telling="No worker started the run before its start deadline, {deadline}.",
        remedy="See what it waited for; make the task's start deadline longer if late is better than never.",
    ),
    Reason.TENANT_PAUSED: of(
        Category.RESOURCE,
        _WARNING,
        "The tenant was paused.",
        telling="The tenant was paused{why}.",
        remedy="Resume the tenant.",
    ),
    Reason.WINDOW_AFTER_END: of(
        Category.NEVER,
        _INFO,
        "The instant is after the end that the schedule's trigger has.",
        remedy="Move the end of the schedule's trigger.",
    ),
    Reason.WINDOW_BEFORE_START: of(
        Category.NEVER,
        _INFO,
        "The instant is before the start that the schedule's trigger has.",
        remedy="Move the start of the schedule's trigger.",
    ),
}

MEANINGS: Final[Mapping[str, Meaning]] = dict(
    sorted([*_OTHERS.items(), *FLEET_MEANINGS.items(), *WORKFLOW_MEANINGS.items()])
)
