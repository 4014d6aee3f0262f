"""What is told of what happened: thresholds, recoveries and flapping, by tables of ends."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from everwhen.core.alert_kinds import HEARD_IN, SUBSCRIBABLE, AlertKind, severity_of, words_of
from everwhen.core.alerting import FILTER, LOOK_BACK, End, Happening, Rule, Scope, match_one
from everwhen.core.filters import Filter, parse
from everwhen.core.ids import first_id_at
from everwhen.core.reasons import Severity

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TENANT = UUID(int=7)
STATES = {"G": "succeeded", "B": "dead", "X": "expired"}
MINUTE = timedelta(minutes=1)


def rule(*kinds: AlertKind, after: int = 1, scope=Scope.TENANT, target=None, filter_text="", pierces=False) -> Rule:
    asked = parse(filter_text, FILTER, now=NOW) if filter_text else Filter()
    return Rule(
        name="r", scope=scope, target=target, kinds=frozenset(kinds), filter=asked, after=after, pierces=pierces
    )


def ends(row: str, *, step: timedelta = MINUTE) -> list[End]:
    """The ends of a row, oldest first: one a minute."""
    times = [NOW + step * n for n in range(len(row))]
    return [End(first_id_at(at), STATES[letter], at) for letter, at in zip(row, times, strict=True)]


def happening(row: str, *, step: timedelta = MINUTE, **changes) -> Happening:
    """The last of a row of ends has just happened."""
    *past, last = ends(row, step=step)
    given = {
        "word": f"run.{last.state}",
        "facts": {"schedule": "nightly", "task": "report", "queue": "q"},
        "past": past[::-1][:LOOK_BACK],
    }
    return Happening(tenant_id=TENANT, at=last.at, run_id=last.run_id, key=str(last.run_id), **{**given, **changes})


def told(row: str, asked: Rule, *, step: timedelta = MINUTE) -> list[str]:
    """What each end of a row told: the kind's last word, with how many in a row; "-" for nothing."""
    found = [match_one(happening(row[: n + 1], step=step), asked) for n in range(len(row))]
    return ["-" if each is None else f"{each.kind.split('.')[1]}{each.in_a_row or ''}" for each in found]


DEAD, RECOVERED = AlertKind.RUN_DEAD, AlertKind.RUN_RECOVERED


@pytest.mark.parametrize(
    ("row", "asked", "expected"),
    [
        ("GGBB", rule(DEAD), ["-", "-", "dead1", "dead2"]),
        ("BBBBGBBB", rule(DEAD, after=3), ["-", "-", "dead3", "-", "-", "-", "-", "dead3"]),
        ("BXB", rule(DEAD, after=3), ["-", "-", "dead3"]),
        ("BXX", rule(DEAD), ["dead1", "-", "-"]),
        ("BBGG", rule(RECOVERED), ["-", "-", "recovered2", "-"]),
        ("BGBBBG", rule(RECOVERED, after=3), ["-", "-", "-", "-", "-", "recovered3"]),
        ("BG", rule(RECOVERED, AlertKind.RUN_SUCCEEDED), ["-", "recovered1"]),
        ("GG", rule(RECOVERED, AlertKind.RUN_SUCCEEDED), ["succeeded", "succeeded"]),
        ("BX", rule(DEAD, AlertKind.RUN_EXPIRED), ["dead1", "expired2"]),
    ],
)
def test_thresholds_and_recoveries(row, asked, expected):
    assert told(row, asked) == expected


@pytest.mark.parametrize(
    ("row", "step", "expected"),
    [
        # more than five changes among the latest twelve ends: from the sixth change on it flaps
        ("BGBGBGB", MINUTE, "dead1 recovered1 dead1 recovered1 dead1 recovered1 flapping1"),
        ("BGBGBGBGB", MINUTE, "dead1 recovered1 dead1 recovered1 dead1 recovered1 flapping1 flapping1 flapping1"),
        # spread over more than a day it does not
        ("BGBGBGBGB", timedelta(hours=6), "dead1 recovered1 " * 4 + "dead1"),
        # long failures are not in turns
        ("BBBBBBBGB", MINUTE, "dead1 dead2 dead3 dead4 dead5 dead6 dead7 recovered7 dead1"),
    ],
)  # fmt: skip
def test_flapping_is_told_in_the_place_of_each(row, step, expected):
    assert told(row, rule(DEAD, RECOVERED), step=step) == expected.split()


def test_flapping_is_one_occasion_until_it_is_calm():
    row = "BGBGBGBGBGBG" + "G" * 12 + "B"
    found = [match_one(happening(row[: n + 1]), rule(DEAD, RECOVERED)) for n in range(len(row))]

    flapping = [each for each in found if each is not None and each.kind is AlertKind.RUN_FLAPPING]
    assert len(flapping) == 6
    assert len({each.occasion_id for each in flapping}) == 1
    assert found[-1] is not None
    assert found[-1].kind is DEAD


def test_what_has_flapped_for_longer_than_one_can_look_back_is_not_told_anew():
    assert match_one(happening("BG" * LOOK_BACK + "B"), rule(DEAD)) is None


def test_an_occasion_has_one_id_whoever_asks_and_whenever():
    first, again = (match_one(happening("GB"), rule(DEAD, after=1, pierces=n)) for n in (False, True))
    other = match_one(happening("BB"), rule(DEAD))

    assert first is not None
    assert again is not None
    assert other is not None
    assert first.occasion_id == again.occasion_id
    assert {first.pierces, again.pierces} == {False, True}
    assert first.occasion_id == other.occasion_id  # the same run; what it was before it says nothing about it


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        (rule(DEAD, scope=Scope.SCHEDULE, target="nightly"), True),
        (rule(DEAD, scope=Scope.SCHEDULE, target="hourly"), False),
        (rule(DEAD, scope=Scope.TASK, target="report"), True),
        (rule(DEAD, scope=Scope.WORKFLOW, target="etl"), False),
        (rule(DEAD, filter_text="queue:q severity:error"), True),
        (rule(DEAD, filter_text="queue:other"), False),
        (rule(DEAD, filter_text="severity:info"), False),
        (rule(AlertKind.WORKFLOW_FAILED), False),
        (rule(AlertKind.RUN_ATTEMPT_FAILED), False),
    ],
)
def test_scope_filter_and_kind(asked, is_told):
    assert (match_one(happening("GB"), asked) is not None) is is_told


def test_the_run_of_a_workflow_is_told_as_the_workflow():
    of_a_workflow = happening("GB", is_workflow=True)

    assert match_one(of_a_workflow, rule(DEAD)) is None
    found = match_one(of_a_workflow, rule(DEAD, AlertKind.WORKFLOW_FAILED))
    assert found is not None
    assert found.kind is AlertKind.WORKFLOW_FAILED


def test_attempts_count_within_their_run():
    asked = rule(AlertKind.RUN_ATTEMPT_FAILED, after=2)
    found = [match_one(happening("B", word="attempt.failed", attempt=attempt, past=()), asked) for attempt in (1, 2, 3)]

    assert [each and each.in_a_row for each in found] == [None, 2, None]


def test_every_kind_but_those_that_come_by_themselves_can_be_subscribed_to():
    assert set(AlertKind) - SUBSCRIBABLE == {AlertKind.RUN_FLAPPING, AlertKind.CHANNEL_TEST}
    assert all(HEARD_IN.values())
    assert words_of([DEAD, RECOVERED]) == ["run.dead", "run.succeeded"]
    assert {severity_of(kind) for kind in AlertKind} == set(Severity)
