"""Calendars over HTTP, and what a schedule's preview says of them."""

import pytest

from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/calendars"
SCHEDULES = "/v1/tenants/acme/schedules"
WEEK = ["mon", "tue", "wed", "thu", "fri"]
DE = {"week": WEEK, "days": [{"date": "2027-03-26", "hours": "closed", "label": "Good Friday"}]}


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        yield opened


async def test_a_calendar_is_made_read_replaced_listed_and_deleted(client):
    made = await client.post(PATH, json={"name": "de", "definition": DE, "reason": "first"})
    again = await client.post(PATH, json={"name": "de", "definition": {}})
    changed = await client.put(f"{PATH}/de", json={"definition": {}, "effective_from": "2027-07-01"})
    listed = (await client.get(PATH)).json()["items"]
    versions = (await client.get(f"{PATH}/de/versions", params={"limit": 1})).json()
    rest = (await client.get(versions["next"])).json()["items"]
    old = (await client.get(f"{PATH}/de/versions/1")).json()

    assert (made.status_code, made.headers["Location"]) == (201, f"{PATH}/de")
    assert (again.status_code, again.json()["code"]) == (409, "calendar.exists")
    assert (changed.json()["version"], changed.json()["effective_from"]) == (2, "2027-07-01")
    assert [(item["name"], item["version"]) for item in listed] == [("de", 2)]
    assert versions["items"][0]["reason"] == "first"
    assert [item["version"] for item in rest] == [2]
    assert old == {"version": 1, "definition": DE}
    assert (await client.delete(f"{PATH}/de")).status_code == 204
    assert (await client.get(f"{PATH}/de")).status_code == 404


async def test_a_year_tells_open_closed_and_partly_open_days(client):
    eve = {"date": "2027-12-24", "hours": [["09:00", "13:00"]], "label": "Christmas Eve"}
    await client.post(PATH, json={"name": "de", "definition": {"week": WEEK, "days": [*DE["days"], eve]}})
    year = (await client.get(f"{PATH}/de/years/2027")).json()
    days = {day["date"]: day for day in year["days"]}

    assert (len(days), year["open_days"]) == (365, 260)
    assert days["2027-03-26"]["state"] == "closed"
    assert days["2027-03-25"] == {"date": "2027-03-25", "state": "open", "hours": "open", "label": "", "version": 1}
    assert (days["2027-12-24"]["state"], days["2027-12-24"]["hours"]) == ("part", [["09:00", "13:00"]])


WRONG = [
    ({"definition": {"week": ["mo"]}}, "/definition/week/0"),
    ({"definition": {"days": [{"date": "x", "hours": "open"}]}}, "/definition/days/0/date"),
    ({"definition": {"months": []}}, "/definition"),
    ({"definition": []}, "/definition"),
    ({"definition": {}, "effective_from": "tomorrow"}, "/effective_from"),
    ({"definition": {}, "effective_from": "1066-10-14"}, "/effective_from"),
    ({"definition": {}, "version": 3}, "/version"),
]


@pytest.mark.parametrize(("body", "pointer"), WRONG, ids=range(len(WRONG)))
async def test_a_wrong_calendar_is_refused_where_it_is_wrong(client, body, pointer):
    answer = await client.post(PATH, json={"name": "de", **body})

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_a_preview_flags_what_is_excluded_and_what_is_rolled(client):
    await client.post(PATH, json={"name": "sundays", "definition": {"week": ["sun"]}})
    timing = {"trigger": {"kind": "cron", "expr": "0 9 * * 0,1"}, "timezone": "Europe/Berlin"}
    excluded = await client.post(f"{SCHEDULES}/preview", json={**timing, "calendars": {"open": ["sundays"]}})
    rolled = await client.post(
        f"{SCHEDULES}/preview",
        json={**timing, "trigger": {"kind": "cron", "expr": "0 9 * * 1"},
              "calendars": {"open": ["sundays"], "roll": "preceding"}},
    )  # fmt: skip

    assert {(item["verdict"], *item["flags"]) for item in excluded.json()["items"]} == {
        ("fires",),
        ("skipped", "excluded"),
    }
    assert {tuple(item["flags"]) for item in rolled.json()["items"]} == {("rolled",)}
    assert all(item["due_at"] < item["at"] for item in rolled.json()["items"])


async def test_a_schedule_keeps_its_calendars_through_changes_and_lets_them_go(client):
    await client.post(PATH, json={"name": "de", "definition": DE})
    body = {"name": "payroll", "task": "report", "trigger": {"kind": "cron", "expr": "0 18 28 * *"}}
    made = await client.post(SCHEDULES, json={**body, "calendars": {"open": ["de"], "roll": "preceding"}})
    changed = await client.patch(f"{SCHEDULES}/payroll", json={"timezone": "Europe/Berlin"})
    refused = await client.delete(f"{PATH}/de")
    freed = await client.patch(f"{SCHEDULES}/payroll", json={"calendars": None})

    assert made.json()["calendars"] == {"open": ["de"], "closed": [], "roll": "preceding"}
    assert changed.json()["calendars"] == made.json()["calendars"]
    assert (refused.status_code, refused.json()["code"]) == (409, "calendar.in_use")
    assert freed.json()["calendars"] is None
    assert (await client.delete(f"{PATH}/de")).status_code == 204


async def test_a_schedule_that_names_no_calendar_there_is_is_refused_by_its_field(client):
    body = {"name": "payroll", "task": "report", "trigger": {"kind": "cron", "expr": "0 18 28 * *"}}
    answer = await client.post(SCHEDULES, json={**body, "calendars": {"open": ["de"]}})

    assert (answer.status_code, answer.json()["code"]) == (422, "calendar.unknown")
    assert answer.json()["errors"][0]["pointer"] == "/calendars"


async def test_the_last_business_day_is_previewed_in_words_and_days(client):
    await client.post(PATH, json={"name": "de", "definition": DE})
    trigger = {"kind": "business_day", "nth": -1, "times": ["18:00"], "calendar": "de"}
    seen = (await client.post(f"{SCHEDULES}/preview", json={"trigger": trigger, "count": 3})).json()

    assert seen["sentence"] == "At 18:00 on the last business day of every month, by calendar de."
    assert seen["fires_per_year"] == 12
