"""Registering functions and binding input to their arguments."""

from datetime import timedelta

import pytest

from everwhen.worker import ConfigurationError, Context, DuplicateTask, Worker
from everwhen.worker.errors import InputMismatch
from everwhen.worker.tasks import Signature

CTX = Context.fake()


def takes_any(input): ...  # noqa: A002 - the name under which any JSON value arrives


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (lambda: None, None, {}),
        (lambda: None, {}, {}),
        (lambda ctx: None, None, {"ctx": CTX}),
        (lambda ctx, region: None, {"region": "eu"}, {"ctx": CTX, "region": "eu"}),
        (lambda region="eu": None, None, {}),
        (lambda *, region: None, {"region": 1}, {"region": 1}),
        (takes_any, [1, 2], {"input": [1, 2]}),
        (takes_any, 0, {"input": 0}),
        (lambda ctx, **rest: None, {"a": 1, "b": 2}, {"ctx": CTX, "a": 1, "b": 2}),
        (lambda region, ctx=None: None, {"region": 1, "ctx": 2}, {"region": 1, "ctx": 2}),
    ],
)
def test_input_becomes_keyword_arguments(function, given, expected):
    assert Signature.of(function).bind(given, CTX) == expected


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (lambda region: None, None, "missing region"),
        (lambda region: None, {"regoin": 1}, "missing region; unexpected regoin"),
        (lambda: None, 5, "unexpected input"),
        (lambda ctx: None, {"ctx": 1}, "unexpected ctx"),
        (lambda ctx, **rest: None, {"ctx": 1}, "unexpected ctx"),
    ],
)
def test_input_that_does_not_fit_is_named(function, given, message):
    with pytest.raises(InputMismatch, match=f"^{message}$"):
        Signature.of(function).bind(given, CTX)


def test_the_context_is_found_by_its_annotation_whatever_its_name():
    def plain(attempt: Context, region: str): ...
    def quoted(attempt: "Context", region: str): ...
    def unknown(attempt: "worker.Context", region: "Missing"): ...  # noqa: F821

    assert [Signature.of(function).context_name for function in (plain, quoted, unknown)] == ["attempt"] * 3


def test_two_tasks_of_one_name_are_refused_at_import():
    worker = Worker()
    worker.task("report")(lambda: None)
    with pytest.raises(DuplicateTask, match="'report' is"):
        worker.task("report")(lambda: None)


def generator():
    yield 1


@pytest.mark.parametrize(
    ("function", "name", "timeout", "message"),
    [
        (lambda: None, " ", None, "needs a name"),
        (generator, "g", None, "is a generator"),
        (lambda a, /: None, "p", None, "by keyword"),
        (lambda: None, "t", 0, "time-out of 0 s"),
        (lambda: None, "t", timedelta(seconds=-1), "time-out of -1.0 s"),
    ],
)
def test_what_cannot_be_a_task_is_refused_with_the_reason(function, name, timeout, message):
    with pytest.raises(ConfigurationError, match=message):
        Worker().task(name, timeout=timeout)(function)


def test_a_callable_object_with_an_async_call_runs_on_the_loop():
    class Fetch:
        async def __call__(self, page):
            return page

    worker = Worker()
    worker.task("fetch")(Fetch())
    assert worker.tasks.get("fetch").is_async
