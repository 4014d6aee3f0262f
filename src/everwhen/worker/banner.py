"""What a worker prints when it starts: every setting in force, defaults included, so that none is a surprise."""

from collections.abc import Mapping

from everwhen.worker.fetching import SWEEP_SECONDS
from everwhen.worker.settings import Settings
from everwhen.worker.tasks import TaskRegistry


def banner(settings: Settings, tasks: TaskRegistry) -> str:
    """Return the settings and tasks as one aligned block. The token is not in it."""
    lines = {
        "server": settings.url,
        "worker": settings.worker_id,
        "queues": ", ".join(settings.queues),
        "tasks": ", ".join(task.name for task in tasks),
        "concurrency": _slots(settings),
        "labels": _pairs(settings.labels),
        "resources": _pairs(settings.resources),
        "lease": f"{settings.lease_seconds:g} s, renewed every {settings.beat_seconds:g} s",
        "claims": f"{settings.fetchers} in flight, each waits up to {settings.poll_seconds:g} s for work",
        "broker": _broker(settings),
        "time-outs": _timeouts(tasks),
        "drain": f"up to {settings.drain_seconds:g} s after SIGTERM or Ctrl-C, at once after a second",
    }
    width = max(map(len, lines))
    return "\n".join(["everwhen worker", *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def _pairs(values: Mapping[str, str] | Mapping[str, float]) -> str:
    texts = (f"{name}={value}" if isinstance(value, str) else f"{name}={value:g}" for name, value in values.items())
    return ", ".join(texts) or "none"


def _broker(settings: Settings) -> str:
    if not settings.via:
        return "none, every queue is asked"
    return f"{settings.via} tells of runs, its queues are asked every {SWEEP_SECONDS:g} s beside"


def _slots(settings: Settings) -> str:
    ahead = f", {settings.prefetch} more fetched ahead" if settings.prefetch else ", nothing fetched ahead"
    return f"{settings.concurrency} runs at once (sync in threads, async on the loop){ahead}"


def _timeouts(tasks: TaskRegistry) -> str:
    limited = [f"{task.name} {task.timeout_seconds:g} s" for task in tasks if task.timeout_seconds is not None]
    others = "the server's deadline, if the run has one"
    return f"{', '.join(limited)}; for the others {others}" if limited else others
