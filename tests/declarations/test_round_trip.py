"""What is there, declared, comes to nothing: for every kind of trigger and every policy."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.differences import same
from everwhen.core.errors import TriggerError
from everwhen.core.presets import PRESETS
from everwhen.declarations.kinds.protocol import Claim
from everwhen.declarations.kinds.schedules import Schedules
from everwhen.declarations.kinds.tasks import Tasks
from everwhen.declarations.model import Kind, Present
from everwhen.schedules.model import ScheduleRow, seed_spec, spec_to_json
from everwhen.schedules.wire import ScheduleFields, draft_of
from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of
from tests.schedules.test_trigger_kinds import KINDS

NOBODYS = Claim(owner=None, is_meant=False, by="tester")
NOW = datetime(2026, 11, 30, tzinfo=UTC)
UID = uuid.UUID("01a22915-06ff-70da-a75e-79f816daceb5")

HASHED = {"kind": "cron", "expr": "H 2 * * *", "dialect": "vixie-ext"}
TRIGGERS = [
    *KINDS,
    HASHED,
    {"kind": "cron", "expr": "0 0 12 * * *", "seconds": True},
    {"kind": "cron", "expr": "0 0 12 * * ?", "dialect": "quartz"},
    {"kind": "every", "every": "PT1H", "anchor": "2026-01-01T00:00:00+01:00"},
    {"kind": "business_day", "nth": -1, "times": ["17:00"], "calendar": "de"},
    {"kind": "any_of", "triggers": [HASHED, KINDS[0]], "start": "2026-01-01T00:00:00Z", "max_runs": 9},
]  # fmt: skip
RULES = st.fixed_dictionaries(
    {"policy": st.sampled_from(["coalesce", "skip"])},
    optional={
        "keep": st.sampled_from(["latest", "earliest"]),
        "window_seconds": st.sampled_from([0.0, 60.0, 1e6, 0.5]),
        "priority": st.integers(0, 9),
        "priority_offset": st.integers(-9, 9),
    },
) | st.fixed_dictionaries(
    {"policy": st.just("replay")},
    optional={
        "max_runs": st.integers(1, 9),
        "rate": st.sampled_from([0.5, 10.0]),
        "order": st.sampled_from(["oldest_first", "newest_first"]),
    },
)
INPUTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
POLICIES = st.fixed_dictionaries(
    {"trigger": st.sampled_from(TRIGGERS)},
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin"]),
        "gap": st.sampled_from([None, "skip", "gap_end", "shift"]),
        "fold": st.sampled_from([None, "first", "second", "both"]),
        "preset": st.sampled_from([None, *PRESETS]),
        "calendars": st.sampled_from([None, {"open": ["de"]}, {"closed": ["x", "y"], "roll": "following"}]),
        "catch_up": st.builds(
            lambda rule, more: {**rule, **more},
            RULES,
            st.fixed_dictionaries(
                {},
                optional={
                    "grace_seconds": st.sampled_from([0.0, 60.0, 5.5]),
                    "on_resume": RULES,
                    "on_creation": RULES,
                    "on_edit": RULES,
                },
            ),
        ),
        "flex": st.sampled_from([
            None, {"mode": "hash", "window_seconds": 60}, {"mode": "smooth", "window_seconds": 600},
            {"mode": "smooth", "window_seconds": 600, "offset_seconds": 30}, {"mode": "fixed", "window_seconds": 1},
        ]),
        "overlap": st.sampled_from([
            None, {"policy": "allow"}, {"policy": "allow", "max_running": 3}, {"policy": "skip"},
            {"policy": "buffer_all", "max_buffered": 7}, {"policy": "strict_sequential", "on_failure": "hold"},
        ]),
        "pause_after_failures": st.sampled_from([None, 3]),
        "priority": st.sampled_from([None, 0, 9]),
        "tags": st.lists(st.sampled_from(["a", "b"]), max_size=3),
        "input": INPUTS,
    },
)  # fmt: skip


def stored(spec):
    """A schedule as the database gives it back."""
    draft = draft_of("x", ScheduleFields.model_validate({"task": "report", **spec}))
    return ScheduleRow(
        uid=UID, name="x", state="active", state_reason=None, paused_until=None, revision=3, task=draft.task,
        spec=json.dumps(json.loads(spec_to_json(seed_spec(draft.spec, UID)))), input=json.dumps(draft.input),
        priority=draft.priority, tags=list(draft.tags), owner=None, created_at=NOW, updated_at=NOW, decided_until=NOW,
        next_at=None, last_error=None,
    )  # fmt: skip


@given(POLICIES)
def test_a_schedule_as_it_is_declared_is_what_is_there(spec):
    from everwhen.declarations.kinds.schedules import _present

    try:
        present = _present(stored(spec))
    except TriggerError:  # what the strategy puts together and the API refuses
        return
    declared = json.loads(json.dumps(dict(Schedules().declared(present).spec)))
    draft = Schedules().read("x", declared, NOBODYS)

    assert same(Schedules().normal(draft, present), present.normal)
    assert "hash_seed" not in json.dumps(declared)
    assert declared.get("flex", {}).get("offset_seconds") is None


@given(POLICIES)
def test_what_is_as_by_default_is_not_declared(spec):
    from everwhen.declarations.kinds.schedules import _present

    try:
        row = stored(spec)
    except TriggerError:
        return
    declared = Schedules().declared(_present(row)).spec

    assert {"task", "trigger"} <= declared.keys()
    assert None not in [declared[field] for field in declared.keys() - {"input"}]
    assert "timezone" not in declared or declared["timezone"] != "UTC"
    if spec.get("preset") is None:
        assert "seconds" not in declared["trigger"] or declared["trigger"]["seconds"]
        assert declared["trigger"].get("dialect") != "vixie"


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "queue": st.sampled_from(["default", "q"]),
            "priority": st.integers(0, 9),
            "timeout_seconds": st.sampled_from([None, 1.0, 0.25]),
            "heartbeat_timeout_seconds": st.sampled_from([None, 5.0]),
            "max_in_flight": st.sampled_from([None, 3]),
            "rate": st.sampled_from([None, {"tokens": 5, "seconds": 1.0}, {"tokens": 5, "seconds": 1.0, "burst": 9}]),
            "requires": st.sampled_from([None, {"labels": {"zone": "a"}, "resources": {"gpu": 1.0}}]),
            "concurrency": st.sampled_from([None, {"key": ["/customer/id", "/a~1b"], "max_in_flight": 2}]),
            "tags": st.lists(st.sampled_from(["a", "b"]), max_size=3),
            "retry": st.fixed_dictionaries(
                {},
                optional={
                    "max_attempts": st.integers(1, 9),
                    "factor": st.sampled_from([1.0, 2.0, 3.5]),
                    "jitter": st.sampled_from(["full", "equal", "none"]),
                    "max_age_seconds": st.sampled_from([None, 60.0]),
                    "non_retryable": st.lists(st.just("ValueError"), max_size=2),
                },
            ),
        },
    )
)
def test_a_task_as_it_is_declared_is_what_is_there(spec):
    normal = Tasks().normal(Tasks().read("x", spec, NOBODYS), None)
    present = Present(kind=Kind.TASK, name="x", revision=1, owner=None, normal=normal, row=None)
    declared = json.loads(json.dumps(dict(Tasks().declared(present).spec)))

    assert same(Tasks().normal(Tasks().read("x", declared, NOBODYS), present), normal)
    assert declared.get("queue") != "default"


BASE = "/v1/tenants/acme"


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        yield opened


async def declared_by(client):
    """Everything that there is, as documents."""
    documents, following = [], f"{BASE}/declarations?limit=7"
    while following:
        page = (await client.get(following)).json()
        documents += [{key: item[key] for key in ("kind", "name", "spec")} for item in page["items"]]
        following = page["next"]
    return documents


async def test_everything_that_is_there_declared_comes_to_nothing(client):
    calendar = {"week": ["mon", "tue"], "days": [{"date": "2027-12-24", "hours": [["09:00", "13:00"]], "label": "Eve"}]}
    await client.post(f"{BASE}/calendars", json={"name": "de", "definition": calendar, "effective_from": "2026-01-01"})
    await client.post(f"{BASE}/tasks", json={"name": "load", "retry": {"max_attempts": 2}, "tags": ["b", "a"]})
    node = {"id": "a", "task": "load", "retry": {"max_attempts": 7}, "input": {"$ref": "run.input"}}
    graph = {"nodes": [node, {"id": "b", "task": "load", "needs": ["a"]}], "tags": ["x"], "fail_fast": True}
    assert (await client.post(f"{BASE}/workflows", json={"name": "etl", "definition": graph})).status_code == 201
    whole = {"nodes": [{"id": "sub", "workflow": "etl"}]}
    assert (await client.post(f"{BASE}/workflows", json={"name": "all", "definition": whole})).status_code == 201
    for number, trigger in enumerate(TRIGGERS):
        body = {"name": f"s{number:02}", "task": "report", "trigger": trigger, "input": {"big": 1e25, "n": [1.5, None]}}
        assert (await client.post(f"{BASE}/schedules", json=body)).status_code == 201, trigger
    for name, more in {
        "flow": {"task": None, "workflow": "etl", "paused": "SMTP migration"},
        "smooth": {"flex": {"mode": "smooth", "window_seconds": 600}},
        "preset": {"preset": "kubernetes", "timezone": "Europe/Berlin"},
        "rich": {"catch_up": {"policy": "replay", "rate": 10, "on_edit": {"policy": "skip"}}},
    }.items():  # fmt: skip
        body = {"name": name, "task": "report", "trigger": {"kind": "cron", "expr": "30 2 * * *"}, **more}
        assert (await client.post(f"{BASE}/schedules", json=body)).status_code == 201, name
    await client.post(f"{BASE}/forecast/smooth")

    documents = await declared_by(client)
    answer = await client.post(f"{BASE}/declarations/plan", json={"documents": documents})

    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert [item for item in items if item["action"] != "unchanged"] == []
    assert len(items) == len(TRIGGERS) + 4 + 2 + 2 + 1
    specs = {item["name"]: item["spec"] for item in documents}
    assert specs["flow"]["paused"] == "SMTP migration"
    assert specs["smooth"]["flex"] == {"mode": "smooth", "window_seconds": 600}
    assert specs["preset"]["trigger"] == {"kind": "cron", "expr": "30 2 * * *"}
    assert specs["load"] == {"retry": {"max_attempts": 2}, "tags": ["a", "b"]}
