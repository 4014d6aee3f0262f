# pyright: reportOptionalOperand=false
"""Quotas are checked in the transaction that uses them: nobody gets past one, alone, at once, or by a detour."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from obstore.store import MemoryStore

from everwhen.audit.sealer import ChainSealer
from everwhen.core.lifecycle import RunState
from everwhen.core.quotas import Limit
from everwhen.errors import QuotaUsedUp
from everwhen.limits import quotas
from everwhen.limits.sweeping import fold_days
from everwhen.operations.operator import Operator
from everwhen.payloads.depot import Depot
from everwhen.payloads.receiving import PayloadLimits
from everwhen.payloads.service import Payloads
from everwhen.postgres import pool
from everwhen.runs import service as runs
from everwhen.runs.model import RunRequest
from everwhen.schedules.scheduler import Scheduler
from everwhen.verify.service import verify
from tests.contracts.alerts import KIT
from tests.factories import make_run, make_schedule, make_task, make_tenant
from tests.limits.scene import set_limits, used
from tests.operations.scene import begin, drain, let_be_due, redrive
from tests.operations.scene import read as read_operation
from tests.payloads.scene import put
from tests.people import app_on, client_of, token_of

CRON = {"kind": "cron", "expr": "30 2 * * *"}
NODES = {"nodes": [{"id": "a", "task": "report"}]}
EMAIL = {"kind": "email", "configuration": {"to": ["ops@ops.test"]}}
# What makes one more, and what takes it away again; {} is a name.
MAKERS = {
    Limit.CALENDARS: (("POST", "calendars", {"name": "{}", "definition": {}}), "calendars/{}"),
    Limit.CHANNELS: (("POST", "alerts/channels", {"name": "{}", **EMAIL}), "alerts/channels/{}"),
    Limit.MEMBERS: (("PUT", "members/login:{}", {"roles": ["viewer"]}), "members/login:{}"),
    Limit.QUEUES: (("PUT", "queues/{}", {}), "queues/{}"),
    Limit.SCHEDULES: (("POST", "schedules", {"name": "{}", "task": "report", "trigger": CRON}), "schedules/{}"),
    Limit.SUBSCRIPTIONS: (
        ("POST", "alerts/subscriptions", {"name": "{}", "kinds": ["run.dead"], "channels": ["ops"]}),
        "alerts/subscriptions/{}",
    ),
    Limit.TASKS: (("POST", "tasks", {"name": "{}"}), None),
    Limit.TOKENS: (("POST", "tokens", {"name": "{}", "roles": ["viewer"]}), None),
    Limit.WORKFLOWS: (("POST", "workflows", {"name": "{}", "definition": NODES}), None),
}
BY_PUT = {
    Limit.CALENDARS: ("PUT", "calendars/{}", {"definition": {}}),
    Limit.WORKFLOWS: ("PUT", "workflows/{}", {"definition": NODES}),
}


@pytest.fixture(autouse=True)
async def every_promise_holds(database):
    yield
    async with database.system() as conn:
        now = conn.now
    await ChainSealer(database=database).tick(now)  # a test's clock may have been behind by more than a sealer may be
    assert await verify(database, counted=True) == {}


@pytest.fixture
async def counted_by_hand(database):
    """Nobody makes the runs that are counted: what every run is held against goes before that is done."""
    yield
    await rows(database, "delete from everwhen.run_counts returning 1")


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    app = app_on(database)
    app.state.alerts = KIT
    async with client_of(app, token_of("admin", tenant_id=tenant.id)) as opened:
        channel = {"name": "ops", **EMAIL}
        assert (await opened.post("/v1/tenants/acme/alerts/channels", json=channel)).status_code == 201
        yield opened


def named(value, name):
    if isinstance(value, dict):
        return {key: named(inner, name) for key, inner in value.items()}
    return value.replace("{}", name) if isinstance(value, str) else value


async def make(client, maker, name, **headers):
    method, path, body = named(dict(zip("abc", maker, strict=True)), name).values()
    return await client.request(method, f"/v1/tenants/acme/{path}", json=body, headers=headers)


# What there may be so many of ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", MAKERS)
async def test_one_more_than_there_may_be_is_refused_until_there_is_room(client, database, tenant, limit):
    maker, remove = MAKERS[limit]
    before = await used(database, tenant, limit)
    await set_limits(database, tenant, **{limit: before + 2})
    made = [await make(client, maker, f"made-{n}") for n in range(3)]

    assert [answer.is_success for answer in made] == [True, True, False]
    problem = made[2].json()
    assert (problem["status"], problem["code"]) == (409, f"quota.{limit}")
    assert (problem["limit"], problem["used"]) == (before + 2, before + 2)
    assert await used(database, tenant, limit) == before + 2
    if remove is not None:
        assert (await client.delete(f"/v1/tenants/acme/{named(remove, 'made-0')}")).is_success
        assert (await make(client, maker, "made-2")).is_success
    await set_limits(database, tenant, **{limit: None})
    assert (await make(client, maker, "made-3")).is_success


@pytest.mark.parametrize("limit", MAKERS)
async def test_of_many_at_once_no_more_get_in_than_there_is_room_for(client, database, tenant, limit):
    maker, _ = MAKERS[limit]
    before = await used(database, tenant, limit)
    await set_limits(database, tenant, **{limit: before + 3})
    made = await asyncio.gather(*(make(client, maker, f"made-{n}") for n in range(12)))

    assert sum(answer.is_success for answer in made) == 3
    assert {answer.json()["code"] for answer in made if not answer.is_success} == {f"quota.{limit}"}
    assert await used(database, tenant, limit) == before + 3


@pytest.mark.parametrize("limit", BY_PUT)
async def test_a_put_that_makes_what_is_not_there_is_no_detour(client, database, tenant, limit):
    await set_limits(database, tenant, **{limit: 0})
    answer = await make(client, BY_PUT[limit], "made", **{"If-Match": "", "If-None-Match": "*"})

    assert answer.status_code in {409, 422}
    del client.headers["If-Match"]
    answer = await make(client, BY_PUT[limit], "made", **{"If-None-Match": "*"})
    assert (answer.status_code, answer.json()["code"]) == (409, f"quota.{limit}")


async def test_a_name_that_is_taken_is_told_before_the_limit(client, database, tenant):
    await set_limits(database, tenant, tasks=1)

    assert (await client.post("/v1/tenants/acme/tasks", json={"name": "report"})).json()["code"] == "task.exists"


async def test_a_lower_limit_takes_nothing_away(client, database, tenant):
    for n in range(3):
        await make(client, MAKERS[Limit.SCHEDULES][0], f"made-{n}")
    await set_limits(database, tenant, schedules=1)

    assert (await client.patch("/v1/tenants/acme/schedules/made-0", json={"priority": 1})).status_code == 200
    assert (await client.post("/v1/tenants/acme/schedules/made-1/pause", json={"reason": "why"})).status_code == 200
    assert (await make(client, MAKERS[Limit.SCHEDULES][0], "made-3")).status_code == 409


async def test_a_limit_is_one_tenants_own(client, database, tenant):
    other = await make_tenant(database)
    await make_task(database, other)
    await set_limits(database, tenant, schedules=0)

    await make_schedule(database, other)


# Values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "fits"),
    [
        ({"kind": "cron", "expr": "*/5 * * * *"}, True),
        ({"kind": "cron", "expr": "*/4 * * * *"}, False),
        ({"kind": "cron", "expr": "0,1 0 1 1 *"}, False),
        ({"kind": "cron", "expr": "59,0 * * * *"}, False),
        ({"kind": "cron", "expr": "0 0 29 2 *"}, True),
        ({"kind": "every", "every": "PT5M"}, True),
        ({"kind": "every", "every": "PT299S"}, False),
        ({"kind": "rrule", "rrule": "FREQ=MINUTELY;INTERVAL=2", "dtstart": "2026-11-30T00:00:00"}, False),
        ({"kind": "any_of", "triggers": [CRON, {"kind": "cron", "expr": "31 2 * * *"}]}, False),
        ({"kind": "at", "at": "2030-01-01T00:00:00Z"}, True),
    ],
    ids=str,
)
async def test_a_trigger_that_fires_too_often_is_refused_when_made_and_when_changed(
    client, database, tenant, *, trigger, fits
):
    await set_limits(database, tenant, minimum_interval_seconds=300)
    path = "/v1/tenants/acme/schedules"
    made = await client.post(path, json={"name": "made", "task": "report", "trigger": trigger})
    assert (await client.post(path, json={"name": "other", "task": "report", "trigger": CRON})).status_code == 201
    changed = await client.patch(f"{path}/other", json={"trigger": trigger})

    assert (made.status_code, changed.status_code) == ((201, 200) if fits else (422, 422)), made.text
    if not fits:
        error = made.json()["errors"][0]
        assert (error["code"], error["pointer"]) == ("quota.minimum_interval_seconds", "/trigger")
        assert changed.json()["code"] == "quota.minimum_interval_seconds"


async def test_a_workflows_schedule_and_one_of_the_task_service_fire_no_more_often(client, database, tenant):
    await make(client, MAKERS[Limit.WORKFLOWS][0], "etl")
    await set_limits(database, tenant, minimum_interval_seconds=300)
    often = {"kind": "cron", "expr": "* * * * *"}
    of_workflow = await client.post(
        "/v1/tenants/acme/schedules", json={"name": "made", "workflow": "etl", "trigger": often}
    )
    form = {"dedup_id": (None, "x"), "schedule": (None, "* * * * *"), "payload": ("run.sh", b"true")}
    posted = await client.post("/task", files=form)

    for answer in (of_workflow, posted):
        assert (answer.status_code, answer.json()["code"]) == (422, "quota.minimum_interval_seconds")


async def test_what_does_not_touch_the_trigger_of_a_schedule_goes_on(client, database, tenant):
    often = {"name": "made", "task": "report", "trigger": {"kind": "cron", "expr": "* * * * *"}}
    await client.post("/v1/tenants/acme/schedules", json=often)
    await set_limits(database, tenant, minimum_interval_seconds=300)

    assert (await client.patch("/v1/tenants/acme/schedules/made", json={"priority": 1})).status_code == 200


async def test_nobody_asks_for_more_attempts_than_the_tenant_may_have(client, database, tenant):
    await set_limits(database, tenant, attempts=10)
    retry = {"max_attempts": 11}
    node = {"nodes": [{"id": "a", "task": "report"}, {"id": "b", "task": "report", "retry": retry}]}
    refused = [
        await client.post("/v1/tenants/acme/tasks", json={"name": "made", "retry": retry}),
        await client.patch("/v1/tenants/acme/tasks/report", json={"retry": retry}),
        await client.post("/v1/tenants/acme/workflows", json={"name": "made", "definition": node}),
        await client.post("/v1/tenants/acme/workflows/validate", json={"definition": node}),
    ]

    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(422, "quota.attempts")] * 4
    pointers = [answer.json()["errors"][0]["pointer"] for answer in refused]
    assert pointers == ["/retry/max_attempts"] * 2 + ["/definition/nodes/1/retry/max_attempts"] * 2
    allowed = await client.post("/v1/tenants/acme/tasks", json={"name": "made", "retry": {"max_attempts": 10}})
    assert allowed.status_code == 201


async def test_payloads_take_no_more_bytes_than_the_tenants_own_limit(database, tenant):
    payloads = Payloads.on(database, Depot(MemoryStore()), PayloadLimits(tenant_bytes=1_000))
    await set_limits(database, tenant, payload_bytes=100)
    await put(payloads, tenant, b"x" * 90)
    with pytest.raises(QuotaUsedUp) as refused:
        await put(payloads, tenant, b"y" * 11)

    assert (refused.value.code, refused.value.told) == ("quota.payload_bytes", {"limit": 100, "used": 90})
    await set_limits(database, tenant, payload_bytes=None)
    await put(payloads, tenant, b"y" * 11)


# Runs a day ----------------------------------------------------------------------------------------------------------


async def ask(database, tenant, **changes):
    request = RunRequest(task="report", input={}, has_input=True, **changes)
    return await runs.request_run(database, tenant_id=tenant.id, request=request)


async def rows(database, query, *parameters):
    async with database.system() as conn:
        return await (await conn.execute(query, parameters or None)).fetchall()


async def test_of_many_who_ask_for_the_last_runs_of_the_day_as_many_get_one_as_there_are(database, tenant):
    await set_limits(database, tenant, runs_per_day=5)
    found = await asyncio.gather(*(ask(database, tenant) for _ in range(20)), return_exceptions=True)

    refused = [each for each in found if isinstance(each, QuotaUsedUp)]
    assert (len(found) - len(refused), {each.code for each in refused}) == (5, {"quota.runs_per_day"})
    assert await rows(database, "select count(*)::int from everwhen.runs") == [(5,)]
    assert await used(database, tenant, Limit.RUNS) == 5


async def test_another_day_has_room_of_its_own(database, tenant):
    await set_limits(database, tenant, runs_per_day=1)
    await ask(database, tenant)
    tomorrow = datetime.now(UTC) + timedelta(days=1)  # noqa: TID251  # of the API's own clock
    await ask(database, tenant, at=tomorrow)
    for at in (None, tomorrow):
        with pytest.raises(QuotaUsedUp):
            await ask(database, tenant, at=at)


@pytest.mark.usefixtures("counted_by_hand")
async def test_far_from_the_limit_nobody_waits_for_anybody(database, tenant):
    async with database.tenant(tenant.id) as one, database.tenant(tenant.id) as other:
        for conn in (one, other):
            await quotas.use_one_run(conn, tenant_id=tenant.id, due_at=conn.now)
        await other.execute("select 1")

    assert await used(database, tenant, Limit.RUNS) == 2
    assert len(await rows(database, "select shard from everwhen.run_counts")) == 2


async def waits(database, conn):
    """Come back when this connection waits for a lock."""
    asked = "select count(*)::int from pg_locks where pid = %s and not granted"
    async with asyncio.timeout(20):
        while await rows(database, asked, conn.info.backend_pid) == [(0,)]:  # noqa: ASYNC110  # only the server knows
            await asyncio.sleep(0.01)


async def committed(conn, wanted):
    """Count, commit, and begin anew; return where there was less room."""
    found = await quotas.use_runs(conn, wanted)
    await conn.commit()
    await conn.execute("begin")
    return found


@pytest.mark.usefixtures("counted_by_hand")
async def test_two_planners_at_the_edge_of_midnight_never_wait_for_each_other(database, tenant):
    """Both are near the limit of today, one of them of tomorrow's as well: it comes to wait for the other's own row."""
    today = datetime.now(UTC).date()  # noqa: TID251  # any day
    first, second = (tenant.id, today), (tenant.id, today + timedelta(days=1))
    await set_limits(database, tenant, runs_per_day=20_000)
    hold = "select 1 from everwhen.run_counts where day = %s and shard = 0 for update"
    async with database.system() as one, database.system() as two:
        await committed(one, {first: 10_001})
        await committed(one, {second: 1})
        await two.execute("insert into everwhen.run_counts values (%s, %s, 0, 0)", second)
        await committed(two, {})
        async with asyncio.TaskGroup() as tasks, database.system() as somebody:
            await somebody.execute(hold, [second[1]])
            large = tasks.create_task(committed(two, {first: 1, second: 10_001}))
            await waits(database, two)
            small = tasks.create_task(committed(one, {first: 1, second: 1}))
            await waits(database, one)
        assert (await large, await small) == ({}, {})


@pytest.mark.usefixtures("counted_by_hand")
async def test_what_is_given_back_waits_for_nobody(database, tenant):
    today = datetime.now(UTC).date()  # noqa: TID251  # any day
    first, second = (tenant.id, today), (tenant.id, today + timedelta(days=1))
    await set_limits(database, tenant, runs_per_day=20_000)
    async with database.system() as one, database.system() as two:
        await committed(one, {first: 1})  # so that there is a row of its own, which others see
        await quotas.use_runs(one, {first: 6, second: 10_001})
        waiting = asyncio.create_task(quotas.use_runs(two, {first: 10_001, second: 1}))
        await waits(database, two)
        await quotas.give_back_runs(one, {first: 5})
        await one.commit()
        await waiting

    assert await rows(database, "select day, sum(runs)::int from everwhen.run_counts group by day order by day") == [
        (first[1], 2 + 10_001),
        (second[1], 10_002),
    ]


async def test_a_request_that_is_refused_otherwise_uses_nothing(client, database, tenant):
    path, keyed = "/v1/tenants/acme/runs", {"Idempotency-Key": "x"}
    for body in ({"task": "nothing"}, {"task": "report", "input": {"$payload": "sha256:none"}}):
        assert (await client.post(path, json=body, headers=keyed)).status_code == 422
    await client.post(path, json={"task": "report"}, headers=keyed, params={"dry_run": "true"})

    assert await used(database, tenant, Limit.RUNS) == 0


@pytest.fixture
def clock(monkeypatch):
    moved, begin_of = [datetime(2026, 12, 7, 12, 0, 30, tzinfo=UTC)], pool._begin

    async def begun(conn, statement):
        await begin_of(conn, statement)
        return moved[0]

    monkeypatch.setattr(pool, "_begin", begun)
    return moved


async def plan(database, clock):
    scheduler = Scheduler(database=database)
    for _ in range(100):
        if not (await scheduler.tick(clock[0])).more:
            return
    raise AssertionError("there is always more")


async def verdicts(database):
    """How many instants have which answer."""
    found = await rows(
        database,
        "select coalesce(e.state, 'runs'), coalesce(e.reason, ''), count(*)::int from everwhen.runs r"
        " left join everwhen.run_ends e using (tenant_id, run_id) group by 1, 2"
        " union all select verdict, reason, sum(instants)::int from everwhen.spans group by 1, 2",
    )
    return sorted(found)


SECONDLY = {"kind": "cron", "expr": "* * * * * *", "seconds": True}


async def test_what_schedules_intend_beyond_the_limit_is_recorded_as_skipped(database, tenant, clock):
    await set_limits(database, tenant, runs_per_day=20)
    await make_schedule(database, tenant, name="often", trigger=SECONDLY)
    await make_schedule(database, tenant, name="other", trigger={"kind": "every", "every": "PT20S"})
    await plan(database, clock)

    found = await verdicts(database)
    assert ("runs", "", 20) in found
    skipped = sum(count for state, reason, count in found if (state, reason) == ("skipped", "quota.runs_per_day"))
    assert skipped == 60 + 3 - 20
    assert await rows(database, "select count(*)::int from everwhen.spans") == [(1,)]
    assert await rows(database, "select sum(skipped)::int from everwhen.run_counts") == [(skipped,)]
    assert [reason for (reason,) in await rows(database, "select distinct reason from everwhen.run_ends")] == [
        "quota.runs_per_day"
    ]


async def test_the_next_day_goes_on_and_midnight_is_not_yesterdays(database, tenant, clock):
    await set_limits(database, tenant, runs_per_day=3)
    clock[0] = datetime(2026, 12, 7, 23, 59, 10, tzinfo=UTC)
    await make_schedule(database, tenant, name="often", trigger={"kind": "every", "every": "PT10S"})
    await plan(database, clock)
    found = await rows(
        database,
        "select to_char(r.nominal_at at time zone 'UTC', 'HH24:MI:SS'), coalesce(e.reason, '') from everwhen.runs r"
        " left join everwhen.run_ends e using (tenant_id, run_id) order by r.nominal_at",
    )

    assert found == [
        ("23:59:20", ""), ("23:59:30", ""), ("23:59:40", ""), ("23:59:50", "quota.runs_per_day"),
        ("00:00:00", ""), ("00:00:10", ""),
    ]  # fmt: skip


async def test_what_is_withdrawn_before_it_is_due_makes_room_again(client, database, tenant):
    await make_schedule(database, tenant, trigger=SECONDLY)
    async with database.system() as conn:
        now = conn.now
    await Scheduler(database=database, ahead=timedelta(minutes=5)).tick(now)
    before = await rows(database, "select count(*)::int from everwhen.runs where due_at > %s", now)
    await client.post("/v1/tenants/acme/schedules/nightly/pause", json={"reason": "why"})

    assert before[0][0] > 500
    left = await rows(database, "select count(*)::int from everwhen.runs")
    assert await rows(database, "select sum(runs)::int from everwhen.run_counts") == left


async def test_a_settled_past_is_skipped_beyond_the_limit_as_well(client, database, tenant, clock):
    await set_limits(database, tenant, runs_per_day=2)
    await make_schedule(database, tenant, trigger=SECONDLY)
    clock[0] += timedelta(seconds=8)
    assert (await client.post("/v1/tenants/acme/schedules/nightly/pause", json={"reason": "why"})).status_code == 200

    assert await verdicts(database) == [("runs", "", 2), ("skipped", "quota.runs_per_day", 6)]


async def test_catching_up_waits_for_a_day_with_room(client, database, tenant, clock):
    await set_limits(database, tenant, runs_per_day=10)
    await make_schedule(database, tenant, trigger={"kind": "every", "every": "PT1H"})
    await client.post("/v1/tenants/acme/schedules/nightly/pause", json={"reason": "why"})
    clock[0] += timedelta(hours=30)
    body = {"catch_up": {"policy": "replay"}}
    assert (await client.post("/v1/tenants/acme/schedules/nightly/resume", json=body)).status_code == 200
    await plan(database, clock)
    first = await verdicts(database)
    listed = (await client.get("/v1/tenants/acme/schedules/nightly/catch-up")).json()["items"]
    for _ in range(30):
        clock[0] += timedelta(hours=1)
        await rows(database, "update everwhen.arrears set look_at = %s where look_at is not null returning 1", clock[0])
        await plan(database, clock)

    assert [count for state, _, count in first if state == "runs"] == [10]
    assert any("quota.runs_per_day" in (each["last_error"] or "") for each in listed)
    assert sum(count for state, _, count in await verdicts(database) if state == "runs") > 10


async def test_an_operation_waits_for_room_and_says_so(database, tenant):
    dead = [await make_run(database, tenant, state=RunState.DEAD) for _ in range(4)]
    await set_limits(database, tenant, runs_per_day=len(dead) + 3)
    row = await begin(database, tenant, redrive())
    operator = Operator(database=database)
    await drain(operator)
    waiting = await read_operation(database, tenant, row.id)
    await set_limits(database, tenant, runs_per_day=100)
    await let_be_due(database)
    await drain(operator)
    later = await read_operation(database, tenant, row.id)

    assert (waiting.state, waiting.state_reason, waiting.done) == ("running", "quota.runs_per_day", 3)
    assert (later.state_reason, later.done, later.skipped) == (None, 4, 0)
    assert await used(database, tenant, Limit.RUNS) == 8


async def test_a_redrive_and_a_rerun_count_as_runs(client, database, tenant):
    dead = await make_run(database, tenant, state=RunState.DEAD)
    await set_limits(database, tenant, runs_per_day=1)
    answer = await client.post(f"/v1/tenants/acme/runs/{dead.row.run_id}/redrive", json={"reason": "mended"})

    assert (answer.status_code, answer.json()["code"]) == (409, "quota.runs_per_day")
    await set_limits(database, tenant, runs_per_day=2)
    answer = await client.post(f"/v1/tenants/acme/runs/{dead.row.run_id}/redrive", json={"reason": "mended"})
    assert answer.status_code < 300


@pytest.mark.usefixtures("counted_by_hand")
async def test_days_that_are_over_have_one_row(database, tenant, server, work_database):
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute(
            "insert into everwhen.run_counts select %s, d, s, 10, 1"
            " from generate_series(0, 4) s, (values (current_date - 3), (current_date - 2), (current_date)) as d (d)",
            (tenant.id,),
        )
    async with database.system() as conn:
        assert await fold_days(conn, now=conn.now, limit=100) == 8
        assert await fold_days(conn, now=conn.now, limit=100) == 0
    found = await rows(database, "select count(*)::int, sum(runs)::int, sum(skipped)::int from everwhen.run_counts")

    assert found == [(1 + 1 + 5, 150, 15)]
