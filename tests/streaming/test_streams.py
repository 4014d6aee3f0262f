"""How streams begin, keep up, and end; what they cost; and whose events they tell."""

import asyncio

import psycopg
import pytest

from everwhen.errors import RateExceeded, Unavailable
from everwhen.http.sse import EventStream
from everwhen.streaming import hub as hubs
from everwhen.streaming import store, telling
from everwhen.streaming.feed import Feed, sweep_cuts
from everwhen.streaming.hub import Hub
from everwhen.streaming.model import Place, read_place
from tests.factories import make_run
from tests.streaming.scene import Scene, eventually, listening, looking, parse


@pytest.fixture
async def scene(database):
    return await Scene.make(database)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(telling, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(telling, "AWAY_SECONDS", 0.02)


@pytest.mark.parametrize("text", ["12", "12.7", "12~7", "12.0"])
def test_a_place_is_read_as_it_was_written(text):
    assert str(read_place(text)) == text


@pytest.mark.parametrize("text", ["", "0", "-1", "1.", ".1", "1.1.1", "1~", "01", "1.01", "١٢", "1 ", "9" * 50, "x"])
def test_what_is_no_place_is_none(text):
    assert read_place(text) is None


def test_places_come_after_one_another():
    assert Place(1, 5) < Place(1, 6) < Place(1) < Place(2, 1) < Place(2, 1, from_beginning=True) < Place(2)


async def test_a_filter_lets_through_what_it_means(scene):
    start = str(scene.hub.cut)
    other = (await make_run(scene.db, scene.tenant)).row
    [claimed] = await scene.write(kind="claimed")
    [dead] = await scene.write(kind="dead", run_id=other.run_id)
    texts = (
        "kind:dead",
        f"run:{scene.run_id} kind:claimed",
        f"task:{other.task} kind:dead",
        f"queue:{other.queue} kind:dead",
        "kind:dead task:nope",
        "schedule:nightly",
    )
    events = {text: [each.event for each in await scene.told(after=start, text=text)] for text in texts}

    assert list(events.values()) == [[dead], [claimed], [dead], [dead], [], []]


async def test_an_event_of_a_run_that_has_gone_is_told(scene):
    start = str(scene.hub.cut)
    gone = scene.run_id.__class__(int=scene.run_id.int + 1)
    [event] = await scene.write(kind="unplanned", run_id=gone)
    [told] = await scene.told(after=start)

    assert (told.event, told.data["task"], told.data["due_at"]) == (event, None, None)


async def test_nobody_hears_another_tenant(scene):
    other = await Scene.make(scene.db, hub=scene.hub)
    start = str(scene.hub.cut)
    async with listening(scene.teller()) as mine, listening(other.teller()) as theirs:
        await mine.until_joined()
        await theirs.until_joined()
        own, foreign = await scene.write(2), await other.write(2)
        await scene.hub.look()
        await mine.until(lambda heard: len(heard.events) == 2)
        await theirs.until(lambda heard: len(heard.events) == 2)

    assert (mine.events, theirs.events) == (own, foreign)
    assert [each.event for each in await scene.told(after=start)] == own
    assert await scene.told(after=start, text=f"run:{other.run_id}") == []


async def test_a_stream_ends_when_its_listener_may_not_listen_any_more(scene):
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        scene.allowed[0] = False
        await listener.until(lambda heard: heard.has("end"))

    assert listener.pieces[-1].data["reason"] == "token.ended"


async def test_nothing_is_told_while_it_is_unknown_whether_one_may_listen(scene):
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        scene.allowed[0] = None
        await asyncio.sleep(0.1)  # until it has looked
        await scene.write()
        await scene.hub.look()
        assert listener.events == []
        scene.allowed[0] = True
        await listener.until(lambda heard: len(heard.events) == 1)


async def test_a_server_that_stops_tells_its_streams_to_come_back(scene):
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        scene.hub.close()
        await listener.until(lambda heard: heard.has("end"))

    assert listener.pieces[-1].data["reason"] == "server.stopping"
    with pytest.raises(Unavailable):
        scene.hub.admit(scene.tenant.id)


async def test_a_reader_that_falls_behind_reads_on_by_itself_and_loses_nothing(scene, monkeypatch):
    monkeypatch.setattr(hubs, "MOST_QUEUED", 5)
    pieces = scene.teller().pieces()
    heard = [await anext(pieces) for _ in range(2)]
    taking = asyncio.ensure_future(anext(pieces))
    await eventually(lambda: scene.hub.is_heard)
    written = []
    for _ in range(4):
        written += await scene.write(5)
        await scene.hub.look()
    assert not scene.hub.is_heard  # nothing is kept for it any more
    heard = [await taking]
    async with looking(scene.hub):
        while len(heard) < 20:
            heard.append(await anext(pieces))
    await pieces.aclose()

    assert [parse(raw).event for raw in heard] == written


async def test_more_than_one_look_hands_out_is_read_by_each_stream(scene, monkeypatch):
    monkeypatch.setattr(hubs, "MOST_TOLD", 6)
    monkeypatch.setattr(hubs, "PAGE", 3)
    monkeypatch.setattr(telling, "PAGE", 3)
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        written = await scene.write(20)
        await scene.hub.look()
        await listener.until(lambda heard: len(heard.events) == 20)
        await listener.until_joined()

    assert listener.events == written


async def test_a_reader_that_takes_nothing_is_dropped():
    ended, closed = [], []

    async def pieces():
        try:
            while True:
                yield b"x"
        finally:
            closed.append(True)

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive():
        await asyncio.Event().wait()

    await EventStream(pieces(), on_end=ended.append, stall_seconds=0.01)({"type": "http"}, receive, send)

    assert (ended, closed) == ([True], [True])


async def test_a_client_that_leaves_is_counted_out():
    ended = []

    async def pieces():
        yield b"x"
        await asyncio.Event().wait()

    async def send(message):
        pass

    async def receive():
        return {"type": "http.disconnect"}

    await EventStream(pieces(), on_end=ended.append)({"type": "http"}, receive, send)

    assert ended == [False]


async def test_there_are_so_many_streams_and_no_more(database):
    scene = await Scene.make(database, most_of_one=2, most_in_all=3)
    other = await Scene.make(database, hub=scene.hub)
    scene.hub.admit(scene.tenant.id)
    scene.hub.admit(scene.tenant.id)
    with pytest.raises(RateExceeded):
        scene.hub.admit(scene.tenant.id)
    scene.hub.admit(other.tenant.id)
    with pytest.raises(Unavailable):
        scene.hub.admit(other.tenant.id)
    teller = scene.teller()
    scene.hub.dismiss(teller._stream, reason="test")
    scene.hub.admit(scene.tenant.id)


async def test_a_hundred_streams_cost_what_one_costs(scene, monkeypatch):
    counted = []

    async def statements(streams):
        opened = [scene.teller(text="kind:claimed") for _ in range(streams)]
        contexts = [listening(teller) for teller in opened]
        heard = [await context.__aenter__() for context in contexts]
        for each in heard:
            await each.until_joined()
        calls = count_calls(monkeypatch)
        for _ in range(3):
            await scene.write(2)
            await scene.hub.look()
        for each in heard:
            await each.until(lambda one: len(one.events) == 6)
        counted.append(len(calls))
        monkeypatch.undo()
        for context in contexts:
            await context.__aexit__(None, None, None)

    await statements(1)
    await statements(100)

    assert counted[0] == counted[1] > 0


def count_calls(monkeypatch):
    calls = []
    for name in ("find_last_cut", "find_news", "lock_cuts", "take_cut", "read_stretches", "read_history", "is_cut"):
        inner = getattr(store, name)

        def counting(*args, _inner=inner, _name=name, **words):
            calls.append(_name)
            return _inner(*args, **words)

        monkeypatch.setattr(store, name, counting)
    return calls


async def test_a_look_at_nothing_new_is_two_statements_and_keeps_nothing(scene, monkeypatch):
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        before = scene.hub.cut
        calls = count_calls(monkeypatch)
        await Feed(hub=scene.hub).tick(None)

        assert (calls, scene.hub.cut) == (["find_last_cut", "find_news"], before)


async def test_while_nothing_is_written_no_cut_is_taken_though_it_is_insisted(scene):
    await scene.hub.look(insist=True)
    before = scene.hub.cut
    await scene.hub.look(insist=True)

    assert scene.hub.cut == before


@pytest.mark.parametrize("place", ["17.4", "17~4", "999999999999999999"])
async def test_who_returns_too_late_is_told_so_and_goes_on_from_now(scene, place):
    await scene.write()
    await scene.hub.look(insist=True)
    async with listening(scene.teller(after=place)) as listener:
        await listener.until_joined()
        [event] = await scene.write()
        await scene.hub.look()
        await listener.until(lambda heard: event in heard.events)

    assert [piece.name for piece in listener.pieces] == [None, "ready", "reset", None]
    assert listener.events == [event]


async def test_of_a_run_it_is_told_from_the_beginning_instead(scene):
    history = await scene.told(run_id=scene.run_id)

    assert await scene.told(run_id=scene.run_id, after="17.4") == history != []


async def test_the_history_of_a_run_is_no_place_in_that_of_its_tenant(scene):
    [*_, last] = await scene.told(run_id=scene.run_id)
    async with listening(scene.teller(after=last.place)) as listener:
        await listener.until(lambda heard: heard.has("reset"))


async def test_old_cuts_go_and_the_last_one_stays(scene, server, work_database):
    await scene.write()
    await scene.hub.look(insist=True)
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute("update everwhen.cuts set cut = cut - 3 * 86400 * 1000000::bigint")
    async with scene.db.system() as conn:
        dropped = await sweep_cuts(conn, now=conn.now, limit=100)
        last = await store.find_last_cut(conn, known=0)

    assert dropped == 1
    assert last is not None


async def test_a_hub_that_has_lost_its_cut_sends_its_streams_to_read(scene, server, work_database):
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
            conn.execute("delete from everwhen.cuts")
        await scene.hub.look()
        await listener.until(lambda heard: heard.has("reset"))
        await listener.until_joined()


async def test_events_of_a_restored_dump_lie_before_the_first_cut(scene, server, work_database):
    """The numbers of another server's transactions mean nothing here, though they may look like ours."""
    await scene.write()
    await scene.hub.look(insist=True)
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute("update everwhen.cuts set server = 'another one'")
        conn.execute("update everwhen.events set written_by = written_by + 1000")
    hub = Hub(scene.db)
    here = Scene(scene.db, hub, scene.tenant, scene.run_id)
    async with scene.db.system() as conn:
        for _ in range(2):
            await conn.execute("select pg_current_xact_id()")
    await hub.look(insist=True)
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        for _ in range(1100):  # our own transactions reach those numbers
            conn.execute("select pg_current_xact_id()")
    start = str(hub.cut)
    [event] = await scene.write()

    assert [each.event for each in await here.told(after=start)] == [event]


async def test_a_stream_outlasts_a_database_that_is_away(scene, monkeypatch):
    inner, broken = hubs.read_page, [True]

    async def read_page(conn, **words):
        if broken[0]:
            raise psycopg.OperationalError("away")
        return await inner(conn, **words)

    monkeypatch.setattr(telling, "read_page", read_page)
    start = str(scene.hub.cut)
    [event] = await scene.write()
    await scene.hub.look(insist=True)
    async with listening(scene.teller(after=start)) as listener:
        await asyncio.sleep(0.1)
        broken[0] = False
        await listener.until(lambda heard: heard.events == [event])


async def test_a_look_that_fails_halfway_hands_out_everything_once(scene, monkeypatch):
    async with listening(scene.teller()) as listener:
        await listener.until_joined()
        written = await scene.write(3)
        inner, rounds = Hub._hand_out, []

        def hand_out(hub, event, tenant_id):
            inner(hub, event, tenant_id)
            rounds.append(event)
            if len(rounds) == 2:
                raise psycopg.OperationalError("away")

        monkeypatch.setattr(Hub, "_hand_out", hand_out)
        with pytest.raises(psycopg.OperationalError):
            await scene.hub.look()
        await scene.hub.look()
        await listener.until(lambda heard: len(heard.events) == 3)

    assert listener.events == written


async def test_a_quiet_stream_says_how_far_it_is(scene, monkeypatch):
    monkeypatch.setattr(telling, "BEAT_SECONDS", 0.0)
    async with listening(scene.teller(text="kind:dead")) as listener:
        await listener.until_joined()
        await scene.write()
        await scene.hub.look()
        await listener.until(lambda heard: heard.place == str(scene.hub.cut))

    assert listener.pieces[-1].data is None
