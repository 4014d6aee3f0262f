"""Nodes that are written in Python, and the definition that they make."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from everwhen.core.dag_json import parse_workflow
from everwhen.worker.context import Context
from everwhen.workflow.written import Condition, Json, Reference

Rule = Literal[
    "all_success",
    "all_failed",
    "all_done",
    "all_skipped",
    "one_success",
    "one_failed",
    "one_done",
    "none_failed",
    "none_failed_min_one_success",
    "none_skipped",
    "all_done_min_one_success",
]
Seconds = float | timedelta

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How failed attempts are tried again; what is None is the task's own."""

    max_attempts: int | None = None
    base_seconds: float | None = None
    factor: float | None = None
    cap_seconds: float | None = None
    jitter: Literal["full", "equal", "none"] | None = None
    max_age_seconds: float | None = None
    non_retryable: Sequence[str | type[BaseException]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are given, as a definition has them."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.non_retryable is not None:
            given["non_retryable"] = [_class_name(each) for each in self.non_retryable]
        return {name: value for name, value in given.items() if value is not None}


class Defaults(TypedDict, total=False):
    """What a node says, and a workflow may say for all of its nodes."""

    rule: Rule
    queue: str
    priority: int
    retry: Retry
    timeout: Seconds
    start_deadline: Seconds
    total_deadline: Seconds
    heartbeat_timeout: Seconds
    concurrency_key: str | int


class Options(Defaults, total=False):
    """What a node may say beside its input; docs/concepts/workflows.md has the meaning of each."""

    after: "Node[Any] | Iterable[Node[Any]]"
    when: bool | Condition
    max_items: int
    max_parallel: int
    empty: Literal["skip", "succeed"]
    finally_: bool
    branch: bool


class Node(Generic[_Result]):
    """One node of a workflow that is being written."""

    def __init__(self, node_id: str, *, is_finally: bool = False) -> None:
        """Name it; `Workflow` makes nodes."""
        self.id = node_id
        self.is_finally = is_finally

    @property
    def result(self) -> _Result:
        """What its function returns."""
        return cast("_Result", Reference(self.id, "result"))

    @property
    def results(self) -> list[_Result]:
        """Of a fan-out: what each instance returns, in order; null where one did not succeed."""
        return cast("list[_Result]", Reference(self.id, "result"))

    @property
    def state(self) -> str:
        """How it ended: `succeeded`, `failed`, `skipped`, …"""
        return cast("str", Reference(self.id, "state"))


@dataclass(frozen=True, slots=True)
class Call(Generic[_Params, _Result]):
    """A node that waits for its function's arguments."""

    finish: Callable[[dict[str, Any]], Node[_Result]]

    def __call__(self, *args: _Params.args, **kwargs: _Params.kwargs) -> Node[_Result]:
        """Give the arguments, by keyword: they are the input of the node's run."""
        if args:
            raise TypeError("a run's input is passed by keyword")
        return self.finish(dict(kwargs))


class Workflow:
    """A workflow that is being written."""

    def __init__(  # noqa: PLR0913  # a definition's own fields
        self,
        name: str,
        *,
        description: str = "",
        success: Literal["strict", "leaf"] = "strict",
        fail_fast: bool = False,
        deadline: Seconds | None = None,
        max_parallel: int | None = None,
        tags: Iterable[str] = (),
        defaults: Defaults | None = None,
    ) -> None:
        """Name it, and say what holds for the whole; `defaults` for every node that does not say otherwise."""
        self.name = name
        self._settings: dict[str, Any] = {
            "name": name,
            "description": description or None,
            "success": success if success != "strict" else None,
            "fail_fast": fail_fast or None,
            "deadline_seconds": _seconds(deadline),
            "max_parallel": max_parallel,
            "tags": sorted(set(tags)) or None,
            "defaults": _shared(defaults) if defaults else None,
        }
        self._nodes: dict[str, tuple[Node[Any], dict[str, Any]]] = {}

    @overload
    def call(
        self,
        node_id: str,
        function: Callable[Concatenate[Context, _Params], Awaitable[_Result]],
        *,
        task: str | None = None,
        **options: Unpack[Options],
    ) -> Call[_Params, _Result]: ...
    @overload
    def call(
        self,
        node_id: str,
        function: Callable[Concatenate[Context, _Params], _Result],
        *,
        task: str | None = None,
        **options: Unpack[Options],
    ) -> Call[_Params, _Result]: ...
    @overload
    def call(
        self,
        node_id: str,
        function: Callable[_Params, Awaitable[_Result]],
        *,
        task: str | None = None,
        **options: Unpack[Options],
    ) -> Call[_Params, _Result]: ...
    @overload
    def call(
        self,
        node_id: str,
        function: Callable[_Params, _Result],
        *,
        task: str | None = None,
        **options: Unpack[Options],
    ) -> Call[_Params, _Result]: ...
    def call(
        self, node_id: str, function: Callable[..., Any], *, task: str | None = None, **options: Unpack[Options]
    ) -> Call[Any, Any]:
        """Add a node that runs a worker's function; call what this returns with the function's arguments.

        `task` is the name under which the worker knows the function; the node's id if it is left out. A parameter for
        the context is left out of the arguments.
        """
        del function  # it is here for its types

        def finish(arguments: dict[str, Any]) -> Node[Any]:
            return self._add(node_id, {"task": task or node_id}, options, given=arguments or None)

        return Call(finish)

    def task(
        self,
        node_id: str,
        *,
        task: str | None = None,
        input: Any = None,  # noqa: A002  # the definition's word
        each: Sequence[Any] | None = None,
        **options: Unpack[Options],
    ) -> Node[Any]:
        """Add a node by the name of its task; the node's id if it is left out."""
        return self._add(node_id, {"task": task or node_id}, options, given=input, items=each)

    def workflow(
        self,
        node_id: str,
        workflow: str,
        *,
        input: Any = None,  # noqa: A002  # the definition's word
        each: Sequence[Any] | None = None,
        **options: Unpack[Options],
    ) -> Node[Any]:
        """Add a node that runs another workflow."""
        return self._add(node_id, {"workflow": workflow}, options, given=input, items=each)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as the API takes it.

        Raises:
            WorkflowError: it is none; `faults` say why, with pointers into it.
        """
        nodes = [written for _, written in self._nodes.values()]
        found = {key: value for key, value in {**self._settings, "nodes": nodes}.items() if value is not None}
        parse_workflow(found)
        return found

    def _add(self, node_id: str, runs: dict[str, Any], options: Options, *, given: Any, items: Any = None) -> Node[Any]:
        if node_id in self._nodes:
            raise ValueError(f"there is a node {node_id!r} already")
        json = Json()
        written: dict[str, Any] = {"id": node_id, **runs, "input": json.of(given)}
        written["condition"] = json.of(options.get("when"))
        written |= _shared(options, json)
        written["each"] = _each(node_id, items, options, json)
        written["finally"] = options.get("finally_")
        written["branch"] = options.get("branch")
        written["needs"] = self._needs(options, json) or None
        node = Node[Any](node_id, is_finally=options.get("finally_", False))
        self._nodes[node_id] = node, {key: value for key, value in written.items() if value is not None}
        return node

    def _needs(self, options: Options, json: Json) -> list[str]:
        """Return what stands in `after`, then what is referred to; a finally-node follows all ordinary ones anyway."""
        after = options.get("after", ())
        needs = {node.id: None for node in ([after] if isinstance(after, Node) else after)}
        for root in json.roots:
            node, _ = self._nodes.get(root, (None, None))
            if node is not None and (node.is_finally or not options.get("finally_", False)):
                needs[root] = None
        return list(needs)


def _each(node_id: str, items: Any, options: Options, json: Json) -> dict[str, Any] | None:
    lists = list(json.lists) if items is None else [items, *json.lists]
    if len(lists) > 1:
        raise ValueError(f"{node_id!r} fans out over two lists; a node has one")
    bounds = {key: options.get(key) for key in ("max_items", "max_parallel", "empty")}
    said = {key: value for key, value in bounds.items() if value is not None}
    if not lists:
        if said:
            raise ValueError(f"{node_id!r} fans out over nothing; {', '.join(said)} belongs to each()")
        return None
    return {"items": json.of(lists[0]), **said}


def _shared(options: Defaults, json: Json | None = None) -> dict[str, Any]:
    retry = options.get("retry")
    found: dict[str, Any] = {
        "rule": options.get("rule"),
        "queue": options.get("queue"),
        "priority": options.get("priority"),
        "retry": retry and retry.to_json(),
        "timeout_seconds": _seconds(options.get("timeout")),
        "start_deadline_seconds": _seconds(options.get("start_deadline")),
        "total_deadline_seconds": _seconds(options.get("total_deadline")),
        "heartbeat_timeout_seconds": _seconds(options.get("heartbeat_timeout")),
        "concurrency_key": (json or Json()).of(options.get("concurrency_key")),
    }
    return {key: value for key, value in found.items() if value is not None}


def _seconds(value: Seconds | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _class_name(named: str | type[BaseException]) -> str:
    """Name a class as workers report it: a built-in one by its bare name, others with their module."""
    if isinstance(named, str):
        return named
    return named.__name__ if named.__module__ == "builtins" else f"{named.__module__}.{named.__qualname__}"
