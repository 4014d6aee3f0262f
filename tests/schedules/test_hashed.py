"""`H` in a cron expression: drawn from the schedule's uid, for ever, and from something else in a preview only."""

from datetime import UTC, datetime, timedelta

import pytest

from everwhen.core.triggers import AnyOf, Cron, Timing, fires, parse_trigger, seed_trigger
from everwhen.schedules.scheduler import Scheduler
from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

HASHED = {"kind": "cron", "expr": "H * * * *", "dialect": "vixie-ext"}
PATH = "/v1/tenants/acme/schedules"
START = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


async def create(client, name, trigger=HASHED):
    answer = await client.post(PATH, json={"name": name, "task": "report", "trigger": trigger})
    assert answer.status_code == 201, answer.text
    return answer.json()


def minute_of(answer):
    return int(answer["next_at"][14:16])


def minute_by_core(uid, expr="H * * * *"):
    cron = Cron(expr, dialect="vixie-ext", hash_seed=uid)
    return next(fires(Timing(cron), after=START, count=1)).minute


async def test_schedules_get_minutes_of_their_own_which_are_those_of_the_core(client):
    made = [await create(client, f"s{number}") for number in range(6)]

    assert [minute_of(each) for each in made] == [minute_by_core(each["uid"]) for each in made]
    assert len({minute_of(each) for each in made}) > 1
    assert {each["trigger"]["hash_seed"] for each in made} == {each["uid"] for each in made}


async def test_the_minute_outlasts_changes_and_planning(client, database):
    made = await create(client, "one")
    path = f"{PATH}/one"
    scheduler = Scheduler(database=database, ahead=timedelta(hours=2))
    async with database.system() as conn:
        now = conn.now
    drawn = minute_by_core(made["uid"])
    assert (await client.patch(path, json={"trigger": {"kind": "cron", "expr": "7 * * * *"}})).status_code == 200
    for change in ({"trigger": HASHED}, {"priority": 3}, {"timezone": "Europe/Berlin"}, {"trigger": made["trigger"]}):
        assert minute_of((await client.patch(path, json=change)).json()) == drawn
        await scheduler.tick(now)

    assert minute_of((await client.get(path)).json()) == drawn
    async with database.system() as conn:
        planned = await (
            await conn.execute("select distinct extract(minute from nominal_at) from everwhen.runs")
        ).fetchall()
    assert {int(minute) for (minute,) in planned} == {drawn}


async def test_a_seed_that_is_sent_with_a_schedule_is_replaced_by_its_uid(client):
    made = await create(client, "one", HASHED | {"hash_seed": "mine"})
    changed = (await client.patch(f"{PATH}/one", json={"trigger": HASHED | {"hash_seed": "mine"}})).json()

    assert made["trigger"]["hash_seed"] == changed["trigger"]["hash_seed"] == made["uid"]
    assert minute_of(made) == minute_of(changed) == minute_by_core(made["uid"])


async def test_the_members_of_an_any_of_are_drawn_as_well(client):
    trigger = {
        "kind": "any_of",
        "triggers": [HASHED, {"kind": "every", "every": "P1D"}],
        "except": [HASHED | {"expr": "H 3 * * *"}],
    }
    made = await create(client, "one", trigger)

    assert made["trigger"]["triggers"][0]["hash_seed"] == made["trigger"]["except"][0]["hash_seed"] == made["uid"]


async def test_an_unsaved_preview_says_what_it_was_drawn_from(client):
    made = await create(client, "one")
    unsaved = (await client.post(f"{PATH}/preview", json={"trigger": HASHED})).json()
    given = (await client.post(f"{PATH}/preview", json={"trigger": HASHED | {"hash_seed": "mine"}})).json()
    saved = (await client.get(f"{PATH}/one/preview")).json()
    other = (await client.post(f"{PATH}/preview", json={"trigger": {"kind": "cron", "expr": "1 * * * *"}})).json()

    assert [each["hash_seed"] for each in (unsaved, given, saved, other)] == ["preview", "mine", made["uid"], None]
    assert [int(each["items"][0]["at"][14:16]) for each in (unsaved, given, saved)] == [
        minute_by_core(seed) for seed in ("preview", "mine", made["uid"])
    ]


@pytest.mark.parametrize("seed", ["\\u0000", "\\ud800", "\\u00fc", "x" * 64])
async def test_any_text_is_a_seed_or_is_refused(client, seed):
    body = f'{{"trigger": {{"kind": "cron", "expr": "H * * * *", "dialect": "vixie-ext", "hash_seed": "{seed}"}}}}'
    answer = await client.post(f"{PATH}/preview", content=body, headers={"content-type": "application/json"})

    assert answer.status_code in {200, 422}


@pytest.mark.parametrize(
    ("expr", "dialect", "seeded"),
    [
        ("H * * * *", "vixie-ext", True),
        ("0 h(1-5) * * *", "vixie-ext", True),
        ("H/15 * * * THU", "vixie-ext", True),
        ("0 9 * * THU", "vixie-ext", False),
        ("0 9 * * THU", "vixie", False),
    ],
)
def test_only_what_has_an_h_carries_a_seed(expr, dialect, seeded):
    trigger = parse_trigger({"kind": "cron", "expr": expr, "dialect": dialect, "hash_seed": "other"})
    found = seed_trigger(AnyOf(triggers=(trigger,)), "uid")

    assert found == AnyOf(triggers=(Cron(expr, dialect=dialect, hash_seed="uid" if seeded else ""),))
