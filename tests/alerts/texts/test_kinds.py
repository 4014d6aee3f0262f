"""Each kind of alert has words of its own, in the singular, in the plural, and for the n-th time in a row."""

from dataclasses import replace

import pytest

from everwhen.alerts.message import AlertKind
from everwhen.alerts.texts import render, sample
from everwhen.alerts.texts.kinds import PHRASES, SIGNS, Tone, ordinal, plural

SINGLE = {
    AlertKind.RUN_SUCCEEDED: ("succeeded", "A run of X succeeded."),
    AlertKind.RUN_ATTEMPT_FAILED: ("attempt 1 of 3 failed", "Attempt 1 of 3 of a run of X failed."),
    AlertKind.RUN_DEAD: (
        "dead after 3 attempts",
        "A run of X is dead after 3 attempts; nothing more follows by itself.",
    ),
    AlertKind.RUN_EXPIRED: ("expired", "A run of X expired: its deadline passed."),
    AlertKind.RUN_LATE: ("4m 12s late", "A run of X is 4m 12s late, more than its objective allows."),
    AlertKind.RUN_MISSED: ("missed", "A run of X was missed."),
    AlertKind.RUN_SKIPPED: ("skipped", "A run of X was skipped by a policy."),
    AlertKind.RUN_CANCELLED: ("cancelled", "A run of X was cancelled."),
    AlertKind.RUN_RECOVERED: ("recovered", "X recovered: a run of it succeeded again."),
    AlertKind.RUN_FLAPPING: (
        "fails and succeeds in turns",
        "Runs of X fail and succeed in turns; nothing more is told of them until that is over.",
    ),
    AlertKind.RUN_OVERDUE: ("will miss its deadline", "A run of X will miss its deadline if it goes on as it does."),
    AlertKind.WORKFLOW_SUCCEEDED: ("succeeded", "A run of the workflow X succeeded."),
    AlertKind.WORKFLOW_FAILED: ("failed", "A run of the workflow X failed."),
    AlertKind.SCHEDULE_PAUSED: (
        "paused itself",
        "The schedule X paused itself; it plans nothing until somebody resumes it.",
    ),
    AlertKind.SCHEDULE_OVERDUE: (
        "nobody plans it",
        "Nobody plans the schedule X: its next instant has passed, and no scheduler looked.",
    ),
    AlertKind.QUEUE_UNATTENDED: ("no live worker", "Queue X has no live worker; what is due there waits."),
    AlertKind.QUEUE_WAITING: ("due runs waiting", "Due runs at queue X wait for longer than they should."),
    AlertKind.RUN_ZOMBIE: (
        "a zombie: it holds its lease and does nothing",
        "A run of X holds its lease and does nothing: its worker lives, the run does not move.",
    ),
    AlertKind.CHANNEL_TEST: ("this is a test", "This is a test: the channel X works, and alerts will reach you here."),
}
MANY = {
    AlertKind.RUN_SUCCEEDED: ("12 runs succeeded", "12 runs of X succeeded."),
    AlertKind.RUN_DEAD: ("12 runs dead", "12 runs of X are dead; nothing more follows by itself."),
    AlertKind.RUN_EXPIRED: ("12 runs expired", "12 runs of X expired: their deadlines passed."),
    AlertKind.RUN_LATE: ("4m 12s late", "12 runs of X are later than the objective allows."),
    AlertKind.RUN_MISSED: ("12 runs missed", "12 runs of X were missed."),
    AlertKind.RUN_SKIPPED: ("12 runs skipped", "12 runs of X were skipped by a policy."),
    AlertKind.RUN_CANCELLED: ("12 runs cancelled", "12 runs of X were cancelled."),
    AlertKind.WORKFLOW_SUCCEEDED: ("12 runs succeeded", "12 runs of the workflow X succeeded."),
    AlertKind.WORKFLOW_FAILED: ("12 runs failed", "12 runs of the workflow X failed."),
    AlertKind.QUEUE_WAITING: ("12 due runs waiting", "12 due runs at queue X wait for longer than they should."),
}
IN_A_ROW = {
    AlertKind.RUN_ATTEMPT_FAILED: (
        "attempt 1 of 3 failed, 2nd time in a row",
        "Attempt 1 of 3 of a run of X failed. It is the 2nd time in a row.",
    ),
    AlertKind.RUN_DEAD: (
        "dead after 3 attempts, 2nd time in a row",
        "A run of X is dead after 3 attempts; nothing more follows by itself. It is the 2nd time in a row.",
    ),
    AlertKind.RUN_LATE: (
        "4m 12s late, 2nd time in a row",
        "A run of X is 4m 12s late, more than its objective allows. It is the 2nd time in a row.",
    ),
    AlertKind.RUN_MISSED: ("missed, 2nd time in a row", "A run of X was missed. It is the 2nd time in a row."),
    AlertKind.WORKFLOW_FAILED: (
        "failed, 2nd time in a row",
        "A run of the workflow X failed. It is the 2nd time in a row.",
    ),
    AlertKind.RUN_RECOVERED: (
        "recovered after 2 failures",
        "X recovered: a run of it succeeded after 2 failures in a row.",
    ),
    AlertKind.SCHEDULE_PAUSED: (
        "paused itself after 2 failures",
        "The schedule X paused itself after 2 failures in a row; it plans nothing until somebody resumes it.",
    ),
}
OTHERS = [
    (AlertKind.RUN_RECOVERED, {"in_a_row": 1}, "X recovered: a run of it succeeded after 1 failure."),
    (
        AlertKind.SCHEDULE_PAUSED,
        {"in_a_row": 1},
        "The schedule X paused itself after 1 failure; it plans nothing until somebody resumes it.",
    ),
    (
        AlertKind.RUN_DEAD,
        {"attempt": 1, "attempts": 1},
        "A run of X is dead after 1 attempt; nothing more follows by itself.",
    ),
    (
        AlertKind.RUN_DEAD,
        {"attempt": None, "attempts": None},
        "A run of X is dead; nothing more follows by itself.",
    ),
    (AlertKind.RUN_SUCCEEDED, {"attempt": 3}, "A run of X succeeded at attempt 3."),
    (AlertKind.RUN_ATTEMPT_FAILED, {"attempt": None}, "An attempt of a run of X failed."),
    (AlertKind.RUN_ATTEMPT_FAILED, {"attempts": None}, "Attempt 1 of a run of X failed."),
    (
        AlertKind.RUN_LATE,
        {"due_at": None, "nominal_at": None},
        "A run of X is late, more than its objective allows.",
    ),
]


def said(kind, **facts):
    occasion = replace(sample(kind.value).shown[0], subject="X", **facts)
    phrase = PHRASES[kind]
    return phrase.state(occasion), phrase.sentence(occasion, "X")


def test_every_kind_has_words_of_its_own():
    assert set(PHRASES) == set(SINGLE) == set(AlertKind)
    assert len({phrase.one for phrase in PHRASES.values()}) == len(AlertKind)
    assert set(SIGNS) == set(Tone)
    assert len(set(SIGNS.values())) == len(Tone)


@pytest.mark.parametrize("kind", AlertKind)
def test_one(kind):
    assert said(kind, in_a_row=None, count=1) == SINGLE[kind]


@pytest.mark.parametrize("kind", MANY)
def test_a_span_of_many(kind):
    assert said(kind, in_a_row=None, count=12) == MANY[kind]


@pytest.mark.parametrize("kind", IN_A_ROW)
def test_the_second_time_in_a_row(kind):
    assert said(kind, in_a_row=2, count=1) == IN_A_ROW[kind]


@pytest.mark.parametrize(("kind", "facts", "sentence"), OTHERS)
def test_with_more_or_less_known(kind, facts, sentence):
    assert said(kind, **{"in_a_row": None, **facts})[1] == sentence


@pytest.mark.parametrize("kind", AlertKind)
def test_a_sentence_ends_and_a_state_does_not(kind):
    state, sentence = said(kind)

    assert sentence.endswith(".")
    assert not state.endswith(".")
    assert len(state) < 60


@pytest.mark.parametrize("kind", AlertKind)
def test_a_message_says_what_which_when_why_and_what_to_do(kind):
    message = sample(kind.value)
    occasion = message.shown[0]

    rendered = render(message)

    assert rendered.subject.startswith(f"{occasion.subject}: ")
    assert rendered.subject.endswith(" · acme")
    for text in (rendered.text, str(rendered.blocks)):
        for part in (occasion.sentence, occasion.remedy, str(occasion.run_id or ""), occasion.link):
            assert part in text
        assert "UTC" in text
    if occasion.nominal_at:
        assert "Mon 30 Nov 2026, 02:30 CET (UTC+01:00)" in rendered.text
        assert "2026-11-30 01:30 UTC" in rendered.text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (1022, "1,022nd")],
)
def test_ordinals(number, text):
    assert ordinal(number) == text


def test_plurals():
    assert [plural(1, "run"), plural(0, "run"), plural(5000, "run")] == ["1 run", "0 runs", "5,000 runs"]
