"""Every kind of trigger over HTTP: previewed, created, read back, and refused where it is wrong."""

import pytest

from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/schedules"
CRON = {"kind": "cron", "expr": "0 9 * * *"}

KINDS = [
    CRON,
    {"kind": "every", "every": "PT90M"},
    {"kind": "every", "every": "P1M", "mode": "wall", "anchor": "2024-01-31T09:00"},
    {"kind": "at", "at": "2999-01-01T00:00"},
    {"kind": "rrule", "rrule": "FREQ=MONTHLY;BYDAY=-1FR", "dtstart": "2024-01-01T09:00:00"},
    {"kind": "rrule", "rrule": "DTSTART:20240101T090000\nRRULE:FREQ=DAILY\nEXDATE:20240102T090000"},
    {"kind": "daily", "times": ["09:00", "17:30"]},
    {"kind": "weekly", "weekdays": ["MON", "FRI"], "times": ["09:00"], "every": 2, "anchor": "2024-01-01"},
    {"kind": "monthly", "days": [1, -1], "times": ["09:00"]},
    {"kind": "monthly", "on": [{"weekday": "FRI", "nth": -1}], "times": ["09:00"]},
    {"kind": "yearly", "months": ["JAN", "JUL"], "days": [1], "times": ["00:00:30"]},
    {
        "kind": "any_of",
        "triggers": [CRON, {"kind": "daily", "times": ["12:00"]}],
        "except": [{"kind": "weekly", "weekdays": ["SAT", "SUN"], "times": ["09:00", "12:00"]}],
        "start": "2024-01-01T00:00",
        "end": "2999-01-01T00:00:00Z",
    },
]


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


@pytest.mark.parametrize("trigger", KINDS, ids=lambda trigger: trigger["kind"])
async def test_a_kind_is_previewed_created_and_previewed_alike(client, trigger):
    timing = {"trigger": trigger, "timezone": "Europe/Berlin"}

    before = await client.post(f"{PATH}/preview", json=timing | {"count": 3})
    made = await client.post(PATH, json=timing | {"name": "one", "task": "report"})
    read = (await client.get(f"{PATH}/one")).json()
    after = await client.get(f"{PATH}/one/preview", params={"count": 3})
    again = await client.patch(f"{PATH}/one", json={"trigger": read["trigger"]})

    assert (before.status_code, made.status_code, after.status_code, again.status_code) == (200, 201, 200, 200)
    fires = [item["at"] for item in before.json()["items"] if item["verdict"] == "fires"]
    assert fires == [item["at"] for item in after.json()["items"] if item["verdict"] == "fires"]
    assert read["next_at"] == fires[0]
    assert again.json()["trigger"] == read["trigger"]
    assert trigger.items() <= (read["trigger"] | {"except": trigger.get("except"), **_given(trigger)}).items()


def _given(trigger):
    # Members of a union are read back with their defaults, and times with their seconds.
    return {key: trigger[key] for key in ("triggers", "except", "start", "end", "at", "anchor") if key in trigger}


async def test_an_excluded_instant_is_shown_with_its_flag_and_its_reason(client):
    trigger = {
        "kind": "any_of",
        "triggers": [{"kind": "daily", "times": ["09:00", "10:00"]}],
        "except": [{"kind": "daily", "times": ["10:00"]}],
    }

    items = (await client.post(f"{PATH}/preview", json={"trigger": trigger, "count": 3})).json()["items"]

    excluded = [item for item in items if item["verdict"] == "skipped"]
    assert excluded
    assert {(item["reason"], *item["flags"]) for item in excluded} == {("calendar.excluded", "excluded")}
    assert all("T10:00" in item["local"] for item in excluded)


NESTED = {"kind": "any_of", "triggers": [CRON, {"kind": "any_of", "triggers": [{**CRON, "expr": "61 * * * *"}]}]}
DEEP = {"kind": "any_of", "triggers": [{"kind": "any_of", "triggers": [{"kind": "any_of", "triggers": [NESTED]}]}]}
WRONG = [
    ({"kind": "rrule", "rrule": "FREQ=DAILY"}, "/trigger/dtstart", "trigger.field.missing"),
    (
        {"kind": "rrule", "rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "dtstart": "2024-01-01T00:00"},
        "/trigger/rrule",
        "trigger.rrule.unreachable",
    ),
    ({"kind": "rrule", "rrule": "x" * 4097, "dtstart": "2024-01-01T00:00"}, "/trigger/rrule", "field.invalid"),
    ({"kind": "daily", "times": ["9:00"]}, "/trigger/times", "trigger.rule.times"),
    ({"kind": "daily", "times": ["09:00"], "weekdays": ["MON"]}, "/trigger/weekdays", "field.unknown"),
    ({"kind": "daily", "times": ["09:00"], "every": 2}, "/trigger/anchor", "trigger.rule.anchor"),
    ({"kind": "weekly", "times": ["09:00"]}, "/trigger/weekdays", "field.missing"),
    ({"kind": "monthly", "times": ["09:00"]}, "/trigger/days", "trigger.rule.days"),
    ({"kind": "monthly", "times": ["09:00"], "days": [0]}, "/trigger/days", "trigger.rule.days"),
    ({"kind": "every", "every": "P1M"}, "/trigger/every", "trigger.every.calendar_unit"),
    (NESTED, "/trigger/triggers/1/triggers/0/expr", "trigger.cron.value"),
    (DEEP, "/trigger/triggers/0/triggers/0/triggers/0/triggers", "trigger.any_of.size"),
    (
        {"kind": "any_of", "triggers": [CRON], "except": [{"kind": "daily"}]},
        "/trigger/except/0/times",
        "field.missing",
    ),
    ({"kind": "any_of", "triggers": [CRON], "max_runs": 3}, "/trigger/start", "trigger.any_of.max_runs"),
    ({"kind": "any_of", "triggers": [CRON], "except": [CRON]}, "/trigger/except", "trigger.except.work"),
]


@pytest.mark.parametrize(("trigger", "pointer", "code"), WRONG, ids=range(len(WRONG)))
async def test_a_wrong_trigger_is_refused_where_it_is_wrong(client, trigger, pointer, code):
    answer = await client.post(PATH, json={"name": "one", "task": "report", "trigger": trigger})

    assert answer.status_code == 422
    assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [(pointer, code)]
