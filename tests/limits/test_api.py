"""Limits and usage as they are asked for: read by the tenant, set by the platform, counted by the day."""

import asyncio
import uuid

import httpx2
import pytest

from everwhen.core.buckets import Allowance
from everwhen.core.quotas import KINDS, Limit
from everwhen.http.counting import Counter
from everwhen.http.limits import Bucket, RateLimits
from everwhen.http.tallying import Tally
from everwhen.limits.rates import DatabaseDraw, DatabaseTally
from tests.factories import make_schedule, make_task, make_tenant
from tests.limits.test_rates import WIDE, app_with, caller, statuses
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/limits"


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database, name="acme")
    await make_task(database, made)
    return made


@pytest.fixture
async def platform(database, tenant):
    async with client_of(app_on(database), token_of("platform", "admin")) as opened:
        del opened.headers["If-Match"]
        yield opened


async def test_a_tenant_reads_every_limit_with_its_source_and_what_is_used(database, tenant):
    await make_schedule(database, tenant)
    async with client_of(app_on(database), token_of("viewer", tenant_id=tenant.id)) as viewer:
        answer = await viewer.get(PATH)

    found = answer.json()
    assert (answer.headers["ETag"], found["revision"]) == ('"rev-0"', 0)
    assert list(found["limits"]) == list(Limit)
    assert found["limits"]["schedules"] == {
        "limit": 20_000, "source": "default", "used": 1, "about": KINDS[Limit.SCHEDULES].sentence,
    }  # fmt: skip
    assert found["limits"]["attempts"]["used"] is None


async def test_the_platform_sets_names_the_revision_and_gives_back_what_is_usual(platform):
    assert (await platform.patch(PATH, json={"tasks": 7})).status_code == 428
    first = await platform.patch(PATH, json={"tasks": 7, "runs_per_day": 0}, headers={"If-Match": '"rev-0"'})
    stale = await platform.patch(PATH, json={"tasks": 8}, headers={"If-Match": '"rev-0"'})
    tried = await platform.patch(PATH, json={"tasks": 9}, headers={"If-Match": "*"}, params={"dry_run": "true"})
    back = await platform.patch(PATH, json={"tasks": None}, headers={"If-Match": '"rev-1"'})

    assert (first.status_code, first.headers["ETag"]) == (200, '"rev-1"')
    assert (first.json()["limits"]["tasks"]["limit"], first.json()["limits"]["tasks"]["source"]) == (7, "set")
    assert (stale.status_code, stale.json()["revision"]) == (412, 1)
    assert tried.json()["limits"]["tasks"]["limit"] == 9
    assert (back.json()["limits"]["tasks"]["limit"], back.json()["limits"]["tasks"]["source"]) == (5_000, "default")
    assert back.json()["limits"]["runs_per_day"]["limit"] == 0
    assert (await platform.get(PATH)).json()["revision"] == 2


async def test_of_two_first_changes_one_holds(platform):
    both = [platform.patch(PATH, json={"tasks": n}, headers={"If-Match": '"rev-0"'}) for n in (1, 2)]

    assert sorted(answer.status_code for answer in await asyncio.gather(*both)) == [200, 412]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"tasks": -1}, "/tasks"),
        ({"attempts": 0}, "/attempts"),
        ({"requests_per_minute": 5}, "/requests_per_minute"),
        ({"tasks": 10**16}, "/tasks"),
        ({"tasks": "5"}, "/tasks"),
        ({"tenant_id": str(uuid.UUID(int=1))}, "/tenant_id"),
    ],
    ids=str,
)
async def test_a_limit_that_cannot_be_is_refused(platform, body, pointer):
    answer = await platform.patch(PATH, json=body, headers={"If-Match": "*"})

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_a_tenant_that_is_not_there_has_no_limits(platform):
    answer = await platform.patch("/v1/tenants/nobody/limits", json={"tasks": 1}, headers={"If-Match": "*"})

    assert (answer.status_code, answer.json()["code"]) == (404, "tenant.unknown")


async def test_a_tenants_own_rate_holds_on_every_copy(database, tenant, platform):
    await platform.patch(PATH, json={"requests_per_minute": 60}, headers={"If-Match": "*"})
    limits = RateLimits(WIDE | {Bucket.TENANT: Allowance(20, 10)}, DatabaseDraw(database))
    async with caller(app_with(limits, database=database), token_of("viewer", tenant_id=tenant.id)) as client:
        found = await statuses(client, "/v1/anything", 14)
        told = (await client.get("/v1/anything")).headers["RateLimit-Policy"]

    assert '"tenant";q=10;w=10' in told
    assert found.count(200) <= 12
    assert 429 in found


async def test_usage_tells_of_requests_and_runs_by_the_day(database, tenant, platform):
    tally = Tally(DatabaseTally(database))
    limits = RateLimits(WIDE | {Bucket.TENANT: Allowance(5, 600)}, DatabaseDraw(database))
    app = app_with(limits, database=database)
    for middleware in app.user_middleware:
        middleware.kwargs["counter"] = Counter(limits, tally=tally)
    async with caller(app, token_of("worker", "viewer", tenant_id=tenant.id)) as client:
        assert await statuses(client, "/v1/anything", 7) == [200] * 5 + [429] * 2
        await statuses(client, "/v1/worker/claim", 3, method="POST")
    await tally.flush()
    usage = (await platform.get("/v1/tenants/acme/usage", params={"days": 2})).json()

    assert len(usage["days"]) == 2
    today = usage["days"][0]
    assert (today["requests"], today["requests_refused"], today["worker_requests"]) == (7, 2, 3)
    assert usage["active_schedules"] == 0


async def test_counts_that_cannot_be_written_are_kept(database):
    written, away = [], [True]

    async def write(counts):
        if away[0]:
            raise OSError("away")
        written.append({key: each.requests for key, each in counts.items()})

    tally, tenant = Tally(write, seconds=3_600), uuid.UUID(int=1)
    tally.count(tenant, is_work=False, is_refused=False)
    await tally.flush()
    tally.count(tenant, is_work=False, is_refused=False)
    away[0] = False
    await tally.flush()

    assert written == [{tenant: 2}]
    if tally._timer is not None:
        tally._timer.cancel()


async def test_a_day_count_is_bounded(platform):
    answer: httpx2.Response = await platform.get("/v1/tenants/acme/usage", params={"days": 401})

    assert answer.status_code == 422
