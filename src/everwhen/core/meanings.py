"""What each reason means: the registry that the API, the docs and every explanation speak from.

The sentence holds always. The telling says the same with numbers and names, where whoever asks has all of them. The
page docs/reference/reasons.md is made of this module, and a test keeps them equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from everwhen.core.reasons import Category, Reason, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a reason means. `telling` is a format string; its fields are names of facts (numbers and references).

    `remedy` says what a person can do about it; empty where there is nothing to mend.
    """

    category: Category
    severity: Severity
    sentence: str
    telling: str = ""
    remedy: str = ""


_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


def _of(category: Category, severity: Severity, sentence: str, *, telling: str = "", remedy: str = "") -> Meaning:
    return Meaning(category=category, severity=severity, sentence=sentence, telling=telling, remedy=remedy)


MEANINGS: Final[Mapping[str, Meaning]] = {
    Reason.ATTEMPT_FAILED: _of(
        Category.RETRY,
        _WARNING,
        "The attempt failed; its error is on the attempt.",
        telling="Attempt {attempt} failed{error}.",
        remedy="Read the error of the attempt; the next attempt follows by itself.",
    ),
    Reason.ATTEMPT_MANY: _of(
        Category.RETRY,
        _INFO,
        "Further attempts followed, too many to be told one by one.",
        telling="Further attempts followed, {attempts} in all, too many to be told one by one.",
    ),
    Reason.ATTEMPT_NOT_RETRYABLE: _of(
        Category.ENDED,
        _ERROR,
        "The attempt failed with an error that a retry cannot mend.",
        telling="Attempt {attempt} failed with an error that a retry cannot mend{error}.",
        remedy="Mend what the error names, then redrive the run.",
    ),
    Reason.ATTEMPT_RELEASED: _of(
        Category.RETRY,
        _INFO,
        "The worker gave the run back before it was done, for example while it drained.",
        telling="{worker} gave the run back before it was done, for example while it drained.",
    ),
    Reason.ATTEMPT_RUNNING: _of(
        Category.RETRY,
        _INFO,
        "An attempt was under way.",
        telling="Attempt {attempt} was under way on {worker}.",
    ),
    Reason.ATTEMPT_TIMED_OUT: _of(
        Category.RETRY,
        _WARNING,
        "The attempt ran longer than its time-out.",
        telling="Attempt {attempt} ran longer than its time-out.",
        remedy="Make the task faster, or its time-out longer.",
    ),
    Reason.BACKFILL_REQUESTED: _of(
        Category.POLICY,
        _INFO,
        "A backfill made the run later, for an instant that had passed.",
    ),
    Reason.CALENDAR_CHANGED: _of(
        Category.CHANGED, _INFO, "A calendar that the schedule uses was changed before the run was due."
    ),
    Reason.CALENDAR_DST_DUPLICATE: _of(
        Category.POLICY,
        _INFO,
        "The local time occurs twice on that day, and the schedule takes only the other one.",
        telling="{local} occurs twice on that day, and the schedule takes the {fold} one.",
        remedy="Set the schedule's fold policy to `both` if it is to run twice.",
    ),
    Reason.CALENDAR_DST_GAP: _of(
        Category.POLICY,
        _INFO,
        "The local time does not exist on that day: clocks went forward over it.",
        telling="{local} does not exist in {timezone} on that day: clocks went forward over it.",
        remedy="Set the schedule's gap policy to `gap_end` or `shift` if it is to run on such days.",
    ),
    Reason.CALENDAR_EXCLUDED: _of(
        Category.POLICY,
        _INFO,
        "The schedule excludes that instant, by an exception or by a calendar that it names.",
        telling="Calendar {calendar}, version {version}, is closed at that instant{label}.",
        remedy="Change the calendar, or take it off the schedule, if it is to run on such days.",
    ),
    Reason.CALENDAR_ROLLED: _of(
        Category.COALESCED,
        _INFO,
        "A calendar moves the instant to an open day; a run that it meets there stands for both.",
    ),
    Reason.CANCEL_REQUESTED: _of(
        Category.ENDED,
        _INFO,
        "Somebody asked for the run to be cancelled.",
        telling="{by} asked for the run to be cancelled{why}.",
    ),
    Reason.CATCHUP_COALESCED: _of(
        Category.COALESCED,
        _INFO,
        "Several instants passed while nobody looked; one later run stands for this one.",
        remedy="Set the schedule's catch-up policy to `replay` if every instant has to run.",
    ),
    Reason.CATCHUP_EXCEEDED: _of(
        Category.SYSTEM,
        _WARNING,
        "More instants passed while nobody looked than the schedule catches up on.",
        remedy="Backfill the range, or raise the schedule's maximum for catching up.",
    ),
    Reason.CATCHUP_PACED: _of(
        Category.POLICY,
        _INFO,
        "The schedule catches up on what it missed at a limited rate; this run's turn came later.",
        remedy="Raise the schedule's catch-up rate.",
    ),
    Reason.CATCHUP_SKIP: _of(
        Category.SYSTEM,
        _WARNING,
        "The instant passed while nobody looked, and the schedule skips what it missed.",
        remedy="Backfill the instant, or set the schedule's catch-up policy to `replay` or `coalesce`.",
    ),
    Reason.CATCHUP_WINDOW: _of(
        Category.SYSTEM,
        _WARNING,
        "The instant passed longer ago than the schedule's catch-up window.",
        remedy="Backfill the instant, or make the schedule's catch-up window longer.",
    ),
    Reason.DEADLINE_TOTAL: _of(
        Category.ENDED,
        _ERROR,
        "The run did not end within its total deadline.",
        remedy="Find what it waited for; make the deadline longer if the work is in order.",
    ),
    Reason.DEPENDENCY_UNMET: _of(
        Category.WAITING,
        _INFO,
        "The run waits for others that have not ended yet.",
    ),
    Reason.FLEX_WINDOW: _of(
        Category.POLICY,
        _INFO,
        "The schedule's flex window puts its runs off, to spread the load.",
        telling="The schedule's flex window put the run off by {seconds}, to spread the load.",
        remedy="Take the flex window off the schedule if it has to start on time.",
    ),
    Reason.LEASE_EXPIRED: _of(
        Category.RETRY,
        _WARNING,
        "The worker stopped renewing its lease: it died, hung or lost the network.",
        telling="{worker} stopped renewing its lease: it died, hung or lost the network.",
        remedy="Look at the worker's own log; the next attempt follows by itself.",
    ),
    Reason.LEASE_LOST: _of(
        Category.REFUSED,
        _WARNING,
        "The report names a lease that is no longer the run's: another attempt has taken over.",
    ),
    Reason.LIMIT_KEY: _of(
        Category.WAITING,
        _INFO,
        "Another node's run had the concurrency key.",
        remedy="Wait for the run that has the key, or give the nodes different keys.",
    ),
    Reason.LIMIT_QUEUE: _of(
        Category.RESOURCE,
        _WARNING,
        "As many of the tenant's runs were in flight at the queue as its limit allows.",
        telling="{in_flight} of {limit} runs allowed at queue {queue} were in flight.",
        remedy="Raise the limit of the queue, or make its tasks shorter.",
    ),
    Reason.LIMIT_RATE: _of(
        Category.RESOURCE,
        _WARNING,
        "As many runs were started in that time as the rate limit allows.",
        remedy="Raise the rate limit.",
    ),
    Reason.LIMIT_SCHEDULE: _of(
        Category.WAITING,
        _INFO,
        "As many runs of the schedule were in flight as it allows at once.",
        telling="{in_flight} of {limit} runs that the schedule allows at once were in flight.",
        remedy="Raise the schedule's maximum at once, or make its task shorter.",
    ),
    Reason.LIMIT_TENANT: _of(
        Category.RESOURCE,
        _WARNING,
        "As many runs of the tenant were in flight as its limit allows.",
        telling="{in_flight} of {limit} runs allowed to the tenant were in flight.",
        remedy="Raise the tenant's limit.",
    ),
    Reason.LIMIT_WORKFLOW: _of(
        Category.WAITING,
        _INFO,
        "As many nodes of the workflow's run, or instances of the fan-out, were under way as it allows at once.",
        remedy="Raise max_parallel of the workflow or of the fan-out.",
    ),
    Reason.OPERATION_ABORTED: _of(
        Category.ENDED, _INFO, "The operation that the run belonged to was aborted before the run started."
    ),
    Reason.OPERATION_CANARY_FAILED: _of(
        Category.ENDED,
        _ERROR,
        "One of the first runs of the operation did not succeed, so the operation stopped.",
        remedy="Read the error of that run, mend it, and plan what is left anew.",
    ),
    Reason.OPERATION_MADE_ALREADY: _of(
        Category.REFUSED, _INFO, "The same backfill had made a run for the instant before."
    ),
    Reason.OPERATION_PLAN_CHANGED: _of(
        Category.REFUSED,
        _WARNING,
        "What the operation was to do was no longer what its plan had seen, so it did nothing.",
        remedy="Plan it anew and look at the difference.",
    ),
    Reason.OPERATION_TAKEN: _of(
        Category.REFUSED, _INFO, "Somebody had redriven or dismissed the dead run before the operation came to it."
    ),
    Reason.OPERATION_TOO_MANY_DEAD: _of(
        Category.ENDED,
        _ERROR,
        "As many of the operation's runs are dead as it allows, so the operation stopped.",
        remedy="Read the errors of those runs, mend them, and plan what is left anew.",
    ),
    Reason.OPERATION_UNABLE: _of(
        Category.ENDED,
        _ERROR,
        "The operation could not go on: what it needs has gone, or cannot be written.",
        remedy="See whether its schedule is still there and can be read; plan what is left anew.",
    ),
    Reason.OVERLAP_BUFFER_FULL: _of(
        Category.POLICY,
        _WARNING,
        "The schedule's previous run had not ended, and as many waited for it already as its overlap policy allows.",
        remedy="Make the task shorter than the interval, or let more runs wait.",
    ),
    Reason.OVERLAP_BUFFERED: _of(
        Category.WAITING,
        _INFO,
        "The schedule's previous run had not ended, and its overlap policy makes the next one wait.",
        telling="{run} had not ended, and the schedule's overlap policy makes the next one wait.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.OVERLAP_CANCELLED_OTHER: _of(
        Category.ENDED,
        _INFO,
        "The schedule's next run became due, and its overlap policy cancels the one before.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.OVERLAP_LINE_HELD: _of(
        Category.WAITING,
        _ERROR,
        "A dead run held the schedule's line up, so that nothing ran out of order.",
        telling="{run}, which is dead, held the schedule's line up, so that nothing ran out of order.",
        remedy="Redrive the dead run, or let the line go on: `everwhen schedule release`.",
    ),
    Reason.OVERLAP_PREVIOUS_RUNNING: _of(
        Category.POLICY,
        _INFO,
        "The schedule's previous run had not ended, and its overlap policy skips what becomes due meanwhile.",
        telling="{run} had not ended, and the schedule's overlap policy skips what becomes due meanwhile.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.OVERLAP_STOPPING: _of(
        Category.WAITING,
        _INFO,
        "An earlier run of the schedule was asked to stop for this one, and had not ended.",
        telling="{run} was asked to stop for this one, and had not ended.",
        remedy="Have the task look for the wish to cancel more often, or choose another overlap policy.",
    ),
    Reason.OVERLAP_SUPERSEDED: _of(
        Category.POLICY,
        _INFO,
        "The schedule's previous run had not ended, and a later run took this one's place in waiting for it.",
        remedy="Make the task shorter than the interval, or choose another overlap policy.",
    ),
    Reason.PRIORITY_BEHIND: _of(
        Category.RESOURCE,
        _INFO,
        "Runs with a higher priority, or older ones, were ahead of it in the line.",
        telling="{due} runs were due in the line of queue {queue}: higher priorities and older ones go first.",
        remedy="Start more workers, or give the run a higher priority.",
    ),
    Reason.QUEUE_PAUSED: _of(
        Category.RESOURCE,
        _WARNING,
        "The queue was paused.",
        telling="Queue {queue} was paused{why}.",
        remedy="Resume the queue.",
    ),
    Reason.QUEUE_WAITING: _of(
        Category.RESOURCE,
        _INFO,
        "The run waited in the line of its queue until a worker took it.",
        telling="The run waited in the line of queue {queue} until a worker took it.",
    ),
    Reason.REQUEST_AFTER_DUE: _of(
        Category.POLICY,
        _INFO,
        "The run was asked for after the instant that it names.",
    ),
    Reason.RETRY_BACKOFF: _of(
        Category.RETRY,
        _INFO,
        "An attempt had failed, and the retry policy waits before the next one.",
        telling="Attempt {attempt} had failed, and the retry policy waited {seconds} before the next one.",
    ),
    Reason.RETRY_EXHAUSTED: _of(
        Category.ENDED,
        _ERROR,
        "Every attempt that the retry policy allows has failed.",
        telling="Every attempt that the retry policy allows has failed; it made {attempts}{error}.",
        remedy="Mend what the error names, then redrive the run.",
    ),
    Reason.RETRY_MAX_AGE: _of(
        Category.ENDED,
        _ERROR,
        "The attempt failed, and the run is older than its retry policy allows for another.",
        remedy="Mend what the error names, then redrive the run.",
    ),
    Reason.RETRY_UNREADABLE: _of(
        Category.ENDED,
        _ERROR,
        "The attempt failed, and the task's retry policy cannot be read: save the task anew.",
        remedy="Save the task anew.",
    ),
    Reason.RUN_ALREADY_CLAIMED: _of(Category.REFUSED, _INFO, "Another worker holds the run."),
    Reason.RUN_ENDED: _of(Category.REFUSED, _INFO, "The run has already ended; what is terminal stays as it is."),
    Reason.RUN_NOT_CLAIMED: _of(Category.REFUSED, _INFO, "Nobody holds a lease on the run."),
    Reason.RUN_NOT_DUE: _of(Category.REFUSED, _INFO, "The run is not due yet."),
    Reason.SCHEDULE_AFTER_DELETION: _of(
        Category.NEVER,
        _INFO,
        "The schedule had been deleted by that instant.",
        telling="The schedule was deleted before that instant, at {deleted}.",
    ),
    Reason.SCHEDULE_BEFORE_CREATION: _of(
        Category.NEVER,
        _INFO,
        "The schedule did not exist yet at that instant.",
        telling="The schedule did not exist yet: it was made at {created}.",
        remedy="Backfill the range if it is to run for instants before the schedule was made.",
    ),
    Reason.SCHEDULE_CHANGED: _of(Category.CHANGED, _INFO, "The schedule was changed before the run was due."),
    Reason.SCHEDULE_DELETED: _of(Category.CHANGED, _INFO, "The schedule was deleted before the run was due."),
    Reason.SCHEDULE_FAILING: _of(
        Category.SYSTEM,
        _ERROR,
        "The schedule could not be planned: an error came of it each time.",
        telling="The schedule could not be planned, {failures} times in a row{error}.",
        remedy="Change the schedule so that it can be planned; its status names the error.",
    ),
    Reason.SCHEDULE_NOT_INTENDED: _of(
        Category.NEVER,
        _INFO,
        "The schedule's trigger does not name that instant.",
        telling="The schedule's trigger does not name that instant; it names {before} before it and {after} after it.",
    ),
    Reason.SCHEDULE_PAUSED: _of(
        Category.POLICY,
        _INFO,
        "The schedule was paused at that instant.",
        telling="The schedule was paused at that instant{why}.",
        remedy="Resume the schedule; backfill the instant if it has to run after all.",
    ),
    Reason.SCHEDULE_REZONED: _of(
        Category.CHANGED, _INFO, "A new release of the tz database moved the run's instant before it was due."
    ),
    Reason.SCHEDULE_UPCOMING: _of(
        Category.WAITING,
        _INFO,
        "The instant is still ahead.",
        telling="The instant is still ahead: the run becomes due at {due}.",
    ),
    Reason.SCHEDULER_DOWN: _of(
        Category.SYSTEM,
        _ERROR,
        "No scheduler looked at the schedule at that time: none was running, or the database was away.",
        telling="No scheduler looked at the schedule between {since} and {until}.",
        remedy="Run two schedulers, and see why this one was away.",
    ),
    Reason.SCHEDULER_LATE: _of(
        Category.SYSTEM,
        _WARNING,
        "The scheduler looked at the schedule a little late.",
        telling="The scheduler looked at the schedule {seconds} late.",
    ),
    Reason.START_DEADLINE: _of(
        Category.ENDED,
        _ERROR,
        "No worker started the run before its start deadline.",
        telling="No worker started the run before its start deadline, {deadline}.",
        remedy="See what it waited for; make the task's start deadline longer if late is better than never.",
    ),
    Reason.TENANT_PAUSED: _of(
        Category.RESOURCE,
        _WARNING,
        "The tenant was paused.",
        telling="The tenant was paused{why}.",
        remedy="Resume the tenant.",
    ),
    Reason.WINDOW_AFTER_END: _of(
        Category.NEVER,
        _INFO,
        "The instant is after the end that the schedule's trigger has.",
        remedy="Move the end of the schedule's trigger.",
    ),
    Reason.WINDOW_BEFORE_START: _of(
        Category.NEVER,
        _INFO,
        "The instant is before the start that the schedule's trigger has.",
        remedy="Move the start of the schedule's trigger.",
    ),
    Reason.WORKER_NO_CAPABILITY_MATCH: _of(
        Category.RESOURCE,
        _ERROR,
        "Workers were asking for runs of the queue, but none of them knows the task.",
        telling="Workers were asking for runs of queue {queue}, but none of them knows the task {task}.",
        remedy="Deploy workers that know the task, or correct the task's queue.",
    ),
    Reason.WORKER_NONE_LIVE: _of(
        Category.RESOURCE,
        _ERROR,
        "No worker was asking for runs of the queue.",
        telling="No worker was asking for runs of queue {queue}; the last one was seen at {last_seen}.",
        remedy="Start a worker for the queue, or see why those that there were have stopped.",
    ),
    Reason.WORKER_NONE_REGISTERED: _of(
        Category.RESOURCE,
        _ERROR,
        "No worker has asked for runs of the queue in the last 30 days.",
        telling="No worker has asked for runs of queue {queue} in the last 30 days.",
        remedy="Start a worker for the queue, or correct the queue's name on the task.",
    ),
    Reason.WORKER_SLOTS_FULL: _of(
        Category.RESOURCE,
        _WARNING,
        "Every slot of the queue's live workers was taken.",
        telling="Every slot of the workers at queue {queue} was taken: {in_flight} runs were in flight.",
        remedy="Start more workers, or give them more slots.",
    ),
    Reason.WORKFLOW_BRANCH: _of(Category.POLICY, _INFO, "The workflow took another branch."),
    Reason.WORKFLOW_CONDITION: _of(Category.POLICY, _INFO, "The node's condition was false."),
    Reason.WORKFLOW_DATA: _of(
        Category.ENDED,
        _ERROR,
        "Data that the node's input, condition, list or branch needs was missing, or not of the right kind.",
        remedy="Mend the reference that the detail names, or what the upstream node returns; then rerun from there.",
    ),
    Reason.WORKFLOW_FAIL_FAST: _of(
        Category.ENDED, _WARNING, "Another node of the workflow failed, and the workflow stops at the first failure."
    ),
    Reason.WORKFLOW_NESTED: _of(
        Category.ENDED,
        _ERROR,
        "The workflow is inside of too many others, or of itself.",
        remedy="Take the sub-workflow out of the circle.",
    ),
    Reason.WORKFLOW_NO_ITEMS: _of(Category.POLICY, _INFO, "The list that the node fans out over was empty."),
    Reason.WORKFLOW_NODE_FAILED: _of(
        Category.ENDED,
        _ERROR,
        "A node failed, or could not run because of a failure.",
        remedy="Mend what the failed node's error names, then run the workflow again from there.",
    ),
    Reason.WORKFLOW_RULE: _of(
        Category.POLICY, _INFO, "The node's trigger rule was not met by the way in which its upstreams ended."
    ),
    Reason.WORKFLOW_SKIPPED: _of(Category.POLICY, _INFO, "The node's own result says that it skipped itself."),
    Reason.WORKFLOW_UNREADABLE: _of(
        Category.ENDED,
        _ERROR,
        "This version cannot read the workflow's definition.",
        remedy="Apply the definition again.",
    ),
    Reason.WORKFLOW_UPSTREAM_FAILED: _of(
        Category.ENDED,
        _WARNING,
        "A node that this one depends on did not succeed.",
        remedy="Mend the node that failed, then run the workflow again from there.",
    ),
}
