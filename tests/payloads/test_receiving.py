"""What arrives becomes a payload whole, or nothing of it stays: limits, quota, races, aborts and the sweeper."""

import asyncio
import hashlib
import os
import stat
from datetime import timedelta

import pytest

from everwhen import failpoints
from everwhen.errors import Conflict, InvalidInput, TooLarge, Unavailable
from everwhen.failpoints import FailpointError
from everwhen.payloads import receiving
from everwhen.payloads import service as payload_service
from everwhen.payloads.model import Described
from everwhen.payloads.porter import GRACE
from everwhen.payloads.receiving import Announced
from tests.payloads.scene import BY, content_of, files, put, stream

LOOSE = Described(by="tester", lasting=False)


async def now_of(database):
    async with database.system() as conn:
        return conn.now


async def rows(database, query: str):
    async with database.system() as conn:
        return await (await conn.execute(query)).fetchall()


async def sweep(database, sweeper, *, after=timedelta(0)):
    return await sweeper.tick(await now_of(database) + after)


async def test_a_stream_becomes_pieces_and_comes_back_as_it_was(payloads, tenant, folder):
    content = os.urandom(3_500)

    payload = await put(payloads, tenant, [content[:10], content[10:2_900], content[2_900:]])

    assert payload.digest == "sha256:" + hashlib.sha256(content).hexdigest()
    assert (payload.size_bytes, payload.pieces) == (3_500, 4)
    assert await content_of(payloads, tenant, payload) == content
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(folder)] == [0o640] * 4
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


async def test_an_empty_payload_is_one_too(payloads, tenant, folder):
    payload = await put(payloads, tenant, [])

    assert (payload.size_bytes, await content_of(payloads, tenant, payload), files(folder)) == (0, b"", [])


async def test_one_chunk_of_many_pieces_is_cut(payloads, tenant):
    content = os.urandom(9_999)

    payload = await put(payloads, tenant, content)

    assert payload.pieces == 10
    assert await content_of(payloads, tenant, payload) == content


async def test_the_limit_is_of_what_arrives_and_nothing_is_left(*, database, payloads, sweeper, tenant, folder):
    async def endless():
        while True:
            yield b"x" * 700

    with pytest.raises(TooLarge):
        await payloads.upload(tenant.id, endless(), described=BY)
    assert files(folder)
    await sweep(database, sweeper)

    assert files(folder) == []


async def test_what_is_announced_too_large_is_refused_before_anything_is_read(database, payloads, tenant):
    async def untouched():
        raise AssertionError("nobody asked for a byte")
        yield b""

    with pytest.raises(TooLarge):
        await payloads.upload(tenant.id, untouched(), described=BY, length=5 * 1024**3)
    assert await rows(database, "select 1 from everwhen.payload_objects") == []


@pytest.mark.parametrize("announced", [{"length": 4}, {"length": 6}, {"digest": "sha256:" + "0" * 64}])
async def test_what_is_not_what_was_announced_is_refused(*, database, payloads, sweeper, tenant, folder, announced):
    with pytest.raises(InvalidInput):
        await payloads.upload(tenant.id, stream(b"12345"), described=BY, **announced)
    await sweep(database, sweeper)

    assert files(folder) == []
    assert await rows(database, "select 1 from everwhen.payloads") == []


async def test_equal_bytes_are_one_payload_of_a_tenant_and_two_of_two(
    *, database, payloads, sweeper, tenant, other, folder
):
    first = await put(payloads, tenant, b"same")
    second, is_new = await payloads.upload(tenant.id, stream(b"sa", b"me"), described=BY)
    foreign = await put(payloads, other, b"same")
    await sweep(database, sweeper)

    assert (second, is_new) == (first, False)
    assert foreign.object_id != first.object_id
    assert len(files(folder)) == 2


async def test_uploads_of_the_same_bytes_at_once_make_one_object(*, database, payloads, sweeper, tenant, folder):
    content = os.urandom(2_500)

    made = await asyncio.gather(*(payloads.upload(tenant.id, stream(content), described=BY) for _ in range(6)))
    await sweep(database, sweeper)

    assert sorted(is_new for _, is_new in made) == [False] * 5 + [True]
    assert len({payload.object_id for payload, _ in made}) == 1
    assert len(files(folder)) == 3
    assert await rows(database, "select size_bytes, payloads from everwhen.payload_usage") == [(2_500, 1)]


async def test_of_two_that_fit_only_alone_one_is_let_in(*, database, payloads, sweeper, tenant, folder):
    await put(payloads, tenant, os.urandom(9_000))
    both = [payloads.upload(tenant.id, stream(os.urandom(9_000)), described=BY) for _ in range(2)]

    ended = await asyncio.gather(*both, return_exceptions=True)
    await sweep(database, sweeper)

    refused = [end for end in ended if isinstance(end, Conflict)]
    assert [error.code for error in refused] == ["quota.payload_bytes"]
    assert await rows(database, "select size_bytes, payloads from everwhen.payload_usage") == [(18_000, 2)]
    assert len(files(folder)) == 18


async def test_deleting_makes_room(payloads, tenant):
    for _ in range(4):
        payload = await put(payloads, tenant, os.urandom(10_000))
        await payloads.delete(tenant.id, payload.digest)

    assert (await payloads.usage(tenant.id)).size_bytes == 0


async def test_a_tenant_has_only_so_many_uploads_under_way(payloads, tenant, monkeypatch):
    monkeypatch.setattr(receiving, "MOST_ARRIVING", 2)
    gate, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def slow():
        begun.release()
        await gate.wait()
        yield b"x"

    under_way = [asyncio.create_task(payloads.upload(tenant.id, slow(), described=BY)) for _ in range(2)]
    for _ in under_way:
        await begun.acquire()

    with pytest.raises(Unavailable, match="under way"):
        await payloads.upload(tenant.id, stream(b"y"), described=BY)
    gate.set()
    assert [is_new for _, is_new in sorted(await asyncio.gather(*under_way), key=str)].count(True) == 1


@pytest.mark.parametrize("error", [ConnectionResetError, asyncio.CancelledError])
async def test_an_upload_that_breaks_off_leaves_nothing(*, database, payloads, sweeper, tenant, folder, error):
    async def broken():
        yield b"x" * 2_500
        raise error

    with pytest.raises(error):
        await payloads.upload(tenant.id, broken(), described=BY)
    assert len(files(folder)) == 2
    tick = await sweep(database, sweeper)

    assert (tick.done, files(folder)) == (1, [])
    assert not list(folder.iterdir())


@pytest.mark.parametrize("point", ["upload.after_piece", "upload.before_commit", "upload.after_commit"])
async def test_a_crash_at_any_point_leaves_a_payload_or_nothing(
    *, database, payloads, sweeper, tenant, folder, monkeypatch, point
):
    async def no_clean_up(*args):
        """What a process that was killed does not do."""

    monkeypatch.setattr(payloads.receiver, "abandon", no_clean_up)
    with failpoints.armed(f"{point}:error:1"), pytest.raises(FailpointError):
        await put(payloads, tenant, b"x" * 1_500)
    await sweep(database, sweeper)
    assert files(folder)  # its writer might be alive
    await sweep(database, sweeper, after=receiving.HOLD)

    kept = await rows(database, "select digest from everwhen.payloads")
    assert len(kept) == (point == "upload.after_commit")
    assert bool(files(folder)) == bool(kept)


async def test_a_writer_that_was_away_for_too_long_is_told_and_leaves_nothing(
    *, database, payloads, sweeper, tenant, folder, monkeypatch
):
    monkeypatch.setattr(receiving, "RENEW_SECONDS", 0.0)

    async def stopped():
        yield b"x" * 1_500
        await sweep(database, sweeper, after=receiving.HOLD)
        yield b"x" * 1_500

    with pytest.raises(Unavailable, match="stood still"):
        await payloads.upload(tenant.id, stopped(), described=BY)
    await sweep(database, sweeper, after=receiving.HOLD)

    assert files(folder) == []


async def test_a_piece_that_comes_after_the_first_visit_goes_with_the_second(
    *, database, payloads, sweeper, tenant, folder
):
    payload = await put(payloads, tenant, b"x")
    await payloads.delete(tenant.id, payload.digest)
    await sweep(database, sweeper)
    await payloads.depot.put(tenant.id, payload.object_id, 7, b"late")
    assert len(files(folder)) == 1

    await sweep(database, sweeper, after=GRACE)

    assert files(folder) == []
    assert await rows(database, "select 1 from everwhen.payload_objects") == []


async def test_a_file_that_was_being_written_goes_with_its_object(*, database, payloads, sweeper, tenant, folder):
    payload = await put(payloads, tenant, b"x")
    (files(folder)[0].parent / "000001#1").write_bytes(b"half")
    await payloads.delete(tenant.id, payload.digest)
    await sweep(database, sweeper)

    assert files(folder) == []


async def test_a_depot_that_is_away_puts_the_sweep_off(*, database, payloads, sweeper, tenant, folder, monkeypatch):
    payload = await put(payloads, tenant, b"x")
    await payloads.delete(tenant.id, payload.digest)

    async def away(*args):
        raise Unavailable

    with monkeypatch.context() as patch:
        patch.setattr(type(payloads.depot), "remove", away)
        await sweep(database, sweeper)
    assert len(files(folder)) == 1
    await sweep(database, sweeper, after=GRACE)

    assert files(folder) == []


async def test_what_does_not_last_goes_when_nothing_refers_to_it(*, database, payloads, sweeper, tenant, folder):
    await put(payloads, tenant, b"loose", described=LOOSE)
    await put(payloads, tenant, b"lasting")
    await put(payloads, tenant, b"both", described=LOOSE)
    await put(payloads, tenant, b"both")
    await sweep(database, sweeper)
    assert len(files(folder)) == 3

    await sweep(database, sweeper, after=payload_service.UNUSED)
    await sweep(database, sweeper, after=payload_service.UNUSED)

    assert len((await payloads.list(tenant.id, limit=10)).rows) == len(files(folder)) == 2


async def test_a_sweep_sleeps_until_there_is_something_to_do(database, payloads, sweeper, tenant):
    assert (await sweep(database, sweeper)).next_at is None
    payload = await put(payloads, tenant, b"x")
    assert (await sweep(database, sweeper)).next_at is None
    await payloads.delete(tenant.id, payload.digest)
    tick = await sweep(database, sweeper)

    assert tick.done == 1
    assert tick.next_at is not None


async def test_a_foreign_announcement_is_nothing_special(payloads, other):
    staged = await payloads.receiver.receive(other.id, stream(b"x"), Announced(by="tester", length=1))

    assert staged.size_bytes == 1
