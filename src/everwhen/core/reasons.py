"""The closed list of reasons: why a run is skipped, missed, waiting, late or ended. `meanings` says what each means.

A code is stable and made for programs. What it is about is its category, a field of its own: nobody may read it off the
code's first half, which only keeps names apart. A code that has been stored is never renamed or given another meaning:
ten years of history are written in it.
"""

from enum import StrEnum


class Category(StrEnum):
    """What a reason is about. The category `resource` is the one that more workers or higher limits would help."""

    POLICY = "policy"  # a rule chose not to run it, or to run it later
    COALESCED = "coalesced"  # another run stands for it
    SYSTEM = "system"  # Everwhen failed to do it in time
    RESOURCE = "resource"  # it waits for a worker, a slot, or its turn
    WAITING = "waiting"  # it waits for another run, or for its time
    RETRY = "retry"  # an attempt was lost, and another follows
    ENDED = "ended"  # it ended without success
    CHANGED = "changed"  # it was withdrawn before it was due, and decided anew
    REFUSED = "refused"  # a request or a report that changed nothing
    NEVER = "never"  # no schedule ever intended it


class Severity(StrEnum):
    """How much a person should care."""

    INFO = "info"  # as it was meant to be
    WARNING = "warning"  # look at it when you have time
    ERROR = "error"  # somebody has to do something


class Reason(StrEnum):
    """Why a run is where it is."""

    ATTEMPT_FAILED = "attempt.failed"
    ATTEMPT_MANY = "attempt.many"
    ATTEMPT_NOT_RETRYABLE = "attempt.not_retryable"
    ATTEMPT_RELEASED = "attempt.released"
    ATTEMPT_RUNNING = "attempt.running"
    ATTEMPT_TIMED_OUT = "attempt.timed_out"
    BACKFILL_REQUESTED = "backfill.requested"
    BROKER_UNREACHABLE = "broker.unreachable"
    CALENDAR_CHANGED = "calendar.changed"
    CALENDAR_DST_DUPLICATE = "calendar.dst_duplicate"
    CALENDAR_DST_GAP = "calendar.dst_gap"
    CALENDAR_EXCLUDED = "calendar.excluded"
    CALENDAR_ROLLED = "calendar.rolled"
    CANCEL_REQUESTED = "cancel.requested"
    CATCHUP_COALESCED = "catchup.coalesced"
    CATCHUP_EXCEEDED = "catchup.exceeded"
    CATCHUP_PACED = "catchup.paced"
    CATCHUP_SKIP = "catchup.skip"
    CATCHUP_WINDOW = "catchup.window"
    DEADLINE_TOTAL = "deadline.total"
    DEPENDENCY_UNMET = "dependency.unmet"
    ENDPOINT_RESTS = "endpoint.rests"
    EXECUTOR_CPU_LIMIT = "executor.cpu_limit"
    EXECUTOR_EXIT = "executor.exit"
    EXECUTOR_FILE_LIMIT = "executor.file_limit"
    EXECUTOR_NOT_EXECUTABLE = "executor.not_executable"
    EXECUTOR_OUT_OF_MEMORY = "executor.out_of_memory"
    EXECUTOR_PROCESS_LIMIT = "executor.process_limit"
    EXECUTOR_SIGNAL = "executor.signal"
    EXECUTOR_TIME_LIMIT = "executor.time_limit"
    EXECUTOR_ZOMBIE = "executor.zombie"
    FLEX_WINDOW = "flex.window"
    LEASE_EXPIRED = "lease.expired"
    LEASE_LOST = "lease.lost"
    LIMIT_KEY = "limit.key"
    LIMIT_QUEUE = "limit.queue"
    LIMIT_RATE = "limit.rate"
    LIMIT_SCHEDULE = "limit.schedule"
    LIMIT_TASK = "limit.task"
    LIMIT_TENANT = "limit.tenant"
    LIMIT_WORKFLOW = "limit.workflow"
    OPERATION_ABORTED = "operation.aborted"
    OPERATION_CANARY_FAILED = "operation.canary_failed"
    OPERATION_DONE_ALREADY = "operation.done_already"
    OPERATION_ITEM_CHANGED = "operation.item_changed"
    OPERATION_ITEM_GONE = "operation.item_gone"
    OPERATION_ITEM_REFUSED = "operation.item_refused"
    OPERATION_MADE_ALREADY = "operation.made_already"
    OPERATION_PLAN_CHANGED = "operation.plan_changed"
    OPERATION_TAKEN = "operation.taken"
    OPERATION_TOO_MANY_DEAD = "operation.too_many_dead"
    OPERATION_UNABLE = "operation.unable"
    OVERLAP_BUFFER_FULL = "overlap.buffer_full"
    OVERLAP_BUFFERED = "overlap.buffered"
    OVERLAP_CANCELLED_OTHER = "overlap.cancelled_other"
    OVERLAP_LINE_HELD = "overlap.line_held"
    OVERLAP_PREVIOUS_RUNNING = "overlap.previous_running"
    OVERLAP_STOPPING = "overlap.stopping"
    OVERLAP_SUPERSEDED = "overlap.superseded"
    PRIORITY_BEHIND = "priority.behind"
    QUEUE_PAUSED = "queue.paused"
    QUEUE_WAITING = "queue.waiting"
    QUOTA_LOG_BYTES = "quota.log_bytes"
    QUOTA_RUNS_PER_DAY = "quota.runs_per_day"
    REQUEST_AFTER_DUE = "request.after_due"
    RETRY_BACKOFF = "retry.backoff"
    RETRY_EXHAUSTED = "retry.exhausted"
    RETRY_MAX_AGE = "retry.max_age"
    RETRY_UNREADABLE = "retry.unreadable"
    RUN_ALREADY_CLAIMED = "run.already_claimed"
    RUN_ENDED = "run.ended"
    RUN_NOT_CLAIMED = "run.not_claimed"
    RUN_NOT_DUE = "run.not_due"
    SCHEDULE_AFTER_DELETION = "schedule.after_deletion"
    SCHEDULE_BEFORE_CREATION = "schedule.before_creation"
    SCHEDULE_CHANGED = "schedule.changed"
    SCHEDULE_DELETED = "schedule.deleted"
    SCHEDULE_FAILING = "schedule.failing"
    SCHEDULE_NOT_INTENDED = "schedule.not_intended"
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_REZONED = "schedule.rezoned"
    SCHEDULE_UPCOMING = "schedule.upcoming"
    SCHEDULER_DOWN = "scheduler.down"
    SCHEDULER_LATE = "scheduler.late"
    START_DEADLINE = "start.deadline"
    TENANT_PAUSED = "tenant.paused"
    WINDOW_AFTER_END = "window.after_end"
    WINDOW_BEFORE_START = "window.before_start"
    WORKER_CORDONED = "worker.cordoned"
    WORKER_DRAINING = "worker.draining"
    WORKER_NO_CAPABILITY_MATCH = "worker.no_capability_match"
    WORKER_NONE_LIVE = "worker.none_live"
    WORKER_NONE_REGISTERED = "worker.none_registered"
    WORKER_SLOTS_FULL = "worker.slots_full"
    WORKFLOW_BRANCH = "workflow.branch"
    WORKFLOW_CONDITION = "workflow.condition"
    WORKFLOW_DATA = "workflow.data"
    WORKFLOW_FAIL_FAST = "workflow.fail_fast"
    WORKFLOW_NESTED = "workflow.nested"
    WORKFLOW_NO_CONDUCTOR = "workflow.no_conductor"
    WORKFLOW_NO_ITEMS = "workflow.no_items"
    WORKFLOW_NODE_FAILED = "workflow.node_failed"
    WORKFLOW_RERUN_INSTEAD = "workflow.rerun_instead"
    WORKFLOW_RULE = "workflow.rule"
    WORKFLOW_SKIPPED = "workflow.skipped"
    WORKFLOW_UNREADABLE = "workflow.unreadable"
    WORKFLOW_UPSTREAM_FAILED = "workflow.upstream_failed"


REPORTED = frozenset(
    {
        Reason.EXECUTOR_CPU_LIMIT,
        Reason.EXECUTOR_EXIT,
        Reason.EXECUTOR_FILE_LIMIT,
        Reason.EXECUTOR_NOT_EXECUTABLE,
        Reason.EXECUTOR_OUT_OF_MEMORY,
        Reason.EXECUTOR_PROCESS_LIMIT,
        Reason.EXECUTOR_SIGNAL,
        Reason.EXECUTOR_TIME_LIMIT,
        Reason.EXECUTOR_ZOMBIE,
    }
)
"""Reasons that a worker may give for a failure of its own; all others are the server's to give."""
