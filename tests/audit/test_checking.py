"""Checking chains where they are stored, and in an export: each way to tamper is done by a superuser, and found."""

import io
import json

import psycopg
import pytest
from click.testing import CliRunner

from everwhen.audit import checking
from everwhen.audit.checking import check_chain, check_file, find_head, read_chain
from everwhen.audit.lines import MOST_BYTES, UnreadableLine, head_line, link_line, read_anchors, read_lines
from everwhen.cli import main
from everwhen.core.audit_chain import genesis, link
from everwhen.core.audit_checking import Kind
from tests.audit.test_sealer import seal_all, tell
from tests.factories import make_tenant

COUNT = 8


@pytest.fixture
async def tenant(database):
    """A tenant with a chain of eight."""
    made = await make_tenant(database)
    await tell(database, made, COUNT)
    await seal_all(database)
    return made


@pytest.fixture
def tamper(server, work_database, tenant):
    """Change what is stored, as somebody does who owns the server: past the triggers and every policy."""
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        conn.execute("set session_replication_role = replica")
        place = "tenant_id = %(tenant)s and event_id = (select event_id from everwhen.audit_links"
        here = f"{place} where tenant_id = %(tenant)s and seq = %(seq)s order by epoch limit 1)"
        yield lambda statement, **given: conn.execute(statement.replace("HERE", here), {"tenant": tenant.id, **given})


@pytest.fixture
def found(database, tenant):
    """Check the chain, and return what was found, where."""

    async def check(anchors=()):
        noted = read_anchors(enumerate(anchors, start=1), source="note") if anchors else {}
        report = await check_chain(database, tenant.id, noted)
        return [(finding.kind, finding.seq) for finding in report.findings]

    return check


async def export(database, tenant):
    lines = [link_line(tenant.id, each) async for each in read_chain(database, tenant.id)]
    return [*lines, head_line(await find_head(database, tenant.id))]


def checked(lines, anchors=None):
    stream = io.BytesIO(b"".join(line.encode() + b"\n" for line in lines))
    return [(each.kind, each.seq) for report in check_file(stream, anchors or {}) for each in report.findings]


async def test_a_sound_chain_is_sound_in_the_database_and_in_an_export_page_by_page(
    database, tenant, found, monkeypatch
):
    monkeypatch.setattr(checking, "PAGE", 3)
    lines = await export(database, tenant)

    assert await found([lines[-1].encode()]) == []
    assert checked(lines) == []
    assert len(lines) == COUNT + 1


async def test_a_changed_byte_of_an_event_is_found(tamper, found):
    tamper("update everwhen.audit_events set record = replace(record, 'ada', 'ade') where HERE", seq=3)

    assert await found() == [(Kind.ALTERED, 3)]


async def test_a_changed_column_that_repeats_the_record_is_found(tamper, found):
    tamper("update everwhen.audit_events set actor = 'eve' where HERE", seq=3)

    assert await found() == [(Kind.ALTERED, 3)]


async def test_a_deleted_event_is_found_with_its_link_and_without(tamper, found):
    tamper("delete from everwhen.audit_events where HERE", seq=3)
    assert await found() == [(Kind.GONE, 3)]

    tamper("delete from everwhen.audit_links where HERE", seq=3)
    assert await found() == [(Kind.MISSING, 3)]


async def test_a_deleted_link_leaves_an_event_that_has_none(tamper, found):
    tamper("delete from everwhen.audit_links where HERE", seq=3)

    assert await found() == [(Kind.MISSING, 3), (Kind.UNCHAINED, COUNT)]


async def test_a_gap_that_is_wider_than_a_page_hides_nothing_behind_it(tamper, found, monkeypatch):
    monkeypatch.setattr(checking, "PAGE", 2)
    monkeypatch.setattr(checking, "EVENTS_PAGE", 3)
    tamper("delete from everwhen.audit_links where tenant_id = %(tenant)s and seq between 2 and 6")
    tamper("update everwhen.audit_links set seq = 9223372036854775807 where HERE", seq=8)

    last = 9223372036854775807
    assert await found() == [
        (Kind.MISSING, 2),
        (Kind.MISSING, 8),
        (Kind.ALTERED, last),
        *[(Kind.UNCHAINED, last)] * 5,
    ]


async def test_events_that_changed_places_are_found(tamper, found):
    tamper("update everwhen.audit_links set seq = 7 - seq where tenant_id = %(tenant)s and seq in (3, 4)")

    assert await found() == [(Kind.ALTERED, 3), (Kind.ALTERED, 4), (Kind.ALTERED, 5)]


async def test_a_tail_that_was_cut_off_is_found_by_the_head_or_by_an_anchor(database, tenant, tamper, found):
    noted = [(await export(database, tenant))[-1].encode()]
    for table in ("audit_events", "audit_links"):
        ids = "select event_id from everwhen.audit_links where tenant_id = %(tenant)s and seq > 5"
        if table == "audit_events":
            tamper(f"delete from everwhen.audit_events where tenant_id = %(tenant)s and event_id in ({ids})")
        else:
            tamper("delete from everwhen.audit_links where tenant_id = %(tenant)s and seq > 5")
    assert await found() == [(Kind.TRUNCATED, 5)]

    tamper(
        "update everwhen.audit_heads set seq = 5, hash = (select hash from everwhen.audit_links"
        " where tenant_id = %(tenant)s and seq = 5) where tenant_id = %(tenant)s"
    )
    assert await found() == []  # the hashes alone cannot know
    assert await found(noted) == [(Kind.TRUNCATED, 5)]


async def test_a_chain_that_was_hashed_anew_is_found_by_an_anchor_only(database, tenant, tamper, found):
    noted = [(await export(database, tenant))[-1].encode()]
    tamper("update everwhen.audit_events set record = replace(record, 'tasks/3', 'tasks/9') where HERE", seq=4)
    tamper("update everwhen.audit_events set resource = 'tasks/9' where HERE", seq=4)
    previous = genesis(tenant.id)
    async for each in read_chain(database, tenant.id):
        previous = link(previous, seq=each.seq, epoch=each.epoch, record=each.record)
        tamper("update everwhen.audit_links set hash = %(hash)s where HERE", seq=each.seq, hash=previous)
    tamper("update everwhen.audit_heads set hash = %(hash)s where tenant_id = %(tenant)s", hash=previous)

    assert await found() == []
    assert await found(noted) == [(Kind.REWRITTEN, COUNT)]


async def test_two_events_with_one_number_after_a_failover_are_found_across_pages(tamper, found, monkeypatch):
    monkeypatch.setattr(checking, "PAGE", 1)
    columns = "tenant_id, event_id, at, actor, operation, resource, outcome, request_id, record"
    other = "ffffffff-ffff-7fff-8fff-ffffffffffff"
    fork = "%(tenant)s, overlay(event_id::text placing 'ffff' from 33)::uuid"
    tamper(
        f"insert into everwhen.audit_events ({columns}) select {fork}, at, actor, operation, resource, outcome,"
        " request_id, record from everwhen.audit_events where HERE",
        seq=6,
    )
    tamper(
        f"insert into everwhen.audit_links (tenant_id, event_id, seq, epoch, hash)"
        f" select {fork}, seq, '{other}', hash from everwhen.audit_links where HERE",
        seq=6,
    )

    assert await found() == [(Kind.FORKED, 6)]


async def test_an_event_that_was_told_and_is_gone_before_it_had_a_link_is_found(database, tenant, tamper, found):
    await tell(database, tenant, 1)
    assert await found() == []
    tamper(
        "delete from everwhen.audit_events e using everwhen.audit_unsealed u"
        " where e.tenant_id = %(tenant)s and u.tenant_id = e.tenant_id and u.event_id = e.event_id"
    )

    assert await found() == [(Kind.UNCHAINED, COUNT)]


async def test_a_chain_that_is_gone_is_known_to_an_anchor(database, tenant, tamper, found):
    noted = [(await export(database, tenant))[-1].encode()]
    for table in ("audit_events", "audit_links", "audit_heads"):
        tamper(f"delete from everwhen.{table} where tenant_id = %(tenant)s")

    assert (Kind.TRUNCATED, 0) in await found(noted)
    assert checked([], read_anchors(enumerate(noted), source="note"))


async def test_an_export_in_which_any_line_was_changed_is_no_sound_one(database, tenant):
    lines = await export(database, tenant)
    for number, line in enumerate(lines):
        for position in range(0, len(line), 7):
            flipped = line[:position] + chr(ord(line[position]) ^ 1) + line[position + 1 :]
            assert checked([*lines[:number], flipped, *lines[number + 1 :]]), (number, position, flipped)
        assert checked(lines[:number] + lines[number + 1 :])
        assert checked([*lines[: number + 1], line, *lines[number + 1 :]])
    assert checked([*lines, *lines])
    assert checked(["x" * (MOST_BYTES + 1), *lines])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind":"head"}', '"link"', '{"kind":["link"]}'])
def test_what_is_no_anchor_is_refused(text):
    with pytest.raises(UnreadableLine):
        read_anchors(read_lines(io.BytesIO(text.encode())), source="note")


@pytest.fixture
def audit(server, work_database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVERWHEN_DATABASE_URL", server.app(work_database))
    return lambda *words: CliRunner().invoke(main, ["audit", *words])


def in_thread(function):
    """A command has an event loop of its own."""
    import asyncio

    return asyncio.to_thread(function)


async def test_the_commands_export_anchor_and_verify(audit, tenant, tamper, tmp_path):
    name = tenant.name
    exported = await in_thread(lambda: audit("export", "--tenant", name))
    noted = await in_thread(lambda: audit("anchor", "--tenant", name))
    (tmp_path / "export").write_text(exported.stdout)
    (tmp_path / "note").write_text(noted.stdout)
    assert exported.stdout.splitlines()[-1] == noted.stdout.strip()

    sound = await in_thread(lambda: audit("verify", "--file", "export", "--anchor", "note"))
    assert (sound.exit_code, sound.stderr) == (0, "every chain holds\n")
    assert f"{COUNT} links, the last is {COUNT}, anchored up to {COUNT}" in sound.stdout
    live = await in_thread(lambda: audit("verify", "--tenant", name, "--anchor", "export", "-o", "json"))
    assert live.exit_code == 0
    assert json.loads(live.stdout)["chains"][0]["anchored"] == COUNT

    tamper("update everwhen.audit_events set record = replace(record, 'ada', 'eve') where HERE", seq=3)
    broken = await in_thread(lambda: audit("verify", "--tenant", name, "-o", "json"))
    assert broken.exit_code == 10
    assert json.loads(broken.stdout)["chains"][0]["counts"] == {"altered": 1}
    (tmp_path / "export").write_text(exported.stdout.replace("ada", "eve", 1))
    table = await in_thread(lambda: audit("verify", "--file", "export"))
    assert table.exit_code == 10
    assert "altered  at 1: the hash is not that of this event at this place" in table.stdout


async def test_what_the_commands_cannot_do_is_said_in_a_line(audit, tenant, tmp_path):
    (tmp_path / "nothing").write_text("")

    for words, code in (
        (("verify", "--tenant", "nobody"), 3),
        (("verify", "--file", "nothing"), 1),
        (("verify", "--file", "nothing", "--tenant", "acme"), 2),
        (("verify", "--anchor", "nothing"), 2),
    ):
        result = await in_thread(lambda words=words: audit(*words))
        assert result.exit_code == code, (words, result.output)
        assert len(result.stderr.splitlines()) == 1
