"""Requests that are repeated, and requests that are only tried: over real transactions, in every order."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from everwhen import failpoints
from everwhen.failpoints import FailpointError
from everwhen.http.bodies import ControlRoute
from everwhen.http.manners import manner_of, reads
from everwhen.postgres.joined import joined
from everwhen.replies import service as replies
from everwhen.replies.model import Keyed, Reply
from everwhen.sweeping import Sweeper
from tests.factories import make_task, make_tenant
from tests.people import ROUTERS, app_on, client_of, token_of

BASE = "/v1/tenants/acme"
RUN = {"task": "report"}
TASK = {"name": "x"}


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id)) as opened:
        yield opened


def keyed(key="k"):
    return {"Idempotency-Key": key}


async def runs_of(client):
    return (await client.get(f"{BASE}/runs")).json()["items"]


def same(first, second):
    told = {"content-type", "location", "etag"}
    return (first.status_code, first.content) == (second.status_code, second.content) and {
        name: first.headers.get(name) for name in told
    } == {name: second.headers.get(name) for name in told}


# Repeated ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "body"), [("runs", RUN), ("tasks", TASK)])
async def test_a_repeated_request_answers_what_it_answered_first(client, kind, body):
    first = await client.post(f"{BASE}/{kind}", json=body, headers=keyed())
    await client.patch(f"{BASE}/tasks/report", json={"priority": 1})
    again = await client.post(f"{BASE}/{kind}", content=json.dumps(body, indent=1).encode(), headers={
        **keyed(), "Content-Type": "application/json"})  # fmt: skip

    assert first.status_code == 201
    assert same(first, again)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"


async def test_the_answer_is_of_then_not_of_now(client):
    """The run has ended meanwhile: what was answered then is answered again."""
    first = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())
    await client.post(f"{BASE}/runs/{first.json()['id']}/cancel")

    assert (await client.post(f"{BASE}/runs", json=RUN, headers=keyed())).json()["state"] == "waiting"


@pytest.mark.parametrize(
    ("path", "body"),
    [("runs", {"task": "report", "priority": 1}), ("runs", {"task": "report", "input": {}}), ("runs?x=1", RUN)],
)
async def test_a_key_that_stands_for_another_request_is_refused(client, path, body):
    await client.post(f"{BASE}/runs", json=RUN, headers=keyed())
    answer = await client.post(f"{BASE}/{path}", json=body, headers=keyed())

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency.key_reused")


async def test_keys_belong_to_a_caller_a_tenant_and_an_operation(database, client, tenant):
    other = await make_tenant(database, name="other")
    await make_task(database, other)
    await client.post(f"{BASE}/runs", json=RUN, headers=keyed())
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="bob")) as bob:
        by_bob = await bob.post(f"{BASE}/runs", json=RUN, headers=keyed())
    async with client_of(app_on(database), token_of("admin", tenant_id=other.id)) as stranger:
        elsewhere = await stranger.post("/v1/tenants/other/runs", json=RUN, headers=keyed())
    task = await client.post(f"{BASE}/tasks", json=TASK, headers=keyed())

    assert [each.status_code for each in (by_bob, elsewhere, task)] == [201, 201, 201]
    assert not any("idempotency-replayed" in each.headers for each in (by_bob, elsewhere, task))
    assert len(await runs_of(client)) == 2


async def test_of_ten_requests_at_once_one_does_the_work(client):
    answers = await asyncio.gather(*(client.post(f"{BASE}/runs", json=RUN, headers=keyed()) for _ in range(10)))
    again = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())

    assert {answer.status_code for answer in answers} <= {201, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {"idempotency.in_flight"}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201} | {again.json()["id"]}) == 1
    assert len(await runs_of(client)) == 1


@asynccontextmanager
async def under_way(database, tenant, *, undone=False):
    """A request with the key on a connection of its own: it has taken the key, and has not ended."""
    with pytest.MonkeyPatch.context():
        scope = database.tenant(tenant.id)
        conn = await scope.__aenter__()
        held = Keyed(principal="tester", operation="request_run", key="k", fingerprint=b"other")
        assert await replies.take(conn, tenant_id=tenant.id, keyed=held) is None
        try:
            yield conn, held
        finally:
            error = RuntimeError("undone") if undone else None
            try:
                await scope.__aexit__(type(error) if error else None, error, None)
            except RuntimeError:
                assert undone


async def test_a_request_that_is_under_way_is_not_waited_for(database, client, tenant):
    async with under_way(database, tenant, undone=True):
        answer = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())
    later = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())

    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency.in_flight")
    assert (answer.json()["retryable"], answer.headers["retry-after"]) == (True, "1")
    assert later.status_code == 201


async def test_the_other_order_the_one_that_came_first_has_committed(database, client, tenant):
    async with under_way(database, tenant) as (conn, held):
        reply = Reply(status=201, headers={"content-type": "application/json"}, body=b"{}")
        await replies.keep(conn, tenant_id=tenant.id, keyed=held, reply=reply)
    answer = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency.key_reused")


async def test_an_answer_that_came_between_look_and_work_is_in_the_way(database, client, tenant):
    """The look is older than the lock: what was kept between the two is found when the answer is to be kept."""
    held = Keyed(principal="tester", operation="x", key="k", fingerprint=b"")
    reply = Reply(status=201)
    async with database.tenant(tenant.id) as conn:
        await replies.keep(conn, tenant_id=tenant.id, keyed=held, reply=reply)

    with pytest.raises(Exception, match="under way"):
        async with database.tenant(tenant.id) as conn:
            await replies.keep(conn, tenant_id=tenant.id, keyed=held, reply=reply)


@pytest.mark.parametrize("place", ["transaction.before_commit", "transaction.after_commit", "api.before_reply"])
async def test_a_crash_anywhere_is_repeated_safely(client, place):
    with failpoints.armed(f"{place}:error:1" if place != "transaction.before_commit" else f"{place}:error:2"):
        try:
            crashed = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())
        except FailpointError:
            crashed = None
    answer = await client.post(f"{BASE}/runs", json=RUN, headers=keyed())

    assert crashed is None or crashed.status_code == 500
    assert answer.status_code == 201
    assert len(await runs_of(client)) == 1


async def test_a_refusal_leaves_the_key_free(client):
    refused = await client.post(f"{BASE}/runs", json={"task": "later"}, headers=keyed())
    await client.post(f"{BASE}/tasks", json={"name": "later"})
    answer = await client.post(f"{BASE}/runs", json={"task": "later"}, headers=keyed())

    assert (refused.json()["code"], answer.status_code) == ("task.unknown", 201)
    assert "idempotency-replayed" not in answer.headers


async def test_an_answer_is_kept_for_a_day_and_swept_in_batches(server, work_database, database, client):
    for number in range(5):
        await client.post(f"{BASE}/runs", json=RUN, headers=keyed(f"k{number}"))
    sweeper = Sweeper(database=database, sweeps=[replies.sweep], batch=2)
    async with database.system() as conn:
        now = conn.now

    early = await sweeper.tick(now + replies.KEPT - timedelta(minutes=1))
    late = [await sweeper.tick(now + replies.KEPT + timedelta(minutes=1)) for _ in range(3)]

    assert early.done == 0
    assert [(tick.done, tick.more) for tick in late] == [(2, True), (2, True), (1, False)]


async def test_an_answer_whose_time_is_over_counts_no_more_though_nobody_swept_it(database, client, tenant):
    await client.post(f"{BASE}/runs", json=RUN, headers=keyed())
    async with database.system() as conn:
        await conn.execute("update everwhen.replies set expires_at = now()")

    answer = await client.post(f"{BASE}/runs", json={**RUN, "priority": 1}, headers=keyed())

    assert answer.status_code == 201
    assert len(await runs_of(client)) == 2


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\x7f"])
async def test_a_key_that_cannot_be_one_is_refused_where_none_is_needed(client, key):
    answer = await client.post(f"{BASE}/tasks", json=TASK, headers=keyed(key))

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency.key_required")


async def test_two_keys_are_none(client):
    answer = await client.post(f"{BASE}/runs", json=RUN, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])

    assert answer.json()["code"] == "idempotency.key_required"


# Tried ---------------------------------------------------------------------------------------------------------------

TRIES = [
    ("POST", "tasks", TASK, 201),
    ("PATCH", "tasks/report", {"priority": 1}, 200),
    ("POST", "calendars", {"name": "x", "definition": {"week": ["mon"]}}, 201),
    ("PUT", "calendars/mon", {"definition": {"week": ["tue"]}}, 200),
    ("DELETE", "calendars/mon", None, 204),
    ("POST", "workflows", {"name": "x", "definition": {"nodes": [{"id": "a", "task": "report"}]}}, 201),
    ("POST", "schedules", {"name": "x", "task": "report", "trigger": {"kind": "every", "every": "PT1H"}}, 201),
    ("POST", "schedules/nightly/pause", {"reason": "why"}, 200),
    ("DELETE", "schedules/nightly", None, 204),
    ("PUT", "schedules/nightly/punctuality", {"objective_seconds": 5}, 200),
    ("POST", "queues/default/pause", {"reason": "why"}, 200),
    ("POST", "pause", {"reason": "why"}, 200),
    ("POST", "runs", RUN, 201),
]
NIGHTLY = {"name": "nightly", "task": "report", "trigger": {"kind": "every", "every": "PT1H"}}


async def everything(database):
    """All rows of all tables, but for what no transaction takes back."""
    async with database.system() as conn:
        tables = await (await conn.execute(
            "select c.relname from pg_class c where c.relnamespace = 'everwhen'::regnamespace"
            " and c.relkind in ('r', 'p')"
            " and not c.relispartition and has_table_privilege(c.oid, 'select') order by 1")).fetchall()  # fmt: skip
        return {
            name: await (await conn.execute(f"select t::text from everwhen.{name} t order by 1")).fetchall()
            for (name,) in tables
        }


@pytest.mark.parametrize(("method", "path", "body", "status"), TRIES, ids=[f"{m} {p}" for m, p, _, _ in TRIES])
async def test_a_dry_run_answers_and_keeps_nothing(database, client, method, path, body, status):  # noqa: PLR0917
    await client.post(f"{BASE}/calendars", json={"name": "mon", "definition": {"week": ["mon"]}})
    await client.post(f"{BASE}/schedules", json=NIGHTLY)
    before = await everything(database)

    answer = await client.request(method, f"{BASE}/{path}?dry_run=true", json=body, headers=keyed())

    assert (answer.status_code, answer.headers["dry-run"]) == (status, "true"), answer.text
    assert await everything(database) == before
    assert (await client.request(method, f"{BASE}/{path}", json=body, headers=keyed())).status_code == status


async def test_a_dry_run_is_refused_as_the_real_one_would_be(client):
    await client.post(f"{BASE}/tasks", json=TASK)
    answer = await client.post(f"{BASE}/tasks?dry_run=true", json=TASK)

    assert (answer.status_code, answer.json()["code"]) == (409, "task.exists")


async def test_the_platform_may_try_too(database):
    async with client_of(app_on(database), token_of("platform")) as platform:
        tried = await platform.post("/v1/tenants?dry_run=true", json={"name": "new"})
        listed = await platform.get("/v1/tenants")

    assert (tried.status_code, tried.json()["name"], listed.json()["items"]) == (201, "new", [])


@pytest.mark.parametrize("query", ["dry_run=", "dry_run=yes", "dry_run=TRUE", "dry_run=true&dry_run=false"])
async def test_a_dry_run_is_true_or_false(client, query):
    answer = await client.post(f"{BASE}/tasks?{query}", json=TASK)

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "query:dry_run")
    assert (await client.get(f"{BASE}/tasks/x")).status_code == 404


def test_every_change_can_be_tried_and_every_post_repeated():
    own = {"update_schedule", "smooth_schedules"}  # they answer a dry run themselves
    secret = {"create_token", "renew_token", "begin_session"}  # what they answer is kept nowhere
    for router in ROUTERS:
        for route in router.routes:
            if not isinstance(route, ControlRoute):
                continue
            writes = route.methods != {"GET"} and not hasattr(route.endpoint, "everwhen_reads")
            name = route.endpoint.__name__
            takes = writes and name not in own | secret
            assert route.manner.tries == takes, name
            assert route.manner.keyed == (takes and route.methods == {"POST"}), name


def test_what_only_reads_takes_neither():
    @reads
    def look():
        pass

    manner = manner_of(look, {"POST"}, ())

    assert (manner.tries, manner.keyed) == (False, False)


async def test_what_was_swallowed_is_not_committed_by_halves(database, tenant):
    async def fail(whole):
        async with whole.tenant(tenant.id) as conn:
            await conn.execute("update everwhen.tasks set priority = 1")
            raise ValueError

    async def swallow():
        async with joined(database) as whole:
            with suppress(ValueError):
                await fail(whole)

    with pytest.raises(RuntimeError, match="swallowed"):
        await swallow()
    async with database.tenant(tenant.id) as conn:
        found = await (await conn.execute("select priority from everwhen.tasks")).fetchone()

    assert found == (5,)
