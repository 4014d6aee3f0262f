# pyright: reportArgumentType=false
"""The notary: what a chain has come to is noted outside, and what does not follow from that is not."""

import asyncio
import json
from datetime import timedelta

import psycopg
import pytest
from click.testing import CliRunner
from obstore.store import MemoryStore

from everwhen import failpoints
from everwhen.audit.backlog import read_standing
from everwhen.audit.notary import HOLD, REPEATED, Notary
from everwhen.audit.places import NAME_HEADER, Listener, Shelf
from everwhen.audit.signing import new_entry, read_signer
from everwhen.cli import main
from everwhen.core.audit_chain import genesis, link
from everwhen.egress.client import Answered, Away
from everwhen.errors import ConfigurationError, Unavailable
from everwhen.failpoints import FailpointError
from tests.audit.test_sealer import seal_all, tell
from tests.factories import make_tenant

SIGNER = read_signer(new_entry("notary"))
MINUTE = timedelta(minutes=1)


class Broken:
    """A place that takes nothing until it is mended."""

    name = "broken"
    is_mended = False

    async def note(self, name, content):
        if not self.is_mended:
            raise Unavailable("it is away")


class Receiver:
    """An egress that hands over to a test."""

    def __init__(self, answer):
        self.answer = answer
        self.got = []

    async def post(self, url, *, tenant_id, headers, content):
        self.got.append((url, headers, content))
        return self.answer


@pytest.fixture
def shelf():
    return Shelf(MemoryStore())


@pytest.fixture
async def tenant(database):
    made = await make_tenant(database)
    await tell(database, made, 3)
    await seal_all(database)
    return made


@pytest.fixture
def tamper(server, work_database):
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute("set session_replication_role = replica")
        yield conn.execute


async def clock_of(database):
    async with database.system() as conn:
        return conn.now


async def noted(shelf):
    """Every line on a shelf, in the order in which they were noted."""
    contents = [content async for _, content in shelf.read(all_days=True)]
    return [json.loads(line) for content in contents for line in content.splitlines()]


async def standing(database):
    async with database.system() as conn:
        return (await read_standing(conn))[0]


async def test_a_chain_is_noted_once_a_period_as_long_as_it_goes_on_and_once_a_day_at_least(database, tenant, shelf):
    notary = Notary(database=database, places=[shelf], signer=SIGNER)
    now = await clock_of(database)

    assert (await notary.tick(now)).done == 1
    await tell(database, tenant, 2)
    await seal_all(database)
    assert (await notary.tick(now + MINUTE / 2)).done == 0
    assert (await notary.tick(now + MINUTE)).done == 1
    assert (await notary.tick(now + 2 * MINUTE)).done == 0
    assert (await notary.tick(now + MINUTE + REPEATED)).done == 1

    lines = await noted(shelf)
    assert [(line["tenant"], line["seq"]) for line in lines] == [(str(tenant.id), seq) for seq in (3, 5, 5)]
    assert {line["key"] for line in lines} == {"notary"}


async def test_a_long_chain_is_followed_piece_by_piece_and_many_chains_batch_by_batch(database, tenant, shelf):
    other = await make_tenant(database)
    await tell(database, other, 5)
    await seal_all(database)
    now = await clock_of(database)
    notary = Notary(database=database, places=[shelf], chains=1, links=2)

    while (await notary.tick(now)).more:
        pass

    assert sorted((line["tenant"], line["seq"]) for line in await noted(shelf)) == sorted(
        [
            *[(str(tenant.id), seq) for seq in (2, 3)],
            *[(str(other.id), seq) for seq in (2, 4, 5)],
        ]
    )
    assert (await standing(database)).unanchored == 0


async def hash_anew(tamper, tenant, first):
    """Change an event and hash all behind it anew, the head too: what only a note can tell."""
    tamper(
        "update everwhen.audit_events e set record = replace(record, 'ada', 'eve'), actor = 'eve'"
        " from everwhen.audit_links l where l.tenant_id = %s and l.seq >= %s"
        " and (e.tenant_id, e.event_id) = (l.tenant_id, l.event_id)",
        (tenant.id, first),
    )
    rows = tamper(
        "select l.seq, l.epoch, e.record, l.event_id from everwhen.audit_links l"
        " join everwhen.audit_events e using (tenant_id, event_id) where tenant_id = %s order by seq",
        (tenant.id,),
    ).fetchall()
    previous = genesis(tenant.id)
    for seq, epoch, record, event_id in rows:
        previous = link(previous, seq=seq, epoch=epoch, record=record)
        tamper("update everwhen.audit_links set hash = %s where event_id = %s", (previous, event_id))
    tamper("update everwhen.audit_heads set hash = %s where tenant_id = %s", (previous, tenant.id))


async def test_what_does_not_follow_from_the_last_note_is_never_noted_and_stops_no_other(
    database, tenant, tamper, shelf
):
    other = await make_tenant(database)
    now = await clock_of(database)
    notary = Notary(database=database, places=[shelf])
    await notary.tick(now)
    await hash_anew(tamper, tenant, 2)
    for chain in (tenant, other):
        await tell(database, chain, 1)
    await seal_all(database)

    await notary.tick(now + MINUTE)
    await notary.tick(now + MINUTE + HOLD)

    assert [(line["tenant"], line["seq"]) for line in await noted(shelf)] == [(str(tenant.id), 3), (str(other.id), 1)]
    assert ((await standing(database)).chains, (await standing(database)).broken) == (2, 1)
    assert tamper("select fault from everwhen.audit_heads where fault is not null").fetchall() == [("altered at 4",)]


@pytest.mark.parametrize(
    "change", ["update everwhen.audit_heads set seq = 2", "update everwhen.audit_heads set hash = sha256('x')"]
)
async def test_a_chain_that_was_cut_off_or_whose_head_was_changed_is_broken(*, database, tenant, tamper, shelf, change):
    now = await clock_of(database)
    notary = Notary(database=database, places=[shelf])
    await notary.tick(now)
    tamper(change)

    await notary.tick(now + REPEATED)

    assert (await standing(database)).broken == 1
    assert len(await noted(shelf)) == 1


async def test_what_is_mended_is_noted_again(database, tenant, tamper, shelf):
    now = await clock_of(database)
    notary = Notary(database=database, places=[shelf])
    tamper("update everwhen.audit_links set seq = 9 where seq = 2")
    await notary.tick(now)
    assert (await standing(database)).broken == 1
    tamper("update everwhen.audit_links set seq = 2 where seq = 9")

    await notary.tick(now + HOLD)

    assert (await standing(database)).broken == 0
    assert [line["seq"] for line in await noted(shelf)] == [3]


async def test_a_place_that_is_away_gets_it_later_and_no_other_is_told_less(database, tenant, shelf):
    now, broken = await clock_of(database), Broken()
    notary = Notary(database=database, places=[shelf, broken])
    assert (await notary.tick(now)).done == 0
    assert (await standing(database)).noted_at is None
    broken.is_mended = True

    assert (await notary.tick(now)).done == 0
    assert (await notary.tick(now + MINUTE)).done == 1

    assert [line["seq"] for line in await noted(shelf)] == [3, 3]


async def test_a_notary_that_dies_before_it_has_written_notes_again(database, tenant, shelf):
    now = await clock_of(database)
    notary = Notary(database=database, places=[shelf])
    with failpoints.armed("notary.after_note:error:1"), pytest.raises(FailpointError):
        await notary.tick(now)

    assert (await notary.tick(now + MINUTE)).done == 0
    assert (await notary.tick(now + HOLD)).done == 1

    assert [line["seq"] for line in await noted(shelf)] == [3, 3]


async def test_any_number_of_notaries_share_the_chains(database, shelf):
    tenants = [await make_tenant(database) for _ in range(6)]
    for tenant in tenants:
        await tell(database, tenant, 1)
    await seal_all(database)
    now = await clock_of(database)

    ticks = await asyncio.gather(*(Notary(database=database, places=[shelf], chains=2).tick(now) for _ in range(3)))

    assert sum(tick.done for tick in ticks) == 6
    assert sorted(line["tenant"] for line in await noted(shelf)) == sorted(str(tenant.id) for tenant in tenants)


async def test_who_listens_is_told_the_same_under_the_same_name(database, tenant, shelf):
    receiver = Receiver(Answered(status=204))
    await Notary(database=database, places=[shelf, Listener(receiver, "https://hook")]).tick(await clock_of(database))

    [(url, headers, content)] = receiver.got
    assert url == "https://hook"
    assert [each async for each in shelf.read()] == [(headers[NAME_HEADER], content)]


@pytest.mark.parametrize("answer", [Answered(status=500), Answered(status=302), Away("no answer")])
async def test_who_does_not_take_it_is_told_again(database, tenant, answer):
    notary = Notary(database=database, places=[Listener(Receiver(answer), "https://hook")])

    assert (await notary.tick(await clock_of(database))).done == 0
    assert (await standing(database)).unanchored == 1


async def test_without_a_place_nothing_is_claimed(database, tenant):
    assert (await Notary(database=database).tick(await clock_of(database))).done == 0
    assert (await standing(database)).unanchored == 1


# A folder, and the commands -------------------------------------------------------------------------------------------


async def test_the_last_days_with_a_note_are_found_over_the_turn_of_a_year(tmp_path):
    shelf = Shelf.at(str(tmp_path / "anchors"))
    for day in ("2025/11/30", "2025/12/31", "2026/01/01"):
        for number in range(3):
            await shelf.note(f"{day}/{number}.ndjson", b"{}\n")

    assert [name async for name, _ in shelf.read()] == [
        f"{day}/{number}.ndjson" for day in ("2026/01/01", "2025/12/31") for number in range(3)
    ]
    assert len([name async for name, _ in shelf.read(all_days=True)]) == 9


async def test_a_folder_in_which_nothing_was_noted_holds_nothing(tmp_path):
    assert [name async for name, _ in Shelf.at(str(tmp_path / "anchors")).read()] == []


@pytest.mark.parametrize("location", ["ftp://nowhere/x", "s3://"])
def test_a_place_that_makes_no_sense_is_refused_in_a_line(location):
    with pytest.raises(ConfigurationError, match="place of anchors"):
        Shelf.at(location)


async def test_verify_holds_the_chains_against_what_was_noted_without_being_told(
    *, database, tenant, tamper, server, work_database, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    entry = new_entry("notary")
    for name, value in {
        "DATABASE_URL": server.app(work_database),
        "AUDIT_ANCHOR_URL": str(tmp_path / "anchors"),
        "AUDIT_ANCHOR_KEY": entry,
    }.items():
        monkeypatch.setenv(f"EVERWHEN_{name}", value)
    shelf = Shelf.at(str(tmp_path / "anchors"))
    await Notary(database=database, places=[shelf], signer=read_signer(entry)).tick(await clock_of(database))

    async def verify(*words, exit_code):
        result = await asyncio.to_thread(lambda: CliRunner().invoke(main, ["audit", "verify", *words]))
        assert result.exit_code == exit_code, (words, result.output, result.exception)
        return result.output

    assert "3 links, the last is 3, anchored up to 3" in await verify(exit_code=0)
    other = read_signer(new_entry("notary")).public_entry
    assert "unsigned  at 3" in await verify("--public-key", other, exit_code=10)

    await hash_anew(tamper, tenant, 2)
    assert "no anchor" in await verify("--noted", "none", exit_code=0)  # the hashes alone cannot know
    assert "rewritten  at 3" in await verify("--noted", "all", exit_code=10)
    assert "rewritten  at 3" in await verify(exit_code=10)


@pytest.mark.parametrize(
    ("settings", "change", "verdict", "detail"),
    [
        ({}, None, "warn", "noted nowhere outside"),
        ({"AUDIT_ANCHOR_URL": "anchors"}, None, "warn", "nothing yet"),
        ({"AUDIT_ANCHOR_URL": "payloads/anchors", "PAYLOAD_URL": "payloads"}, None, "warn", "where the payloads"),
        ({"AUDIT_ANCHOR_URL": "s3://b/p/a", "PAYLOAD_URL": "s3://b/p"}, None, "warn", "where the payloads"),
        ({"AUDIT_ANCHOR_URL": "anchors"}, "set anchored = seq, anchored_at = now()", "ok", "1 chains, 0 with"),
        ({"AUDIT_ANCHOR_URL": "anchors"}, "set fault = 'altered at 2'", "fail", "1 chains do not follow"),
    ],
)
async def test_the_doctor_says_how_the_audit_stands(
    *, database, tenant, tamper, server, work_database, tmp_path, monkeypatch, settings, change, verdict, detail
):
    monkeypatch.chdir(tmp_path)
    for name, value in {"DATABASE_URL": server.app(work_database), **settings}.items():
        monkeypatch.setenv(f"EVERWHEN_{name}", value)
    if change:
        tamper(f"update everwhen.audit_heads {change}")

    result = await asyncio.to_thread(
        lambda: CliRunner().invoke(main, ["doctor", "-o", "json", "--url", "http://127.0.0.1:9"])
    )

    [found] = [each for each in json.loads(result.stdout)["items"] if each["check"] == "audit"]
    assert found["verdict"] == verdict
    assert detail in found["detail"]
