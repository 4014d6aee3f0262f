"""A log has each piece once, in order, from who holds the lease, and nothing of it is left when it goes."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from everwhen import failpoints
from everwhen.core.log_cap import MOST_PIECES, Cut, Shared, fitted, notice, notice_of_tenant
from everwhen.core.quotas import Limit
from everwhen.errors import Conflict, InvalidInput, NotFound, TooLarge
from everwhen.failpoints import FailpointError
from everwhen.limits.service import change_limits
from everwhen.logs import service
from everwhen.logs.service import sweep_after
from everwhen.payloads.porter import GRACE
from tests.factories import make_tenant
from tests.logs.scene import claim, make_writer, report, text_of
from tests.payloads.scene import files

KEPT = timedelta(days=30)


async def rows(database, query):
    async with database.system() as conn:
        return await (await conn.execute(query)).fetchall()


async def sweep(database, *, after):
    async with database.system() as conn:
        return await sweep_after(KEPT)(conn, now=conn.now + after, limit=1_000)


async def carry(database, porter):
    """Have the porter visit twice."""
    for after in (timedelta(0), GRACE + timedelta(minutes=1)):
        async with database.system() as conn:
            now = conn.now
        await porter.tick(now + after)


async def test_pieces_become_a_log_byte_for_byte(logs, writer):
    hostile = b"\xff\xfe\x00\x1b[31m\r\n" + "ü\u202e".encode()
    for number, data in enumerate([b"one\n", hostile, b"x" * 400]):
        log = await logs.append(writer, number, data)

    assert (log.pieces, log.size_bytes, log.is_capped) == (3, 404 + len(hostile), False)
    assert await text_of(logs, writer) == b"one\n" + hostile + b"x" * 400
    assert await text_of(logs, writer, start=2) == b"e\n" + hostile + b"x" * 400
    assert await text_of(logs, writer, start=3) == b"\n" + hostile + b"x" * 400
    assert await text_of(logs, writer, start=500) == b""


async def test_a_piece_that_comes_again_changes_nothing_even_with_other_bytes(logs, writer):
    await logs.append(writer, 0, b"first\n")
    again = await logs.append(writer, 0, b"other bytes\n")

    assert (again.pieces, again.size_bytes) == (1, 6)
    assert await text_of(logs, writer) == b"first\n"


async def test_copies_of_a_piece_at_once_are_one_piece(*, database, logs, writer, porter, folder):
    for number in range(3):
        await asyncio.gather(*(logs.append(writer, number, b"%d%d\n" % (number, copy)) for copy in range(5)))

    lines = (await text_of(logs, writer)).split()
    assert [line[:1] for line in lines] == [b"0", b"1", b"2"]
    assert await rows(database, "select count(*) from everwhen.attempt_logs") == [(1,)]
    await report(database, writer)
    await sweep(database, after=2 * KEPT)
    await carry(database, porter)
    assert files(folder) == []


async def test_a_gap_is_refused_and_says_what_is_next(logs, writer):
    await logs.append(writer, 0, b"zero\n")
    with pytest.raises(Conflict) as refused:
        await logs.append(writer, 2, b"two\n")

    assert (refused.value.code, refused.value.told) == ("log.gap", {"pieces": 1})


@pytest.mark.parametrize(("data", "error"), [(b"", InvalidInput), (b"x" * 401, TooLarge)])
async def test_an_empty_piece_and_one_too_large_are_refused(*, logs, writer, folder, data, error):
    with pytest.raises(error):
        await logs.append(writer, 0, data)
    assert files(folder) == []


async def test_only_who_holds_the_lease_writes(*, database, logs, writer, folder):
    other = await make_tenant(database, name="other")
    for stranger in (
        replace(writer, token=writer.token + 1),
        replace(writer, tenant_id=other.id),
        replace(writer, queues=["another"]),
    ):
        with pytest.raises(NotFound) as refused:
            await logs.append(stranger, 0, b"x")
        assert refused.value.code == "lease.lost"
    await report(database, writer)
    with pytest.raises(NotFound):
        await logs.append(writer, 0, b"x")

    assert files(folder) == []


async def test_each_attempt_has_a_log_of_its_own_and_a_stale_one_grows_no_more(*, database, tenant, logs, writer):
    await logs.append(writer, 0, b"first attempt\n")
    await report(database, writer, "released")
    second = replace(writer, token=await claim(database, tenant))
    await logs.append(second, 0, b"second attempt\n")
    with pytest.raises(NotFound):
        await logs.append(writer, 1, b"from beyond\n")

    assert await text_of(logs, writer) == await text_of(logs, writer, 2) == b"second attempt\n"
    assert await text_of(logs, writer, 1) == b"first attempt\n"


async def test_a_lease_that_is_lost_while_the_bytes_are_under_way_writes_nothing(database, logs, writer, monkeypatch):
    put = type(logs.depot).put

    async def slow(depot, *args):
        await put(depot, *args)
        await report(database, writer)

    monkeypatch.setattr(type(logs.depot), "put", slow)
    with pytest.raises(NotFound):
        await logs.append(writer, 0, b"late\n")

    assert await rows(database, "select count(*) from everwhen.log_pieces") == [(0,)]


async def test_a_log_ends_at_its_most_bytes_and_says_so(logs, writer):
    for number in range(4):
        log = await logs.append(writer, number, b"%d" % number * 400)

    assert log.is_capped
    assert await text_of(logs, writer) == b"0" * 400 + b"1" * 400 + b"2" * 200 + notice(1_000)


def test_of_a_piece_beyond_the_most_pieces_nothing_follows():
    assert fitted(b"abc", size=0, pieces=0, most=10) == (b"abc", None)
    assert fitted(b"abc", size=8, pieces=0, most=10) == (b"ab" + notice(10), Cut.ATTEMPT)
    assert fitted(b"abc", size=30, pieces=0, most=10) == (notice(10), Cut.ATTEMPT)
    assert fitted(b"abc", size=0, pieces=MOST_PIECES - 1, most=10) == (b"abc" + notice(10), Cut.ATTEMPT)


@pytest.mark.parametrize(
    ("size", "used", "kept", "cut"),
    [
        (0, 97, b"abc", None),
        (0, 98, b"ab" + notice_of_tenant(100), Cut.TENANT),
        (0, 200, notice_of_tenant(100), Cut.TENANT),
        (9, 97, b"a" + notice(10), Cut.ATTEMPT),
        (8, 99, b"a" + notice_of_tenant(100), Cut.TENANT),
        (9, 99, b"a" + notice(10), Cut.ATTEMPT),
    ],
)
def test_the_nearer_of_both_limits_ends_a_log(size, used, kept, cut):
    assert fitted(b"abc", size=size, pieces=1, most=10, shared=Shared(used=used, most=100)) == (kept, cut)


async def set_bytes(database, tenant, most):
    await change_limits(database, tenant_id=tenant.id, changes={Limit.LOG_BYTES: most}, by="test", usual={})


async def kept_bytes(database, tenant):
    async with database.tenant(tenant.id) as conn:
        return await service.read_bytes(conn, tenant_id=tenant.id)


async def test_when_all_logs_of_a_tenant_take_what_they_may_they_end_with_a_notice_and_the_runs_go_on(
    *, database, tenant, other_tenant, logs, writer
):
    another = await make_writer(database, tenant, name="another")
    elsewhere = await make_writer(database, other_tenant, name="elsewhere")
    await set_bytes(database, tenant, 500)
    await logs.append(another, 0, b"a" * 300)
    await logs.append(writer, 0, b"b" * 150)
    ended = await logs.append(writer, 1, b"c" * 100)
    dropped = await logs.append(writer, 2, b"d" * 100)
    await logs.append(another, 1, b"e")
    await logs.append(elsewhere, 0, b"f" * 400)

    line = notice_of_tenant(500)
    assert (ended.is_capped, dropped) == (True, ended)
    assert await text_of(logs, writer) == b"b" * 150 + b"c" * 50 + line
    assert await text_of(logs, another) == b"a" * 300 + line
    assert await text_of(logs, elsewhere) == b"f" * 400
    assert await kept_bytes(database, tenant) == 500 + 2 * len(line)
    told = await rows(database, "select kind, attempt, reason from everwhen.events where kind = 'log_ended'")
    assert told == [("log_ended", 1, "quota.log_bytes")] * 2
    await report(database, writer)  # it is held by nobody's fault, and succeeds


async def test_what_the_sweep_takes_makes_room_again(*, database, tenant, logs, writer):
    await set_bytes(database, tenant, 100)
    await logs.append(writer, 0, b"x" * 100)
    await logs.append(writer, 0, b"x" * 100)  # the answer was lost: counted once
    assert await kept_bytes(database, tenant) == 100
    await report(database, writer, "released")
    assert await sweep(database, after=2 * KEPT) == 1
    assert await kept_bytes(database, tenant) == 0
    second = replace(writer, token=await claim(database, tenant))
    assert not (await logs.append(second, 0, b"y" * 100)).is_capped


async def test_a_crash_between_the_bytes_and_their_row_leaves_nothing_that_stays(
    *, database, logs, writer, porter, folder
):
    with failpoints.armed("log.after_put:error:1"), pytest.raises(FailpointError):
        await logs.append(writer, 0, b"lost\n")
    assert len(files(folder)) == 1
    await logs.append(writer, 0, b"found\n")
    assert await text_of(logs, writer) == b"found\n"
    await report(database, writer)

    assert await sweep(database, after=2 * KEPT) == 1
    await carry(database, porter)
    assert files(folder) == []
    assert await rows(database, "select count(*) from everwhen.payload_objects") == [(0,)]


async def test_the_sweep_takes_what_is_past_its_time_and_ended_and_nothing_else(
    *, database, tenant, logs, writer, folder, porter
):
    await logs.append(writer, 0, b"still running\n")
    assert await sweep(database, after=KEPT / 2) == 0
    assert await sweep(database, after=2 * KEPT) == 0  # the attempt runs
    await report(database, writer, "released")
    second = replace(writer, token=await claim(database, tenant))
    await logs.append(second, 0, b"the second\n")
    assert await sweep(database, after=2 * KEPT) == 1
    await carry(database, porter)

    assert await text_of(logs, writer, 2) == b"the second\n"
    assert await text_of(logs, writer, 1) == b""  # the attempt is known, its log is gone
    assert len(files(folder)) == 1


async def test_a_sweep_is_bounded_by_pieces(*, database, tenant, logs, writer, monkeypatch):
    monkeypatch.setattr(service, "MOST_PIECES_DROPPED", 2)
    for _ in range(3):
        for number in range(2):
            await logs.append(writer, number, b"x")
        await report(database, writer, "released")
        writer = replace(writer, token=await claim(database, tenant))

    assert [await sweep(database, after=2 * KEPT) for _ in range(4)] == [1, 1, 1, 0]
