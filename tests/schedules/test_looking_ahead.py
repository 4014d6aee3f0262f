"""Looking ahead through the API and the real scheduler: plans of changes, forecasts, smoothing, flex and previews."""

from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
import pytest

from everwhen import clock
from everwhen.core.compare import compare
from everwhen.core.flex import Flex, FlexMode
from everwhen.core.ids import instant_of
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.runs import service as runs
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from tests.database import TestServer
from tests.factories import TESTER, make_task, make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/schedules"
FORECAST = "/v1/tenants/acme/forecast"
CRON = {"kind": "cron", "expr": "30 2 * * *"}
GOOD = {"name": "nightly", "task": "report", "trigger": CRON, "timezone": "Europe/Berlin"}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


def rows_of(server: TestServer, database: str) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    with psycopg.connect(server.superuser(database), autocommit=True) as conn:
        tables = [
            name
            for (name,) in conn.execute(
                "select oid::regclass::text from pg_class where relnamespace = 'everwhen'::regnamespace"
                " and relkind in ('r', 'p') and not relispartition order by 1"
            )
        ]
        return {
            table: [row for (row,) in conn.execute(f"select t::text from {table} t order by 1")] for table in tables
        }


async def test_a_dry_run_lists_what_a_change_would_do_and_persists_nothing(client, server, work_database, database):
    await client.post(PATH, json={**GOOD, "trigger": {"kind": "every", "every": "PT1S"}})
    async with database.system() as conn:
        now = conn.now
    await Scheduler(database=database).tick(now)
    before = rows_of(server, work_database)
    answer = await client.patch(f"{PATH}/nightly?dry_run=true&days=1", json={"trigger": CRON, "reason": "why"})
    found = answer.json()

    assert answer.status_code == 200
    assert rows_of(server, work_database) == before
    assert (found["dry_run"], found["revision"], found["paused"]) == (True, 2, False)
    assert found["removed"] > 9_000  # the comparison is cut where the side that fires every second is
    assert len(found["withdrawn"]) > 20
    assert all(datetime.fromisoformat(at) > now for at in found["withdrawn"])
    assert len(found["moves"]) == 200


async def test_a_dry_run_says_what_the_change_itself_then_does(client):
    now = clock.process_now().astimezone(ZoneInfo("Europe/Berlin"))
    old, new = now + timedelta(hours=6), now + timedelta(hours=8)  # both ahead today, or both tomorrow
    if old.date() < new.date():
        old, new = now + timedelta(hours=14), now + timedelta(hours=16)
    await client.post(PATH, json={**GOOD, "trigger": {"kind": "cron", "expr": f"{old:%M} {old:%H} * * *"}})
    change = {"trigger": {"kind": "cron", "expr": f"{new:%M} {new:%H} * * *"}}
    planned = (await client.patch(f"{PATH}/nightly?dry_run=true&days=30", json=change)).json()
    before = (await client.get(f"{PATH}/nightly")).json()
    changed = (await client.patch(f"{PATH}/nightly", json=change)).json()
    found = compare(*(Timing(parse_trigger(each["trigger"]), "Europe/Berlin") for each in (before, changed)),
                    after=datetime.fromisoformat(changed["updated_at"]),
                    until=datetime.fromisoformat(planned["until"]))  # fmt: skip

    assert before["revision"] == 1
    assert changed["revision"] == planned["revision"] == 2
    assert (planned["added"], planned["removed"]) == (0, 0)
    assert planned["moved"] == len(found.moves) == 30
    assert planned["moves"][0]["new_at"] == changed["next_at"]
    assert planned["moves"][0]["kind"] == "moved"


async def test_a_dry_run_is_refused_for_the_reasons_of_the_change(client):
    await client.post(PATH, json=GOOD)
    for body, status in (({"task": "nope"}, 422), ({"timezone": "X/Y"}, 422), ({"flex": {"mode": "hash"}}, 422)):
        real = await client.patch(f"{PATH}/nightly", json=body)
        tried = await client.patch(f"{PATH}/nightly?dry_run=true", json=body)
        assert (tried.status_code, tried.json()["errors"]) == (status, real.json()["errors"])
    assert (await client.patch(f"{PATH}/nobody?dry_run=true", json={})).status_code == 404
    assert (await client.get(f"{PATH}/nightly")).json()["revision"] == 1


async def test_a_dry_run_of_a_paused_schedule_says_so(client):
    await client.post(PATH, json=GOOD)
    await client.post(f"{PATH}/nightly/pause", json={"reason": "holidays"})

    found = (await client.patch(f"{PATH}/nightly?dry_run=true", json={"priority": 1})).json()
    assert (found["paused"], found["moves"], found["withdrawn"]) == (True, [], [])


async def test_a_preview_tells_neighbours_transitions_and_how_often(client):
    await client.post(PATH, json=GOOD)
    await client.post(PATH, json={**GOOD, "name": "other"})
    await client.post(PATH, json={**GOOD, "name": "elsewhere", "timezone": "Asia/Kathmandu"})
    found = (await client.get(f"{PATH}/nightly/preview?count=3")).json()
    unsaved = (await client.post(f"{PATH}/preview", json={"trigger": CRON, "timezone": "Europe/Berlin"})).json()

    assert [fire["neighbours"] for fire in found["items"]] == [2, 2, 2]
    assert found["neighbours_complete"]
    assert (found["fires_per_year"], found["fires_per_year_exact"]) == (365, True)
    assert [(touch["moved"], touch["once"]) for touch in found["transitions"]] in (
        [(1, 0), (0, 1)] * 2, [(0, 1), (1, 0)] * 2)  # fmt: skip
    assert found["sentence"] == "At 02:30 every day."
    assert found["tz_version"]
    assert unsaved["items"][0]["due_at"] == unsaved["items"][0]["at"]


async def test_a_flexed_fire_is_flagged_with_when_it_is_due(client):
    await client.post(PATH, json={**GOOD, "flex": {"mode": "hash", "window_seconds": 3600}})
    saved = (await client.get(f"{PATH}/nightly/preview?count=1")).json()["items"][0]
    body = {"trigger": CRON, "flex": {"mode": "hash", "window_seconds": 3600}}
    unsaved = (await client.post(f"{PATH}/preview", json=body)).json()["items"][0]

    assert saved["flags"] == ["flexed"]
    assert timedelta(0) < datetime.fromisoformat(saved["due_at"]) - datetime.fromisoformat(saved["at"])
    assert (unsaved["due_at"], unsaved["flags"]) == (None, ["flexed"])


async def make_flexed(database, tenant, *, offset: timedelta):
    flex = Flex(mode=FlexMode.SMOOTH, window=timedelta(hours=1), offset=offset)
    spec = Spec(timing=Timing(parse_trigger({"kind": "cron", "expr": "0 * * * *"})), flex=flex)
    draft = ScheduleDraft(name="hourly", task="report", spec=spec)
    made = await schedules.create_schedule(database, tenant_id=tenant.id, draft=draft, change=TESTER)
    at = made.created_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    async with database.system() as conn:
        await conn.execute("update everwhen.watermarks set decided_until = %s, next_at = %s",
                           (at - timedelta(seconds=1), at))  # fmt: skip
    return at


async def test_a_flexed_run_waits_until_it_is_due_and_is_found_by_its_nominal_instant(database, tenant):
    at = await make_flexed(database, tenant, offset=timedelta(minutes=7))
    await Scheduler(database=database).tick(at)
    view = await runs.get_run(database, tenant_id=tenant.id, ref=f"hourly@{at.isoformat()}")

    assert (view.row.nominal_at, view.row.due_at) == (at, at + timedelta(minutes=7))
    assert instant_of(view.row.run_id) == at + timedelta(minutes=7)


async def test_a_change_withdraws_no_run_whose_instant_has_passed(database, tenant):
    """Its watermark covers it: withdrawn, it would never come back."""
    at = await make_flexed(database, tenant, offset=timedelta(minutes=59, seconds=59))
    async with database.system() as conn:
        now = conn.now
    await Scheduler(database=database).tick(now)
    await schedules.update_schedule(
        database, tenant_id=tenant.id, name="hourly", changes=lambda _: {"priority": 1}, change=TESTER
    )
    async with database.system() as conn:
        nominals = await (await conn.execute("select nominal_at from everwhen.runs order by 1")).fetchall()

    assert [row[0] for row in nominals][:1] == [at]


async def test_the_forecast_counts_names_the_herd_and_is_drawn(client):
    for number in range(6):
        trigger = {"kind": "cron", "expr": "0 * * * *" if number < 5 else "30 * * * *"}
        await client.post(PATH, json={**GOOD, "name": f"s{number}", "trigger": trigger})
    query = {"from": "2027-01-04T00:10:30Z", "hours": 3}
    found = (await client.get(FORECAST, params=query)).json()
    drawn = await client.get(f"{FORECAST}.svg", params=query)

    assert found["start"] == "2027-01-04T00:10:00Z"
    assert (found["due"], found["schedules"], found["complete"]) == (18, 6, True)
    assert found["peak"] == {"at": "2027-01-04T01:00:00Z", "due": 5}
    assert (found["herd"]["minute"], found["herd"]["due"]) == (0, 15)
    assert len(found["per_minute"]) == 180
    assert drawn.headers["content-type"].startswith("image/svg+xml")
    assert "style-src 'unsafe-inline'" in drawn.headers["content-security-policy"]
    assert ":00 of an hour" in drawn.text


async def test_smoothing_reports_the_peak_and_then_stores_offsets_as_revisions(client):
    for number in range(12):
        body = {**GOOD, "name": f"s{number:02}", "trigger": {"kind": "cron", "expr": "0 * * * *"}}
        await client.post(PATH, json={**body, "flex": {"mode": "smooth", "window_seconds": 240}})
    await client.post(PATH, json={**GOOD, "name": "fixed", "trigger": {"kind": "cron", "expr": "0 * * * *"}})
    tried = (await client.post(f"{FORECAST}/smooth?dry_run=true&hours=6")).json()
    untouched = (await client.get(f"{PATH}/s00")).json()
    applied = (await client.post(f"{FORECAST}/smooth?hours=6")).json()
    again = (await client.post(f"{FORECAST}/smooth?dry_run=true&hours=6")).json()
    revisions = (await client.get(f"{PATH}/s00/revisions")).json()["items"]

    assert (tried["applied"], untouched["revision"]) == (False, 1)
    assert tried["after"]["due"] <= tried["before"]["due"]  # by their uids they may lie well already
    assert tried["after"]["due"] == 4  # twelve over four minutes, and one that may not move
    assert applied["changed"] == tried["changed"]
    assert again["before"]["due"] == again["after"]["due"] == 4
    assert again["changed"] == []
    assert [(each["changed_by"], "offset_seconds" in each["spec"]["flex"]) for each in revisions][1:] == [("ann", True)]
    assert "busiest minute" in revisions[1]["reason"]


async def test_the_platform_forecasts_all_tenants_and_a_tenant_only_its_own(database, client):
    other = await make_tenant(database, name="other")
    await make_task(database, other)
    for name, token in (("acme", "x"), ("other", "y")):
        tenant_id = other.id if name == "other" else None
        assert token
        if tenant_id:
            async with client_of(app_on(database), token_of("admin", tenant_id=tenant_id)) as theirs:
                await theirs.post("/v1/tenants/other/schedules", json=GOOD)
                assert (await theirs.get("/v1/forecast")).status_code == 403
    await client.post(PATH, json=GOOD)
    own = (await client.get(FORECAST)).json()
    async with client_of(app_on(database), token_of("platform")) as platform:
        everybody = (await platform.get("/v1/forecast?hours=24")).json()

    assert (own["schedules"], everybody["schedules"]) == (1, 2)


async def test_a_schedule_that_cannot_be_read_is_named_and_stops_no_forecast(database, client):
    await client.post(PATH, json=GOOD)
    await client.post(PATH, json={**GOOD, "name": "broken"})
    async with database.system() as conn:
        await conn.execute(
            """update everwhen.schedules set spec = '{"trigger": {"kind": "lunar"}}' where name = 'broken'"""
        )
    found = (await client.get(FORECAST)).json()

    assert (found["complete"], found["cut"], found["schedules"]) == (False, ["broken"], 1)
    assert UUID((await client.get(f"{PATH}/nightly")).json()["uid"])
