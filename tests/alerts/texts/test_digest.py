"""Many occasions at once: counted by kind, the first told one by one, the others counted."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from everwhen.alerts.message import AlertKind
from everwhen.alerts.texts import render, sample

STORM = replace(
    sample("digest"),
    total=5013,
    counts=((AlertKind.RUN_DEAD, 5000), (AlertKind.RUN_LATE, 12), (AlertKind.RUN_RECOVERED, 1)),
)


def test_the_subject_counts_by_kind():
    assert render(STORM).subject == "5,000 runs dead, 12 runs late, 1 recovery · 30 Nov 02:35 CET · acme"


def test_kinds_beyond_the_first_are_counted():
    counts = tuple((kind, 9) for kind in list(AlertKind)[:6])

    assert ", 3 other kinds · " in render(replace(STORM, counts=counts)).subject


def test_a_kind_that_would_be_alone_in_the_rest_is_named():
    counts = tuple((kind, 1) for kind in list(AlertKind)[:4])

    assert render(replace(STORM, counts=counts)).subject.startswith(
        "1 run succeeded, 1 attempt failed, 1 run dead, 1 run expired · "
    )


def test_the_text_has_counts_the_first_ones_and_the_rest():
    text = render(STORM).text

    assert text.startswith("5,013 alerts, Mon 30 Nov 2026, 02:34 to 02:35 CET (UTC+01:00)\n")
    assert "In UTC: 2026-11-30 01:34 to 01:35 UTC" in text
    assert "\n  5,000 runs dead\n  12 runs late\n  1 recovery\n" in text
    assert [occasion.subject in text for occasion in STORM.shown] == [True] * 20
    assert "… and 4,993 more." in text


def test_at_most_twenty_are_told_one_by_one():
    many = replace(STORM, shown=STORM.shown + STORM.shown, total=40)

    rendered = render(many)

    assert rendered.text.count("\n✕ nightly-report") == 4
    assert "… and 20 more" in rendered.text
    assert "… and 20 more" in rendered.html
    assert len(rendered.payload["data"]["occasions"]) == 20


def test_nothing_more_is_said_where_all_are_shown():
    rendered = render(replace(STORM, total=20))

    assert "more" not in rendered.text.partition("--")[0]


def test_without_counts_those_shown_are_counted():
    assert render(replace(STORM, counts=())).subject.startswith("8 runs dead, 4 runs late, 4 runs missed, 4 recoveries")


def test_schedules_of_several_zones_have_their_window_in_utc():
    shown = (replace(STORM.shown[0], zone="Asia/Tokyo"), *STORM.shown[1:])

    assert "5,013 alerts, 2026-11-30 01:34 to 01:35 UTC\n" in render(replace(STORM, shown=shown)).text


def test_without_a_window_it_is_that_of_the_occasions():
    start = datetime(2026, 11, 30, 1, 0, tzinfo=UTC)
    shown = tuple(replace(each, at=start + timedelta(minutes=n)) for n, each in enumerate(STORM.shown))

    text = render(replace(STORM, shown=shown, window_from=None, window_to=None)).text

    assert "5,013 alerts, Mon 30 Nov 2026, 02:00 to 02:19 CET (UTC+01:00)\n" in text


def test_a_digest_of_none_shown_is_still_a_message():
    rendered = render(replace(STORM, shown=()))

    assert rendered.subject.startswith("5,000 runs dead")
    assert "… and 5,013 more." in rendered.text


def test_its_blocks_count_and_tell():
    blocks = render(STORM).blocks

    assert blocks[0]["type"] == "header"
    body = "\n".join(block["text"]["text"] for block in blocks if block["type"] == "section")
    assert "✕ 5,000 runs dead" in body
    assert body.count("nightly-report-") == 4
    assert "… and 4,993 more" in body
