# pyright: reportArgumentType=false, reportOptionalMemberAccess=false, reportIncompatibleMethodOverride=false
"""Rate limits: shared by copies, bounded in memory, of no harm to anybody when the database is away."""

import asyncio
import re
import time
import uuid
from datetime import UTC, datetime
from ipaddress import ip_network
from types import SimpleNamespace

import httpx2
import psycopg
import pytest
from fastapi import APIRouter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everwhen import metrics
from everwhen.core.buckets import Allowance, draw
from everwhen.http.access import Anybody, Reader, TenantName
from everwhen.http.addresses import client_address, network_of
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.bodies import ControlRoute
from everwhen.http.counting import Counter, allowance_of
from everwhen.http.limits import Bucket, RateLimits, Want
from everwhen.http.manners import reads
from everwhen.http.plane import ControlPlane
from everwhen.http.principal import Membership, Principal
from everwhen.http.roles import Role
from everwhen.limits.rates import DatabaseDraw
from everwhen.limits.sweeping import sweep_buckets
from tests.people import SECRET, token_of

BARE = r'"[a-z]+"'
ITEM = rf"{BARE}(?:;[a-z]+=[0-9]+)+"  # a string with integer parameters, as RFC 9651 writes them
LIST = rf"{ITEM}(?:, {ITEM})*"
WIDE = {bucket: Allowance(1_000_000, 60) for bucket in Bucket}


class Row:
    """The buckets of a database that is away when it is told to be."""

    def __init__(self, *, away=False):
        self.away = away
        self.draws = 0
        self._full_at = {}

    async def __call__(self, wants):
        await asyncio.sleep(0)
        self.draws += 1
        if self.away:
            raise psycopg.OperationalError("away")
        return [(self._draw(want), want.allowance) for want in wants]

    def _draw(self, want):
        now, key = time.monotonic(), (want.bucket, want.whose)
        drawn = draw(
            max(0.0, self._full_at.get(key, 0.0) - now), want.allowance, owed=want.owed - want.kept, wanted=want.wanted
        )
        self._full_at[key] = now + drawn.full_in
        return drawn


def app_with(limits, *, trusted=(), database=None, authenticator=None):
    """An application of one route, counted by these limits."""
    router = APIRouter(route_class=ControlRoute)

    @router.get("/v1/anything")
    async def get_anything(access: Anybody) -> str:
        return "here"

    @router.get("/v1/tenants/{tenant}/anything")
    async def get_anything_in_tenant(tenant: TenantName, access: Reader) -> str:
        return "here"

    @router.post("/v1/worker/claim")
    @reads
    async def claim(access: Anybody) -> str:
        return "nothing"

    async def find_tenant(db, *, name, bound_to):
        return SimpleNamespace(id=bound_to, name=name)

    plane = ControlPlane(
        database=database,
        authenticator=authenticator or Authenticator(SECRET),
        find_tenant=find_tenant,
        counter=Counter(limits, trusted=[ip_network(each) for each in trusted]),
    )
    return create_app(plane, routers=[router])


def caller(app, token=None, *, address="192.0.2.1"):
    """A client whose connection comes from this address."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app=app, client=(address, 4711))
    return httpx2.AsyncClient(transport=transport, base_url="http://everwhen.test", headers=headers)


def limits_of(row=None, **allowances):
    named = {Bucket(name): Allowance(*each) for name, each in allowances.items()}
    return RateLimits(WIDE | named, row or Row())


async def statuses(client, path, times, *, method="GET"):
    return [(await client.request(method, path)).status_code for _ in range(times)]


async def test_every_answer_tells_of_its_buckets_in_structured_fields():
    app = app_with(limits_of(tenant=(600, 10)))
    token = token_of("viewer", tenant_id=uuid.UUID(int=1))
    async with caller(app, token) as known, caller(app) as stranger:
        answers = [
            await known.get("/v1/anything"),
            await known.get("/v1/nowhere"),
            await known.post("/v1/worker/claim"),
            await stranger.get("/v1/anything"),
            await stranger.get("/healthz"),
        ]

    for answer in answers:
        assert re.fullmatch(LIST, answer.headers["RateLimit-Policy"])
        assert re.fullmatch(LIST, answer.headers["RateLimit"])
    assert [re.findall(BARE, answer.headers["RateLimit"]) for answer in answers] == [
        ['"address"', '"tenant"', '"token"'],
        ['"address"', '"tenant"', '"token"'],
        ['"worker"'],
        ['"address"'],
        ['"address"'],
    ]
    assert '"tenant";q=600;w=10' in answers[0].headers["RateLimit-Policy"]
    assert re.search(r'"tenant";r=59\d;t=1', answers[0].headers["RateLimit"])


async def test_one_too_many_hears_which_bucket_who_shares_it_and_when_to_come_back():
    app = app_with(limits_of(tenant=(20, 600)))
    refused = metrics.RATE_EXCEEDED.labels("tenant")._value.get()
    async with caller(app, token_of("viewer", tenant_id=uuid.UUID(int=1))) as client:
        assert await statuses(client, "/v1/anything", 20) == [200] * 20
        answer = await client.get("/v1/anything")

    problem = answer.json()
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"
    assert (problem["code"], problem["retryable"], problem["bucket"]) == ("rate.exceeded", True, "tenant")
    assert problem["shared_by"] == "all tokens and members of the tenant"
    assert problem["violated_policies"] == ["tenant"]
    state = re.search(r'"tenant";r=0;t=(\d+)', answer.headers["RateLimit"])
    assert state
    assert int(answer.headers["Retry-After"]) == int(state[1]) == 30
    assert metrics.RATE_EXCEEDED.labels("tenant")._value.get() == refused + 1


async def test_tenants_subjects_and_addresses_have_buckets_of_their_own():
    app = app_with(limits_of(tenant=(6, 600), token=(4, 600), address=(8, 600)))
    one, other = uuid.UUID(int=1), uuid.UUID(int=2)
    async with (
        caller(app, token_of("viewer", tenant_id=one, subject="ada"), address="192.0.2.1") as ada,
        caller(app, token_of("viewer", tenant_id=one, subject="bo"), address="192.0.2.2") as bo,
        caller(app, token_of("viewer", tenant_id=other, subject="ada"), address="192.0.2.3") as namesake,
        caller(app, token_of("viewer", tenant_id=other, subject="cy"), address="192.0.2.1") as neighbour,
    ):
        assert await statuses(ada, "/v1/anything", 5) == [200] * 4 + [429]  # of the subject
        assert await statuses(bo, "/v1/anything", 3) == [
            200,
            429,
            429,
        ]  # of the tenant, which the fifth of ada counts in
        assert await statuses(namesake, "/v1/anything", 4) == [200] * 4
        assert await statuses(neighbour, "/v1/anything", 4) == [
            200,
            200,
            429,
            429,
        ]  # of the tenant; then of the address


async def test_a_member_counts_in_the_tenant_of_the_path_and_the_platform_in_none():
    tenant = uuid.UUID(int=1)
    members = {"acme": Membership(tenant_id=tenant, tenant="acme", roles=frozenset({Role.VIEWER}))}
    person = Principal(subject="company:ada", tenant_id=None, roles=frozenset(), memberships=members)

    class People(Authenticator):
        async def _checked(self, credential, *, now):
            return SimpleNamespace(principal=person, until=now)

    limits = limits_of(tenant=(3, 600))
    async with caller(app_with(limits, authenticator=People(SECRET)), "x") as client:
        assert await statuses(client, "/v1/tenants/acme/anything", 4) == [200, 200, 200, 429]
        assert await statuses(client, "/v1/tenants/other/anything", 4) == [404] * 4
    async with caller(app_with(limits), token_of("platform", "viewer")) as platform:
        assert await statuses(platform, "/v1/tenants/acme/anything", 4) == [200] * 4


async def test_workers_have_a_bucket_of_their_own_and_none_of_their_address():
    app = app_with(limits_of(tenant=(2, 600), token=(2, 600), address=(2, 600), worker=(5, 600)))
    async with caller(app, token_of("worker", tenant_id=uuid.UUID(int=1))) as worker:
        assert await statuses(worker, "/v1/worker/claim", 6, method="POST") == [200] * 5 + [429]
    async with caller(app) as stranger:
        assert await statuses(stranger, "/v1/worker/claim", 3, method="POST") == [401, 401, 429]


# Guesses -------------------------------------------------------------------------------------------------------------


async def test_an_address_that_guesses_is_not_even_told_that_it_was_right():
    app = app_with(limits_of(failed=(5, 600)))
    right = token_of("viewer")
    async with caller(app) as guesser:
        found = [await guesser.get("/v1/anything", headers={"Authorization": f"Bearer guess{n}"}) for n in range(8)]
        lucky = await guesser.get("/v1/anything", headers={"Authorization": f"Bearer {right}"})

    assert [answer.status_code for answer in found] == [401] * 5 + [429] * 3
    assert found[-1].json()["bucket"] == "failed"
    assert lucky.status_code == 429
    async with caller(app, right, address="192.0.2.9") as elsewhere:
        assert (await elsewhere.get("/v1/anything")).status_code == 200


async def test_whoever_was_let_in_lately_is_not_shut_out_by_a_guesser_at_the_same_address():
    app = app_with(limits_of(failed=(5, 600)))
    async with caller(app, token_of("viewer")) as known, caller(app, "guess") as guesser:
        assert (await known.get("/v1/anything")).status_code == 200
        assert 429 in await statuses(guesser, "/v1/anything", 8)
        assert await statuses(known, "/v1/anything", 5) == [200] * 5


async def test_a_right_credential_costs_no_guess():
    app = app_with(limits_of(failed=(3, 600)))
    for n in range(10):
        async with caller(app, token_of("viewer", subject=f"person-{n}")) as client:
            assert (await client.get("/v1/anything")).status_code == 200


async def test_parallel_guesses_are_no_way_around_it():
    app = app_with(limits_of(failed=(10, 600)))
    async with caller(app) as guesser:
        asked = [guesser.get("/v1/anything", headers={"Authorization": f"Bearer guess{n}"}) for n in range(100)]
        found = [answer.status_code for answer in await asyncio.gather(*asked)]

    assert found.count(401) == 10
    assert found.count(429) == 90


async def test_a_credential_that_is_good_no_longer_is_a_guess_from_then_on():
    lifetimes = Authenticator(SECRET)
    app = app_with(limits_of(failed=(2, 600)), authenticator=lifetimes)
    token = token_of("viewer")
    async with caller(app, token) as client:
        assert (await client.get("/v1/anything")).status_code == 200
        lifetimes._key = b"another key, which has at least 32 bytes"
        lifetimes._remembered[token] = SimpleNamespace(until=datetime.min.replace(tzinfo=UTC))
        assert await statuses(client, "/v1/anything", 3) == [401, 401, 429]


# Where a request is from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "expected"),
    [
        ((), "192.0.2.1", "198.51.100.7", "192.0.2.1"),
        (("10.0.0.0/8",), "192.0.2.1", "198.51.100.7", "192.0.2.1"),
        (("10.0.0.0/8",), "10.0.0.1", "198.51.100.7", "198.51.100.7"),
        (("10.0.0.0/8",), "10.0.0.1", "203.0.113.5, 198.51.100.7", "198.51.100.7"),
        (("10.0.0.0/8",), "10.0.0.1", "203.0.113.5, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        (("10.0.0.0/8",), "10.0.0.1", "10.0.0.9, 10.0.0.2", "10.0.0.9"),
        (("10.0.0.0/8",), "10.0.0.1", "", "10.0.0.1"),
        (("10.0.0.0/8",), "10.0.0.1", "198.51.100.7, junk", "10.0.0.1"),
        (("10.0.0.0/8",), "10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        (("10.0.0.0/8",), "::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        (("2001:db8::/32",), "2001:db8::1", "[2001:db9::5]:443", "2001:db9::5"),
        (("10.0.0.0/8",), "10.0.0.1", ", ".join(["203.0.113.5"] * 1_000), "203.0.113.5"),
    ],
)
def test_only_trusted_proxies_are_believed(trusted, peer, forwarded, expected):
    scope = {"client": (peer, 1), "headers": [(b"x-forwarded-for", forwarded.encode())] if forwarded else []}

    assert client_address(scope, [ip_network(each) for each in trusted]) == expected


def test_neighbours_in_ipv6_count_as_one():
    assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2:ffff::") == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::") != "2001:db8:1:2::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("unknown") == "unknown"


async def test_a_made_up_header_gives_nobody_a_bucket_of_his_own():
    app = app_with(limits_of(address=(3, 600)))
    async with caller(app, token_of("viewer")) as client:
        found = [
            (await client.get("/v1/anything", headers={"X-Forwarded-For": f"203.0.113.{n}"})).status_code
            for n in range(5)
        ]

    assert found == [200, 200, 200, 429, 429]


# Harm to nobody ------------------------------------------------------------------------------------------------------


async def test_without_the_database_a_copy_counts_alone_and_refuses_nobody_else():
    row = Row(away=True)
    app = app_with(limits_of(row, tenant=(20, 600)))
    async with caller(app, token_of("viewer", tenant_id=uuid.UUID(int=1))) as client:
        assert await statuses(client, "/v1/anything", 21) == [200] * 20 + [429]
    assert 1 <= row.draws <= 2  # it is not asked each time


async def test_a_database_that_hangs_holds_nobody_up_for_long():
    async def hang(wants):
        await asyncio.sleep(3_600)

    limits = RateLimits(WIDE | {Bucket.TOKEN: Allowance(20, 600)}, hang)
    async with asyncio.timeout(5), caller(app_with(limits), token_of("viewer")) as client:
        assert await statuses(client, "/v1/anything", 3) == [200] * 3
    limits._drawing.cancel()


async def test_a_defect_of_ours_refuses_nobody():
    async def fail(wants):
        raise ZeroDivisionError

    async with caller(app_with(limits_of(fail, token=(20, 600))), token_of("viewer")) as client:
        assert await statuses(client, "/v1/anything", 3) == [200] * 3


async def test_memory_is_bounded_whoever_asks_and_what_is_forgotten_is_not_forgiven():
    row = Row()
    limits = RateLimits({Bucket.ADDRESS: Allowance(10, 600)}, row, most_held=100)
    for _ in range(10):
        assert await limits.spend(limits.find(Bucket.ADDRESS, "192.0.2.1"))
    for n in range(5_000):
        assert await limits.spend(limits.find(Bucket.ADDRESS, f"other-{n}"))
    if limits._drawing is not None:
        await limits._drawing

    assert limits.sizes() == {Bucket.ADDRESS: 100}
    assert len(limits._asked) + len(limits._filled) <= 200
    assert not await limits.spend(limits.find(Bucket.ADDRESS, "192.0.2.1"))


async def test_what_nobody_spends_is_given_back():
    row = Row()
    limits = RateLimits({Bucket.TENANT: Allowance(100, 4)}, row)  # held for a fifth of a second
    held = limits.find(Bucket.TENANT, "acme")
    assert await limits.spend(held)
    async with asyncio.timeout(10):
        while held.stock.left or held.stock.owed:  # noqa: ASYNC110  # it is given back by a timer
            await asyncio.sleep(0.01)

    assert limits._tidying is None
    assert row._full_at[Bucket.TENANT, "acme"] < time.monotonic() + 0.05


# The row -------------------------------------------------------------------------------------------------------------


@given(
    allowance=st.builds(Allowance, st.integers(1, 100_000), st.floats(0.5, 3_600)),
    asks=st.lists(st.tuples(st.integers(-50, 200), st.integers(0, 5_000)), min_size=1, max_size=6),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_statement_draws_as_the_core_does(server, work_database, allowance, asks):
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        for owed, wanted in asks:
            for full_in in (0.0, allowance.seconds / 3, allowance.seconds * 5):
                [(found_full_in, granted)] = conn.execute(
                    "select extract(epoch from d.full_at - n)::float8, d.granted from (select now()) as t (n),"
                    " everwhen.draw_from(n, n + make_interval(secs => %s), %s, %s, %s, %s) d",
                    (full_in, allowance.quota, allowance.seconds, owed, wanted),
                ).fetchall()
                drawn = draw(full_in, allowance, owed=owed, wanted=wanted)

                # Instants have microseconds, and a bucket may be at the edge of one more.
                assert abs(granted - drawn.granted) <= 1
                assert found_full_in == pytest.approx(drawn.full_in, abs=1.1 * allowance.interval + 1e-5)


async def test_three_copies_under_parallel_clients_keep_to_the_limit(database):
    allowance = Allowance(400, 4)
    copies = [
        app_with(RateLimits(WIDE | {Bucket.TENANT: allowance}, DatabaseDraw(database)), database=database)
        for _ in range(3)
    ]
    token, let_in, refused, started = token_of("viewer", tenant_id=uuid.UUID(int=1)), 0, 0, time.monotonic()

    async def ask(app):
        nonlocal let_in, refused
        async with caller(app, token) as client:
            while time.monotonic() < started + 3:
                answer = await client.get("/v1/anything")
                let_in += answer.status_code == 200
                refused += answer.status_code == 429

    await asyncio.gather(*(ask(copies[n % 3]) for n in range(12)))
    allowed = allowance.quota + (time.monotonic() - started) / allowance.interval

    assert refused > 0
    assert 0.85 * (allowed - 400) <= let_in <= 1.1 * allowed


async def test_a_full_bucket_leaves_no_row(database):
    wants = [
        Want(bucket=Bucket.TENANT, whose="a", tenant_id=None, allowance=Allowance(10, 600), owed=0, kept=0, wanted=1),
        Want(bucket=Bucket.TENANT, whose="b", tenant_id=None, allowance=Allowance(10, 600), owed=0, kept=0, wanted=0),
    ]
    assert [drawn.granted for drawn, _ in await DatabaseDraw(database)(wants)] == [1, 0]
    async with database.system() as conn:
        assert await sweep_buckets(conn, now=conn.now, limit=10) == 1
        assert await sweep_buckets(conn, now=conn.now, limit=10) == 0


def test_limits_are_told_by_the_minute():
    assert allowance_of(Bucket.TENANT, 30_000) == Allowance(5_000, 10)
    assert allowance_of(Bucket.WORKER, 600_000) == Allowance(600_000, 60)
    assert allowance_of(Bucket.TENANT, 1) == Allowance(1, 10)
