"""The check of a chain: a sound one passes, and each way to tamper with it is found."""

from dataclasses import replace
from uuid import UUID

import pytest

from everwhen.core.audit_chain import genesis, link
from everwhen.core.audit_checking import MOST_TOLD, Anchor, Check, Kind, Link

TENANT, OLD, NEW = UUID(int=1), UUID(int=2), UUID(int=3)


def chain_of(records, *, epoch=OLD, after=None):
    seq, previous, links = (after.seq, after.hash, []) if after else (0, genesis(TENANT), [])
    for record in records:
        seq += 1
        previous = link(previous, seq=seq, epoch=epoch, record=record)
        links.append(Link(seq=seq, epoch=epoch, hash=previous, record=record))
    return links


def head_of(found, source="a note"):
    return Anchor(tenant_id=TENANT, seq=found.seq, epoch=found.epoch, hash=found.hash, source=source)


def check(links, *anchors, head=None):
    check = Check(TENANT, anchors)
    for found in links:
        check.take(found)
    return check.end(head or head_of(links[-1], "the head"))


def kinds(report):
    return [(found.kind, found.seq) for found in report.findings]


LINKS = chain_of([f'{{"n":{number}}}' for number in range(10)])
NOTED = head_of(LINKS[6])


def test_a_sound_chain_is_sound_and_says_how_far_it_is_anchored():
    report = check(LINKS, NOTED, head_of(LINKS[2]))

    assert report.is_sound
    assert (report.links, report.last, report.anchored) == (10, 10, 7)


def test_a_chain_that_goes_on_in_another_epoch_is_sound():
    assert check(LINKS + chain_of(["{}", "{}"], epoch=NEW, after=LINKS[-1]), NOTED).is_sound


@pytest.mark.parametrize("position", range(7))
def test_one_byte_of_an_event_is_found_wherever_it_is_and_once(position):
    record = LINKS[4].record
    flipped = record[:position] + chr(ord(record[position]) ^ 1) + record[position + 1 :]

    report = check([*LINKS[:4], replace(LINKS[4], record=flipped), *LINKS[5:]])

    assert kinds(report) == [(Kind.ALTERED, 5)]


@pytest.mark.parametrize(
    "change", [{"epoch": NEW}, {"hash": bytes(32)}, {"agrees": False}], ids=["epoch", "hash", "column"]
)
def test_what_else_a_link_has_is_part_of_it(change):
    report = check([*LINKS[:4], replace(LINKS[4], **change), *LINKS[5:]])

    assert kinds(report)[0] == (Kind.ALTERED, 5)


def test_a_deleted_event_is_found_with_its_link_and_without():
    assert kinds(check([*LINKS[:4], replace(LINKS[4], record=None), *LINKS[5:]])) == [(Kind.GONE, 5)]
    assert kinds(check(LINKS[:4] + LINKS[5:])) == [(Kind.MISSING, 5)]
    assert kinds(check(LINKS[1:])) == [(Kind.MISSING, 1)]


def test_events_that_changed_places_are_found():
    third, fourth = LINKS[2], LINKS[3]
    records = [replace(third, record=fourth.record), replace(fourth, record=third.record)]

    assert kinds(check([*LINKS[:2], *records, *LINKS[4:]])) == [(Kind.ALTERED, 3), (Kind.ALTERED, 4)]
    assert kinds(check([*LINKS[:2], fourth, third, *LINKS[4:]])) == [(Kind.MISSING, 3), (Kind.DOUBLED, 3)]


def test_an_end_that_was_cut_off_is_found_by_the_head():
    assert kinds(check(LINKS[:5], head=head_of(LINKS[-1]))) == [(Kind.TRUNCATED, 5)]


def test_an_end_that_was_cut_off_with_its_head_is_found_by_an_anchor_and_by_nothing_else():
    assert check(LINKS[:5]).is_sound
    assert kinds(check(LINKS[:5], NOTED)) == [(Kind.TRUNCATED, 5)]
    assert check(LINKS[:7], NOTED).is_sound


def test_a_chain_that_was_hashed_anew_is_found_by_an_anchor_and_by_nothing_else():
    forged = chain_of([found.record.replace("4", "5") for found in LINKS])

    assert check(forged).is_sound
    assert check(forged, head_of(LINKS[3])).is_sound  # before what was changed
    assert kinds(check(forged, NOTED)) == [(Kind.REWRITTEN, 7)]


def test_two_servers_that_went_on_from_one_place_are_found():
    other = chain_of(['{"m":1}', '{"m":2}'], epoch=NEW, after=LINKS[7])
    merged = sorted([*LINKS, *other], key=lambda found: (found.seq, found.epoch))

    assert kinds(check(merged, head=head_of(LINKS[9]))) == [(Kind.FORKED, 9), (Kind.FORKED, 10)]
    assert kinds(check([*LINKS[:8], *other], head_of(LINKS[8]))) == [(Kind.FORKED, 9)]


def test_a_link_that_is_there_twice_is_found():
    assert kinds(check([*LINKS[:5], LINKS[4], *LINKS[5:]])) == [(Kind.DOUBLED, 5)]


def test_the_chain_of_another_tenant_is_no_chain_of_this_one():
    check = Check(TENANT)
    check.take(replace(LINKS[0], hash=link(genesis(UUID(int=9)), seq=1, epoch=OLD, record=LINKS[0].record)))

    assert kinds(check.end(None)) == [(Kind.ALTERED, 1), (Kind.TRUNCATED, 1)]


def test_a_head_that_is_behind_or_another_is_found_unless_the_chain_grows():
    assert kinds(check(LINKS, head=head_of(LINKS[4]))) == [(Kind.ALTERED, 10)]
    assert kinds(check(LINKS, head=replace(head_of(LINKS[9]), hash=bytes(32)))) == [(Kind.REWRITTEN, 10)]

    growing = Check(TENANT, own=head_of(LINKS[3]))
    for found in LINKS[:5]:
        growing.take(found)
    assert growing.end(head_of(LINKS[9]), is_growing=True).is_sound


def test_findings_are_counted_and_the_first_ones_told():
    report = check([replace(found, record=None) for found in chain_of(["{}"] * 50)])

    assert report.counts[Kind.GONE] == 50
    assert len(report.findings) == MOST_TOLD
