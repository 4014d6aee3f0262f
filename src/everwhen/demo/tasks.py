"""The demo's worker: one task that greets, one that fails at first so that a retry can be seen."""

from datetime import timedelta

from everwhen.worker import Context, Worker

TENANT = "demo"


def demo_worker() -> Worker:
    """Make the worker; it imports nothing of the server, as any worker."""
    worker = Worker()

    @worker.task("hello", timeout=timedelta(seconds=30))
    def hello(name: str = "world") -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]  # registered
        return {"greeting": f"Hello, {name}!"}

    @worker.task("flaky", timeout=timedelta(seconds=30))
    def flaky(ctx: Context) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]  # registered
        if ctx.attempt == 1:
            raise RuntimeError("the first attempt always fails, so that you see a retry")
        return {"attempts": ctx.attempt}

    return worker


TASKS = [
    {"name": "hello", "retry": {"max_attempts": 3, "base_seconds": 1}},
    {"name": "flaky", "retry": {"max_attempts": 3, "base_seconds": 1, "jitter": "none"}},
]
SCHEDULES = [
    {"name": "hello-often", "task": "hello", "trigger": {"kind": "every", "every": "PT5S"}, "input": {"name": "you"}},
    {"name": "hello-minutely", "task": "hello", "trigger": {"kind": "cron", "expr": "* * * * *"}},
    {
        "name": "flaky-twice-a-minute",
        "task": "flaky",
        "trigger": {"kind": "cron", "expr": "*/30 * * * * *", "seconds": True},
    },
    {
        "name": "hello-berlin",
        "task": "hello",
        "trigger": {"kind": "cron", "expr": "30 2 * * *"},
        "timezone": "Europe/Berlin",
        "input": {"name": "Berlin"},
    },
]
