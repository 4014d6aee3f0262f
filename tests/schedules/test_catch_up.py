"""Catching up from end to end: what is asked before, what a change does about its past, what workers are told."""

from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251  # a seed draws the same life again

import msgspec
import pytest

from everwhen.audit.sealer import ChainSealer
from everwhen.core.catchup import CatchUp, CatchUpPolicy, Keep, Order, Rule
from everwhen.core.triggers import Timing, parse_trigger
from everwhen.dispatch.api import _claimed
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.postgres import pool
from everwhen.schedules import service as schedules
from everwhen.schedules.model import ScheduleDraft, Spec
from everwhen.schedules.scheduler import Scheduler
from everwhen.verify.service import verify
from everwhen.worker import Context
from everwhen.worker.protocol import ClaimedRun
from tests.factories import TESTER, make_task, make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/schedules"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 12, 7, 12, 0, 30, tzinfo=UTC)
MINUTELY = {"kind": "cron", "expr": "* * * * *"}
GOOD = {"name": "nightly", "task": "report", "trigger": MINUTELY}


class Clock:
    """The database's clock, as everything but PostgreSQL itself sees it."""

    def __init__(self) -> None:
        self.now = NOON

    def pass_by(self, time: timedelta) -> None:
        self.now += time


@pytest.fixture
def clock(monkeypatch):
    moved, begin = Clock(), pool._begin

    async def begun(conn, statement):
        await begin(conn, statement)
        return moved.now

    monkeypatch.setattr(pool, "_begin", begun)
    return moved


@pytest.fixture(autouse=True)
async def every_promise_holds(database, clock):
    yield
    async with database.system() as conn:
        now = conn.now
    await ChainSealer(database=database).tick(now)  # the clock may have gone further than a sealer may be behind
    assert await verify(database) == {}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


async def rows(database, query, *parameters):
    async with database.system() as conn:
        return await (await conn.execute(query, parameters or None)).fetchall()


async def work(database, clock):
    """Let the scheduler do all that there is to do now."""
    scheduler = Scheduler(database=database)
    for _ in range(200):
        if not (await scheduler.tick(clock.now)).more:
            return
    raise AssertionError("there is always more")


async def answers(database):
    """How many instants have which answer, spans included; what is not due yet is left out."""
    found = await rows(
        database,
        "select coalesce(e.state, 'runs'), coalesce(e.reason, ''), count(*)::int from everwhen.runs r"
        " left join everwhen.run_ends e using (tenant_id, run_id) where r.nominal_at <= %s group by 1, 2"
        " union all select verdict, reason, sum(instants)::int from everwhen.spans group by 1, 2 order by 1",
        NOON + 10 * 24 * HOUR,
    )
    return {(state, reason): count for state, reason, count in found}


# Asking before --------------------------------------------------------------------------------------------------------


async def test_a_resume_says_what_becomes_of_the_gap_and_takes_another_rule_this_once(client, database, clock):
    await client.post(PATH, json=GOOD)
    await client.post(f"{PATH}/nightly/pause", json={"reason": "migration"})
    clock.pass_by(412 * MINUTE)
    asked = (await client.post(f"{PATH}/nightly/catch-up/preview")).json()
    rule = {"policy": "replay", "rate": 0.2}
    other = (await client.post(f"{PATH}/nightly/catch-up/preview", json={"catch_up": rule})).json()
    done = (await client.post(f"{PATH}/nightly/resume", json={"catch_up": rule})).json()

    assert asked["sentence"] == "412 passed in the pause; 412 would be recorded as skipped."
    assert other["sentence"] == "412 passed in the pause; replay of 412 would take 34 min at 0.2/s."
    assert (other["counts"]["runs"], other["seconds"], other["exact"]) == (412, 2060.0, True)
    assert (done["state"], done["left_behind"]["sentence"]) == ("active", other["sentence"])
    assert (await client.get(f"{PATH}/nightly")).json()["catch_up"].get("on_resume") is None
    await work(database, clock)
    turns = await rows(database, "select available_at from everwhen.waiting where priority = 4 order by 1")
    assert [at for (at,) in turns] == [clock.now + timedelta(seconds=5 * n) for n in range(len(turns))]
    assert 0 < len(turns) < 20


async def test_an_outage_is_previewed_and_a_preview_changes_nothing(client, database, clock):
    await client.post(PATH, json=GOOD)
    clock.pass_by(60 * MINUTE)
    before = await rows(database, "select count(*) from everwhen.arrears")
    latest = (await client.post(f"{PATH}/nightly/catch-up/preview", json={"cause": "outage"})).json()
    skip = (await client.post(f"{PATH}/nightly/catch-up/preview", json={"catch_up": {"policy": "skip"}})).json()
    nothing = await client.post(f"{PATH}/nightly/catch-up/preview", json={"cause": "resume"})

    assert latest["sentence"] == "60 missed; 1 run would stand for 60."
    assert skip["sentence"] == "60 missed; 60 would be recorded as missed."
    assert nothing.json()["code"] == "schedule.not_paused"
    assert await rows(database, "select count(*) from everwhen.arrears") == before


async def test_what_was_caught_up_on_is_listed(client, database, clock):
    await client.post(PATH, json=GOOD)
    clock.pass_by(60 * MINUTE)
    await work(database, clock)
    (item,) = (await client.get(f"{PATH}/nightly/catch-up")).json()["items"]

    assert (item["cause"], item["state"], item["revision"]) == ("outage", "finished", 1)
    assert item["counts"] == {"runs": 1, "coalesced": 59, "skipped": 0, "missed": 0, "total": 60}


# What a coalesced run stands for --------------------------------------------------------------------------------------


async def test_a_coalesced_run_is_told_what_it_stands_for(client, database, clock, tenant):
    await client.post(PATH, json=GOOD)
    clock.pass_by(60 * MINUTE)
    await work(database, clock)
    found = (await client.get("/v1/tenants/acme/runs?schedule=nightly&state=waiting")).json()["items"]
    (run,) = [item for item in found if item["stands_for"]]

    assert run["stands_for"]["count"] == 60
    assert (run["stands_for"]["first"], run["stands_for"]["last"]) == ("2026-12-07T12:01:00Z", "2026-12-07T13:00:00Z")
    wish = Claim(tenant_id=tenant.id, queues=("default",), tasks=None, worker="w", limit=9, lease_seconds=30.0)
    grant = await Dispatch(database, jitter=lambda: 0.0).claim(wish, now=clock.now)
    claimed = [msgspec.json.encode(_claimed(lease, token="t")) for lease in grant.leases]
    (told,) = [msgspec.json.decode(text, type=ClaimedRun) for text in claimed if b"stands_for" in text]
    context = Context.fake(stands_for=told.stands_for)
    assert (str(told.run_id), context.stands_for.count, len(context.stands_for.instants)) == (run["id"], 60, 50)
    assert Context.fake().stands_for is None


# Beginnings -----------------------------------------------------------------------------------------------------------


async def test_a_schedule_may_begin_in_the_past(client, database, clock):
    rule = {"on_creation": {"policy": "replay", "max_runs": 10}}
    asked = (
        await client.post(f"{PATH}/preview", json={"trigger": MINUTELY, "catch_up": rule, "since": ago(60)})
    ).json()
    made = await client.post(PATH, json={**GOOD, "catch_up": rule, "since": ago(60)})
    await work(database, clock)

    assert asked["past"]["sentence"] == (
        "60 lie between its beginning and now; replay of 10 could start at once; 50 would be recorded as skipped."
    )
    assert made.status_code == 201
    found = await answers(database)
    assert found[("skipped", "catchup.exceeded")] == 50
    assert await rows(database, "select count(*) from everwhen.runs where nominal_at < %s", NOON) == [(10,)]


@pytest.mark.parametrize(("minutes", "status"), [(-5, 422), (60 * 24 * 3660, 422), (0, 201)])
async def test_a_beginning_is_in_the_past_and_not_too_long_ago(client, clock, minutes, status):
    made = await client.post(PATH, json={**GOOD, "since": ago(minutes)})

    assert made.status_code == status
    if status != 201:
        assert (made.json()["code"], made.json()["errors"][0]["pointer"]) == ("schedule.since", "/since")


async def test_a_bound_in_the_past_is_a_beginning_if_the_rule_says_so(client, database, clock):
    trigger = {"kind": "any_of", "triggers": [MINUTELY], "start": ago(30)}
    await client.post(PATH, json={**GOOD, "trigger": trigger})
    await client.post(
        PATH, json={**GOOD, "name": "past", "trigger": trigger, "catch_up": {"on_creation": {"policy": "skip"}}}
    )
    await work(database, clock)

    assert (await answers(database))[("skipped", "catchup.skip")] == 30


async def test_a_schedule_may_begin_paused_and_its_past_waits_for_the_resume(client, database, clock):
    made = await client.post(PATH, json={**GOOD, "since": ago(60), "paused": "not yet"})
    clock.pass_by(30 * MINUTE)
    await work(database, clock)
    nothing = await answers(database)
    resumed = (await client.post(f"{PATH}/nightly/resume")).json()
    await work(database, clock)

    assert (made.json()["state"], made.json()["state_reason"], made.json()["next_at"]) == ("paused", "not yet", None)
    assert nothing == {}
    assert resumed["left_behind"]["counts"] == {
        "runs": 1, "coalesced": 59, "skipped": 30, "missed": 0, "total": 90,
    }  # fmt: skip
    found = await answers(database)
    assert (found[("coalesced", "catchup.coalesced")], found[("skipped", "schedule.paused")]) == (59, 30)


def ago(minutes: float) -> str:
    return (NOON - minutes * MINUTE).isoformat()


# Changes --------------------------------------------------------------------------------------------------------------


async def test_an_edit_catches_up_on_what_the_new_trigger_intends_since_the_old_one_last_did(client, database, clock):
    hourly = {"kind": "cron", "expr": "0 * * * *"}
    await client.post(PATH, json={**GOOD, "trigger": hourly})
    clock.pass_by(3 * HOUR)
    await work(database, clock)  # the last instant of the old trigger is at 15:00
    clock.pass_by(40 * MINUTE)
    await work(database, clock)
    edit = {"trigger": {"kind": "cron", "expr": "*/10 * * * *"}, "catch_up": {"on_edit": {"policy": "replay"}}}
    tried = (await client.patch(f"{PATH}/nightly?dry_run=true", json=edit)).json()
    await client.patch(f"{PATH}/nightly", json=edit)
    await work(database, clock)

    assert tried["past"]["sentence"] == (
        "4 would have fired since the old trigger last did; replay of 4 could start at once."
    )
    found = await rows(
        database, "select nominal_at from everwhen.runs where schedule_revision = 2 and nominal_at < %s", clock.now
    )
    assert sorted(at for (at,) in found) == [NOON.replace(second=0) + 3 * HOUR + n * MINUTE for n in (10, 20, 30, 40)]


async def test_a_revision_tells_what_it_changed(client, clock):
    await client.post(PATH, json=GOOD)
    await client.patch(
        f"{PATH}/nightly", json={"priority": 7, "timezone": "Asia/Tokyo", "catch_up": {"policy": "skip"}}
    )
    await client.post(f"{PATH}/nightly/pause", json={"reason": "why"})
    first, second, third = (await client.get(f"{PATH}/nightly/revisions")).json()["items"]
    page = (await client.get(f"{PATH}/nightly/revisions?limit=1")).json()
    following = (await client.get(page["next"])).json()

    assert (first["changes"], third["changes"]) == ([], [])
    assert {change["field"]: (change["before"], change["after"]) for change in second["changes"]} == {
        "priority": (None, 7),
        "timezone": ("UTC", "Asia/Tokyo"),
        "catch_up.policy": ("coalesce", "skip"),
    }
    assert following["items"][0]["changes"] == second["changes"]


async def test_a_deletion_runs_nothing_more_of_the_past(client, database, clock):
    await client.post(PATH, json={**GOOD, "catch_up": {"policy": "replay", "rate": 0.1}})
    clock.pass_by(60 * MINUTE)
    await work(database, clock)
    await client.delete(f"{PATH}/nightly")
    await work(database, clock)

    found = await answers(database)
    assert found[("skipped", "schedule.deleted")] > 40
    assert sum(found.values()) == 60


# Any interleaving -----------------------------------------------------------------------------------------------------

PERIODS = (1, 2, 3, 5, 7)
RULES = [
    Rule(policy=CatchUpPolicy.REPLAY),
    Rule(policy=CatchUpPolicy.REPLAY, max_runs=3, order=Order.NEWEST_FIRST),
    Rule(policy=CatchUpPolicy.COALESCE, keep=Keep.EARLIEST),
    Rule(policy=CatchUpPolicy.SKIP),
]


def spec_of(random: Random) -> tuple[int, Spec]:
    period = random.choice(PERIODS)
    trigger = {"kind": "every", "every": f"PT{period}M", "anchor": "2026-01-01T00:00:00Z"}
    rule = random.choice(RULES)
    fields = {name: getattr(rule, name) for name in rule.__dataclass_fields__}
    catch_up = CatchUp(**fields, on_resume=random.choice(RULES))
    return period, Spec(timing=Timing(parse_trigger(trigger)), catch_up=catch_up)


def multiples(period: int, after: datetime, until: datetime) -> set[datetime]:
    """What a trigger of so many minutes intends, told without it."""
    first = after.replace(second=0, microsecond=0) - 2 * MINUTE
    count = int((until - first) / MINUTE) + 1
    minutes = (first + n * MINUTE for n in range(count))
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    return {at for at in minutes if after < at <= until and ((at - epoch) // MINUTE) % period == 0}


class Life:
    """A schedule to which anything happens in any order, and a record of who reigned when."""

    def __init__(self, database, tenant, clock, random: Random) -> None:
        self.database, self.clock, self.random = database, clock, random
        self.scheduler = Scheduler(database=database)
        self.by = {"tenant_id": tenant.id, "name": "nightly", "change": TESTER}
        # From, until, the period, and the revision whose instants they are.
        self.reigns: list[tuple[datetime, datetime, int, int]] = []
        self.since, self.revision, self.paused = clock.now, 1, False
        self.period, self.spec = spec_of(random)

    async def begin(self) -> None:
        draft = ScheduleDraft(name="nightly", task="report", spec=self.spec)
        await schedules.create_schedule(self.database, tenant_id=self.by["tenant_id"], draft=draft, change=TESTER)

    async def happen(self) -> None:
        match self.random.choice(["wait", "wait", "look", "look", "edit", "pause", "resume"]):
            case "wait":
                self.clock.pass_by(timedelta(seconds=self.random.randint(1, 1200)))
            case "look":
                await self.scheduler.tick(self.clock.now - timedelta(seconds=self.random.choice([0, 0, 5])))
            case "edit":
                self.end_reign()
                self.period, self.spec = made = spec_of(self.random)
                await schedules.update_schedule(self.database, **self.by, changes=lambda _: {"spec": made[1]})
            case "pause" if not self.paused:
                self.end_reign()
                self.paused = True
                await schedules.pause_schedule(self.database, **self.by)
            case "resume" if self.paused:
                await self.resume()

    async def resume(self) -> None:
        self.end_reign()
        self.paused = False
        await schedules.resume_schedule(self.database, **self.by)

    async def end(self) -> None:
        if self.paused:
            await self.resume()
        self.clock.pass_by(5 * MINUTE)
        await work(self.database, self.clock)
        self.end_reign()

    def end_reign(self) -> None:
        self.reigns.append((self.since, self.clock.now, self.period, self.revision))
        self.since, self.revision = self.clock.now, self.revision + 1


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_each_instant_has_one_answer_by_the_revision_in_force(database, tenant, clock, seed):
    life = Life(database, tenant, clock, Random(seed))
    await life.begin()
    for _ in range(30):
        await life.happen()
    await life.end()

    intended = {at for begin, end, period, _ in life.reigns for at in multiples(period, begin, end)}
    runs = await rows(
        database, "select nominal_at, schedule_revision from everwhen.runs where nominal_at <= %s", clock.now
    )
    spans = await rows(database, "select first_at, last_at, instants from everwhen.spans")
    answered = [at for at, _ in runs]
    for first, last, count in spans:
        held = [at for at in intended if first <= at <= last]
        assert len(held) == count
        answered += held
    assert sorted(answered) == sorted(intended)
    for at, planned_by in runs:
        (revision,) = [revision for begin, end, _, revision in life.reigns if begin < at <= end]
        # What passed in a pause is answered by the resume that ended it; everything else by the revision in force.
        assert planned_by in {revision, revision + 1}
