"""Kubernetes CronJob manifests: one, lists, several documents; other kinds in the file are left alone.

What the controller does with what it missed, while it was away or a job was suspended, is `coalesce`: it starts the
latest and counts the others as missed, unless the latest is older than startingDeadlineSeconds. `Forbid` is the same
for what comes due beside a job that runs: when that ends, the latest is started, so it is `buffer_latest`, not `skip`.
`Replace` deletes the job that runs and starts the next at once: `terminate_other`.
"""

from collections.abc import Iterator
from typing import Any, Final

from everwhen.core.triggers import Cron
from everwhen.schedules.importers.entry import (
    Entry,
    Options,
    Refusal,
    items_of,
    list_of,
    mapping_of,
    name_of,
    read_all,
    read_json,
    refuse,
    text_at,
    timing_pair,
    unknown,
    whole_at,
)
from everwhen.schedules.importers.yaml_text import read_yaml

VERSIONS: Final = ("batch/v1", "batch/v1beta1")
MOST_NESTED: Final = 5

_OVERLAPS: Final[dict[str, dict[str, Any] | None]] = {
    "Allow": None,
    "Forbid": {"policy": "buffer_latest"},
    "Replace": {"policy": "terminate_other"},
}
_GRACE_SECONDS: Final = 60


def parse_kubernetes(text: str, options: Options) -> list[Entry | Refusal]:
    """Return what each CronJob becomes."""
    return read_all(lambda: _cron_jobs(text), lambda origin, item: _entry(origin, item, options))


def _cron_jobs(text: str) -> list[tuple[str, object]]:
    documents = read_json(text) if text.lstrip()[:1] in {"{", "["} else read_yaml(text)
    jobs = _flat(documents, depth=0)
    found: list[tuple[str, object]] = [(f"CronJob {number}", item) for number, item in enumerate(jobs, start=1)]
    if not found:
        refuse("kubernetes.none", "the file holds no CronJob")
    return found


def _flat(documents: list[Any], *, depth: int) -> Iterator[dict[str, Any]]:
    if depth > MOST_NESTED:
        refuse("kubernetes.depth", f"lists are nested more than {MOST_NESTED} levels deep")
    for document in documents:
        nested: object = document
        if isinstance(nested, list):
            yield from _flat(items_of(document), depth=depth + 1)
            continue
        given = mapping_of(document, key="manifest")
        kind = given.get("kind")
        if kind in {"List", "CronJobList"}:
            kinds = {"kind": "CronJob", "apiVersion": VERSIONS[0]} if kind == "CronJobList" else {}
            items = [{**kinds, **mapping_of(item, key="items")} for item in list_of(given.get("items"), key="items")]
            yield from _flat(items, depth=depth + 1)
        elif kind == "CronJob":
            yield given


def _entry(origin: str, item: object, options: Options) -> Entry:
    given = mapping_of(item, key="manifest")
    if given.get("apiVersion") not in VERSIONS:
        unknown("kubernetes.version", "apiVersion", given.get("apiVersion"), " or ".join(VERSIONS))
    metadata, spec = mapping_of(given.get("metadata"), key="metadata"), mapping_of(given.get("spec"), key="spec")
    name, namespace = text_at(metadata, "name"), text_at(metadata, "namespace", default="default")
    expr, zone = text_at(spec, "schedule"), text_at(spec, "timeZone", default=options.timezone)
    trigger = Cron(expr, dialect="kubernetes")
    source, stored = timing_pair(trigger, zone, preset="kubernetes", options=options)
    suspended = spec.get("suspend", False)
    if not isinstance(suspended, bool):
        refuse("type", "suspend is true or false", key="suspend")
    return Entry(
        origin=f"{origin}, {namespace}/{name}",
        name=name_of(namespace, name),
        text=expr,
        source=source,
        stored=stored,
        input={"namespace": namespace, "cronjob": name},
        catch_up=_catch_up(spec),
        overlap=_overlap(spec),
        paused="suspended in Kubernetes" if suspended else None,
        notes=_notes(spec, options),
    )


def _catch_up(spec: dict[str, Any]) -> dict[str, Any]:
    deadline = whole_at(spec, "startingDeadlineSeconds")
    rule: dict[str, Any] = {"policy": "coalesce"} | ({} if deadline is None else {"window_seconds": deadline})
    grace = {} if deadline is None or deadline >= _GRACE_SECONDS else {"grace_seconds": deadline}
    return {**rule, **grace, "on_resume": rule}


def _overlap(spec: dict[str, Any]) -> dict[str, Any] | None:
    policy = text_at(spec, "concurrencyPolicy", default="Allow")
    if policy not in _OVERLAPS:
        unknown("kubernetes.concurrency", "concurrencyPolicy", policy, ", ".join(_OVERLAPS))
    return _OVERLAPS[policy]


def _notes(spec: dict[str, Any], options: Options) -> tuple[str, ...]:
    found: list[str] = []
    if spec.get("timeZone") is None:
        found.append(f"no timeZone: the controller's own is taken to be {options.timezone}")
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and spec.get("concurrencyPolicy") == "Forbid":
        found.append(
            f"startingDeadlineSeconds {deadline} does not end a run that waits for the previous one:"
            f" set start_deadline_seconds on the task for that"
        )
    return tuple(found)
