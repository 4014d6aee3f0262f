"""What tasks look like on the wire, in both directions."""

from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, Field, Strict, model_validator

from everwhen.core.capability import KEY_PATTERN, MOST_AMOUNT, MOST_LABELS, MOST_RESOURCES, Requirements
from everwhen.core.claim_limits import MOST_PLACES, MOST_POINTERS, KeyLimit, Rate
from everwhen.core.retry import (
    MAX_AGE_LIMIT,
    MAX_ATTEMPTS_LIMIT,
    MAX_DELAY,
    MOST_CLASS_NAME,
    MOST_NON_RETRYABLE,
    Jitter,
    RetryPolicy,
)
from everwhen.http.fields import MOST_SECONDS, Name, Owner, PositiveSeconds, Priority, Tags, Utc, Wire, printable
from everwhen.tasks.model import Task, TaskDraft, limits_to_json, retry_from_json, retry_to_json


def _some(pointers: list[str]) -> list[str]:
    if not pointers:
        raise ValueError("name at least one value of the input")
    return pointers


Attempts = Annotated[int, Strict(), Field(ge=1, le=MAX_ATTEMPTS_LIMIT)]
Delay = Annotated[float, Strict(), Field(ge=0, le=MAX_DELAY.total_seconds(), allow_inf_nan=False)]
Factor = Annotated[float, Strict(), Field(ge=1, le=100, allow_inf_nan=False)]
MaxAge = Annotated[
    float,
    Strict(),
    Field(gt=0, le=MAX_AGE_LIMIT.total_seconds(), allow_inf_nan=False),
]
ClassName = Annotated[str, Field(min_length=1, max_length=MOST_CLASS_NAME, pattern=r"^[\x21-\x7e\u00a1-\uffff]+$")]
ClassNames = Annotated[list[ClassName], Field(max_length=MOST_NON_RETRYABLE)]
Heartbeat = Annotated[float, Strict(), Field(ge=1, le=MOST_SECONDS, allow_inf_nan=False)]

Places = Annotated[int, Strict(), Field(ge=1, le=MOST_PLACES)]
Pointer = Annotated[str, Field(min_length=2, max_length=200, pattern=r"^(/([^/~\x00-\x1f]|~[01])+)+$")]
Pointers = Annotated[list[Pointer], Field(max_length=MOST_POINTERS), AfterValidator(_some)]
RequiredKey = Annotated[str, Field(pattern=f"^{KEY_PATTERN}$")]
RequiredLabel = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(printable)]
RequiredAmount = Annotated[float, Strict(), Field(gt=0, le=MOST_AMOUNT, allow_inf_nan=False)]
MOST_RATE_SECONDS: Final = 86_400
"""A rate is for as long as a day."""

_DEFAULT = retry_to_json(RetryPolicy())


class RetryFields(Wire):
    """How often and how fast a failed attempt is tried again: `base * factor ^ (n - 1)` seconds, at most the cap."""

    max_attempts: Attempts = _DEFAULT["max_attempts"]
    base_seconds: Delay = _DEFAULT["base_seconds"]
    factor: Factor = _DEFAULT["factor"]
    cap_seconds: Delay = _DEFAULT["cap_seconds"]
    jitter: Jitter = Jitter(_DEFAULT["jitter"])
    max_age_seconds: MaxAge | None = Field(
        default=None, description="No retry begins when the run is older than this, counted from when it was due."
    )
    non_retryable: ClassNames = Field(
        default_factory=list[str],
        description="Classes of errors that no retry mends, as the worker reports them; bases count, too.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.policy()
        return self

    def policy(self) -> RetryPolicy:
        """Return the policy; raise ValueError when the numbers do not fit together."""
        return retry_from_json(self.model_dump())


class RetryChange(Wire):
    """The fields of the retry policy to change; what is left out stays."""

    max_attempts: Attempts = Field(default_factory=int)
    base_seconds: Delay = Field(default_factory=float)
    factor: Factor = Field(default_factory=float)
    cap_seconds: Delay = Field(default_factory=float)
    jitter: Jitter = Field(default_factory=lambda: Jitter.NONE)
    max_age_seconds: MaxAge | None = None
    non_retryable: ClassNames = Field(default_factory=list[str])


class TaskRateFields(Wire):
    """How many runs may begin: `tokens` in any `seconds` in the long run, and `burst` at once."""

    tokens: Places
    seconds: Annotated[float, Strict(), Field(gt=0, le=MOST_RATE_SECONDS, allow_inf_nan=False)]
    burst: Places | None = Field(default=None, description="How many may begin at once; null: as many as `tokens`.")

    def rate(self) -> Rate:
        """Return the rate."""
        burst = self.tokens if self.burst is None else self.burst
        return Rate(tokens=self.tokens, seconds=self.seconds, burst=burst)


class ConcurrencyFields(Wire):
    """Limits for each key that is made of the runs' inputs: runs with equal values there share one."""

    key: Pointers = Field(description="JSON pointers into the input; a value that is not there counts as null.")
    max_in_flight: Places | None = Field(default=None, description="How many runs of a key may be under way at once.")
    rate: TaskRateFields | None = Field(default=None, description="How fast runs of a key may begin.")

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.max_in_flight is None and self.rate is None:
            raise ValueError("say max_in_flight, or rate, or both")
        return self

    def limit(self) -> KeyLimit:
        """Return the limit."""
        rate = None if self.rate is None else self.rate.rate()
        return KeyLimit(pointers=tuple(self.key), max_in_flight=self.max_in_flight, rate=rate)


class RequiresFields(Wire):
    """What a worker has to have to be given a run: labels, and so much of its resources free."""

    labels: Annotated[dict[RequiredKey, RequiredLabel], Field(max_length=MOST_LABELS)] = Field(
        default_factory=dict[str, str], description="Each of these, with this value."
    )
    resources: Annotated[dict[RequiredKey, RequiredAmount], Field(max_length=MOST_RESOURCES)] = Field(
        default_factory=dict[str, float], description="Of each so much, for as long as the run is under way."
    )

    @model_validator(mode="after")
    def _requires_something(self) -> Self:
        if not self.labels and not self.resources:
            raise ValueError("name labels, or resources, or both")
        return self

    def requirements(self) -> Requirements:
        """Return the requirements."""
        return Requirements(labels=self.labels, resources=self.resources)


class TaskFields(Wire):
    """What a task is, but for its name; what is left out is as by default."""

    queue: Name = "default"
    priority: Priority = 5
    retry: RetryFields = Field(default_factory=RetryFields)
    timeout_seconds: PositiveSeconds | None = Field(default=None, description="The longest that one attempt may run.")
    start_deadline_seconds: PositiveSeconds | None = Field(
        default=None, description="How long after it is due a run may still start; later it expires."
    )
    total_deadline_seconds: PositiveSeconds | None = Field(
        default=None, description="How long after it is due a run has to have ended, over all its attempts."
    )
    heartbeat_timeout_seconds: Heartbeat | None = Field(
        default=None, description="How long a worker may be silent: no lease is longer, whatever the worker asks for."
    )
    max_in_flight: Places | None = Field(default=None, description="How many of its runs may be under way at once.")
    rate: TaskRateFields | None = Field(default=None, description="How fast its runs may begin.")
    concurrency: ConcurrencyFields | None = Field(
        default=None, description="Limits for each key that is made of the runs' inputs."
    )
    requires: RequiresFields | None = Field(
        default=None, description="What a worker has to have; null: any worker that knows the task will do."
    )
    tags: Tags = ()


class TaskIn(TaskFields):
    """A task to make."""

    name: Name
    owner: Owner | None = Field(default=None, description="Who declares it; null: nobody, it is made by hand.")


class TaskReplacement(TaskFields):
    """What a task is to be from now on; what is left out becomes the default, but for its owner, which stays."""

    owner: Owner | None = Field(default=None, description="Who declares it; left out, that stays.")


class TaskChange(Wire):
    """The fields of a task to change; what is left out stays."""

    queue: Name = Field(default_factory=str)
    priority: Priority = Field(default_factory=int)
    retry: RetryChange = Field(default_factory=RetryChange)
    timeout_seconds: PositiveSeconds | None = None
    start_deadline_seconds: PositiveSeconds | None = None
    total_deadline_seconds: PositiveSeconds | None = None
    heartbeat_timeout_seconds: Heartbeat | None = None
    max_in_flight: Places | None = None
    rate: TaskRateFields | None = None
    concurrency: ConcurrencyFields | None = None
    requires: RequiresFields | None = None
    tags: Tags = ()
    owner: Owner | None = None


class RetryOut(BaseModel):
    """The retry policy in force."""

    max_attempts: int
    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: Jitter
    max_age_seconds: float | None
    non_retryable: list[str]


class TaskRateOut(BaseModel):
    """How many runs may begin."""

    tokens: int
    seconds: float
    burst: int


class ConcurrencyOut(BaseModel):
    """The limits of each key."""

    key: list[str]
    max_in_flight: int | None
    rate: TaskRateOut | None


class RequiresOut(BaseModel):
    """What a worker has to have."""

    labels: dict[str, str]
    resources: dict[str, float]


class TaskOut(BaseModel):
    """A task."""

    name: str
    queue: str
    priority: int
    retry: RetryOut
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    total_deadline_seconds: float | None
    heartbeat_timeout_seconds: float | None
    max_in_flight: int | None
    rate: TaskRateOut | None
    concurrency: ConcurrencyOut | None
    requires: RequiresOut | None
    tags: list[str]
    owner: str | None = Field(description="Who declares it; null: nobody, it was made by hand.")
    revision: int
    created_at: Utc
    updated_at: Utc


def draft_of(name: str, fields: TaskFields) -> TaskDraft:
    """Return the draft of a task."""
    return TaskDraft(
        name=name,
        queue=fields.queue,
        priority=fields.priority,
        retry=fields.retry.policy(),
        timeout_seconds=fields.timeout_seconds,
        start_deadline_seconds=fields.start_deadline_seconds,
        total_deadline_seconds=fields.total_deadline_seconds,
        heartbeat_timeout_seconds=fields.heartbeat_timeout_seconds,
        max_in_flight=fields.max_in_flight,
        rate=None if fields.rate is None else fields.rate.rate(),
        concurrency=None if fields.concurrency is None else fields.concurrency.limit(),
        requires=None if fields.requires is None else fields.requires.requirements(),
        tags=fields.tags,
        owner=fields.owner if isinstance(fields, TaskIn | TaskReplacement) else None,
    )


def task_out(task: Task) -> TaskOut:
    """Return a task as the wire has it."""
    return TaskOut(
        name=task.name,
        queue=task.queue,
        priority=task.priority,
        retry=RetryOut(**retry_to_json(task.retry)),
        timeout_seconds=task.timeout_seconds,
        start_deadline_seconds=task.start_deadline_seconds,
        total_deadline_seconds=task.total_deadline_seconds,
        heartbeat_timeout_seconds=task.heartbeat_timeout_seconds,
        **limits_to_json(task),
        tags=list(task.tags),
        owner=task.owner,
        revision=task.revision,
        created_at=task.created_at,
        updated_at=task.updated_at,
    )
