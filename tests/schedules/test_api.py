"""Schedules over HTTP: what is accepted, what is refused and where it points."""

import pytest

from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of
from tests.seasons import next_years_change

CRON = {"kind": "cron", "expr": "30 2 * * *"}
GOOD = {"name": "nightly", "task": "report", "trigger": CRON}
PATH = "/v1/tenants/acme/schedules"


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


WRONG = [
    ([], "", "field.invalid"),
    (without("name"), "/name", "field.missing"),
    (without("task"), "", "field.invalid"),
    (without("trigger"), "/trigger", "field.missing"),
    ({**GOOD, "state": "paused"}, "/state", "field.unknown"),
    ({**GOOD, "tenant_id": "x"}, "/tenant_id", "field.unknown"),
    ({**GOOD, "revision": 7}, "/revision", "field.unknown"),
    ({**GOOD, "name": ""}, "/name", "field.invalid"),
    ({**GOOD, "name": "a b"}, "/name", "field.invalid"),
    ({**GOOD, "name": "a@b"}, "/name", "field.invalid"),
    ({**GOOD, "name": "a/b"}, "/name", "field.invalid"),
    ({**GOOD, "name": "a\n"}, "/name", "field.invalid"),
    ({**GOOD, "name": "x" * 201}, "/name", "field.invalid"),
    ({**GOOD, "name": 7}, "/name", "field.invalid"),
    ({**GOOD, "task": "nope"}, "/task", "task.unknown"),
    ({**GOOD, "priority": 10}, "/priority", "field.invalid"),
    ({**GOOD, "priority": "5"}, "/priority", "field.invalid"),
    ({**GOOD, "priority": True}, "/priority", "field.invalid"),
    ({**GOOD, "input": "x" * 70_000}, "/input", "field.invalid"),
    ({**GOOD, "trigger": "30 2 * * *"}, "/trigger", "field.invalid"),
    ({**GOOD, "trigger": {}}, "/trigger", "field.invalid"),
    ({**GOOD, "trigger": {"kind": "moon"}}, "/trigger", "field.invalid"),
    ({**GOOD, "trigger": {"kind": "cron"}}, "/trigger/expr", "field.missing"),
    ({**GOOD, "trigger": {**CRON, "zone": "UTC"}}, "/trigger/zone", "field.unknown"),
    ({**GOOD, "trigger": {**CRON, "seconds": 1}}, "/trigger/seconds", "field.invalid"),
    ({**GOOD, "trigger": {**CRON, "expr": "x" * 257}}, "/trigger/expr", "field.invalid"),
    ({**GOOD, "trigger": {**CRON, "expr": "0 0 31 2 *"}}, "/trigger/expr", "trigger.cron.unreachable"),
    ({**GOOD, "trigger": {**CRON, "dialect": "moon"}}, "/trigger/dialect", "trigger.cron.dialect"),
    ({**GOOD, "trigger": {"kind": "every", "every": "15m"}}, "/trigger/every", "trigger.every.syntax"),
    ({**GOOD, "trigger": {"kind": "at", "at": "2026-02-30T00:00Z"}}, "/trigger/at", "trigger.instant.range"),
    ({**GOOD, "timezone": "Mars/Base"}, "/timezone", "trigger.timezone.unknown"),
    ({**GOOD, "timezone": "../../etc/passwd"}, "/timezone", "trigger.timezone.unknown"),
    ({**GOOD, "gap": "leap"}, "/gap", "field.invalid"),
    ({**GOOD, "fold": "both "}, "/fold", "field.invalid"),
    ({**GOOD, "catch_up": {"policy": "later"}}, "/catch_up/policy", "field.invalid"),
    ({**GOOD, "catch_up": {"grace_seconds": -1}}, "/catch_up/grace_seconds", "field.invalid"),
    ({**GOOD, "catch_up": {"grace_seconds": "60"}}, "/catch_up/grace_seconds", "field.invalid"),
    ({**GOOD, "catch_up": {"window_seconds": 1e300}}, "/catch_up/window_seconds", "field.invalid"),
    ({**GOOD, "catch_up": {"grace": 1}}, "/catch_up/grace", "field.unknown"),
]


@pytest.mark.parametrize(("body", "pointer", "code"), WRONG, ids=range(len(WRONG)))
async def test_a_wrong_schedule_is_refused_where_it_is_wrong(client, body, pointer, code):
    answer = await client.post(PATH, json=body)
    errors = answer.json()["errors"]

    assert answer.status_code == 422
    assert [(error["pointer"], error["code"]) for error in errors] == [(pointer, code)]
    assert (await client.get(PATH)).json()["items"] == []


async def test_a_schedule_is_created_once_and_read_back(client):
    body = {
        **GOOD,
        "timezone": "Europe/Berlin",
        "gap": "gap_end",
        "fold": "both",
        "catch_up": {"policy": "replay", "grace_seconds": 5, "window_seconds": 3600},
        "input": {"nested": [1, 2.5, None, "ü"]},
        "priority": 0,
    }
    made = await client.post(PATH, json=body)
    again = await client.post(PATH, json=body)
    read = await client.get(made.headers["location"])

    assert made.status_code == 201
    assert read.json() == made.json()
    assert {key: made.json()[key] for key in body if key != "trigger"} == {
        key: body[key] for key in body if key != "trigger"
    }
    assert made.json()["next_at"].endswith("Z")
    assert (again.status_code, again.json()["code"]) == (409, "schedule.exists")


async def test_a_change_replaces_what_it_names_and_clears_what_it_says_is_null(client):
    await client.post(PATH, json={**GOOD, "priority": 3, "gap": "skip", "timezone": "Europe/Berlin"})
    changed = await client.patch(f"{PATH}/nightly", json={"priority": None, "fold": "second", "reason": "why"})
    revisions = (await client.get(f"{PATH}/nightly/revisions")).json()["items"]

    assert changed.json()["priority"] is None
    assert (changed.json()["gap"], changed.json()["fold"]) == ("skip", "second")
    assert changed.json()["timezone"] == "Europe/Berlin"
    assert (revisions[1]["changed_by"], revisions[1]["reason"]) == ("ann", "why")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"task": None}, "/task"),
        ({"trigger": None}, "/trigger"),
        ({"name": "x"}, "/name"),
        ({"timezone": "X/Y"}, "/timezone"),
    ],
)
async def test_a_wrong_change_is_refused_and_changes_nothing(client, body, pointer):
    before = (await client.post(PATH, json=GOOD)).json()
    answer = await client.patch(f"{PATH}/nightly", json=body)

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert (await client.get(f"{PATH}/nightly")).json() == before


async def test_a_pause_needs_a_reason(client):
    await client.post(PATH, json=GOOD)
    for body in ({}, {"reason": ""}, {"reason": "a\u0007b"}, {"reason": "x" * 501}):
        answer = await client.post(f"{PATH}/nightly/pause", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/reason")


async def test_a_preview_flags_what_clock_changes_do(client):
    autumn, spring = (f"{next_years_change(month):%Y-%m-%d}T02:30" for month in (10, 3))
    body = {"trigger": {"kind": "at", "at": autumn}, "timezone": "Europe/Berlin", "fold": "both"}
    found = (await client.post(f"{PATH}/preview", json={**body, "count": 5})).json()

    assert [fire["local"] for fire in found["items"]] == [f"{autumn}:00+02:00", f"{autumn}:00+01:00"]
    assert [fire["flags"] for fire in found["items"]] == [["dst_fold"], ["dst_fold"]]
    assert found["exhausted"]
    gap = {"trigger": {"kind": "at", "at": spring}, "timezone": "Europe/Berlin", "gap": "skip"}
    skipped = (await client.post(f"{PATH}/preview", json=gap)).json()["items"]
    assert [(fire["verdict"], fire["reason"], fire["flags"]) for fire in skipped] == [
        ("skipped", "calendar.dst_gap", ["dst_gap"])
    ]


async def test_a_schedules_own_body_can_be_previewed(client):
    body = {key: value for key, value in GOOD.items() if key not in {"name", "task"}}

    assert (await client.post(f"{PATH}/preview", json={**body, "catch_up": {}})).status_code == 200


async def test_pages_lead_from_one_to_the_next(client):
    for name in ("a", "b", "c"):
        await client.post(PATH, json={**GOOD, "name": name})
    names, path = [], f"{PATH}?limit=2"
    while path:
        page = (await client.get(path)).json()
        names.append([schedule["name"] for schedule in page["items"]])
        path = page["next"]

    assert names == [["a", "b"], ["c"]]


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "cursor=nonsense", "cursor="])
async def test_a_wrong_page_is_refused(client, query):
    answer = await client.get(f"{PATH}?{query}")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("query:")


@pytest.mark.parametrize("name", ["%00", "a%20b", "..%2f..", "x" * 201, "%F0%9F%98%80"])
async def test_a_name_that_cannot_be_is_refused_and_reaches_nothing(client, name):
    assert (await client.get(f"{PATH}/{name}")).status_code in {404, 422}
    assert (await client.get(f"/v1/tenants/{name}/schedules")).status_code in {404, 422}
