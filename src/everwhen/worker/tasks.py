"""Tasks: the names a worker knows, the functions behind them, and how a run's input becomes their arguments."""

import inspect
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from everwhen.worker.context import Context
from everwhen.worker.errors import ConfigurationError, DuplicateTask, InputMismatch

TaskFunction = Callable[..., Any]

_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function accepts, worked out once so that each run costs two set comparisons."""

    context_name: str | None
    required: frozenset[str]
    accepted: frozenset[str]
    open_ended: bool

    @classmethod
    def of(cls, function: TaskFunction) -> "Signature":
        """Read a function's signature; raise ConfigurationError when it cannot be called by keyword."""
        parameters = list(_signature(function).parameters.values())
        context_name = _context_name(parameters)
        named = [p for p in parameters if p.kind in _NAMED_KINDS and p.name != context_name]
        if any(p.kind is p.POSITIONAL_ONLY for p in parameters):
            raise ConfigurationError(f"{_label(function)}: input is passed by keyword; remove the `/` of its signature")
        return cls(
            context_name=context_name,
            required=frozenset(p.name for p in named if p.default is p.empty),
            accepted=frozenset(p.name for p in named),
            open_ended=any(p.kind is p.VAR_KEYWORD for p in parameters),
        )

    def bind(self, given: Any, context: Context) -> dict[str, Any]:
        """Return keyword arguments for this input; raise InputMismatch with what is missing and what is too much."""
        arguments = _named(given)
        names = arguments.keys()
        missing = self.required - names
        surplus = names & {self.context_name} if self.open_ended else names - self.accepted
        if missing or surplus:
            raise InputMismatch(_mismatch(missing, surplus))
        if self.context_name is not None:
            arguments[self.context_name] = context
        return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A stable name and the function that does it."""

    name: str
    function: TaskFunction
    is_async: bool
    timeout_seconds: float | None
    signature: Signature

    def bind(self, given: Any, context: Context) -> dict[str, Any]:
        """Return the call's keyword arguments; raise InputMismatch, naming the task."""
        try:
            return self.signature.bind(given, context)
        except InputMismatch as error:
            raise InputMismatch(f"task {self.name!r} does not accept this input: {error}") from None


class TaskRegistry:
    """The tasks of one worker, by name."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._tasks: dict[str, Task] = {}

    def add(self, function: TaskFunction, *, name: str, timeout: timedelta | float | None) -> Task:
        """Register a function; raise DuplicateTask or ConfigurationError."""
        if known := self._tasks.get(name):
            raise DuplicateTask(
                f"task {name!r} is {_label(known.function)} already, so {_label(function)} cannot be it"
            )
        if not name.strip():
            raise ConfigurationError(f"{_label(function)}: a task needs a name that stays when the function moves")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{_label(function)} is a generator; a task returns its result")
        task = Task(
            name=name,
            function=function,
            is_async=_is_async(function),
            timeout_seconds=_seconds(timeout, name=name),
            signature=Signature.of(function),
        )
        self._tasks[name] = task
        return task

    def get(self, name: str) -> Task | None:
        """Return the task of that name."""
        return self._tasks.get(name)

    def __iter__(self) -> Iterator[Task]:
        """Go through the tasks, in the order of registration."""
        return iter(self._tasks.values())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)


def _named(given: Any) -> dict[str, Any]:
    match given:
        case None:
            return {}
        case dict():
            return dict(given)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType] - JSON has str keys
        case _:
            return {"input": given}


def _mismatch(missing: AbstractSet[str], surplus: AbstractSet[str]) -> str:
    parts: list[str] = []
    if missing:
        parts.append("missing " + ", ".join(sorted(missing)))
    if surplus:
        parts.append("unexpected " + ", ".join(sorted(surplus)))
    return "; ".join(parts)


def _signature(function: TaskFunction) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError:  # an annotation that exists for type checkers only
        return inspect.signature(function)


def _context_name(parameters: list[inspect.Parameter]) -> str | None:
    if not parameters or parameters[0].kind not in _NAMED_KINDS:
        return None
    first = parameters[0]
    annotated = first.annotation is Context or str(first.annotation).rpartition(".")[2] == Context.__name__
    return first.name if annotated or first.name == "ctx" else None


def _is_async(function: TaskFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - its kind matters, not whether it can be called


def _seconds(timeout: timedelta | float | None, *, name: str) -> float | None:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds is not None and seconds <= 0:
        raise ConfigurationError(f"task {name!r}: a time-out of {seconds} s would end every attempt at its start")
    return seconds


def _label(function: TaskFunction) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
