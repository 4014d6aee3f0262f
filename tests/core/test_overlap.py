"""What a gate decides: a table a policy, and properties over random lines and any policy."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.errors import TriggerError
from everwhen.core.lifecycle import RunState
from everwhen.core.overlap import (
    ActiveRun,
    Admit,
    Gate,
    HeldRun,
    OnFailure,
    Overlap,
    OverlapPolicy,
    Stop,
    Turn,
    Wait,
    decide,
    line_after,
)
from everwhen.core.overlap_json import explain_overlap, overlap_to_json, parse_overlap
from everwhen.core.reasons import Reason

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
P = OverlapPolicy


def run(number: int, **known) -> HeldRun:
    return HeldRun(run_id=uuid.UUID(int=number), due_at=NOW - timedelta(minutes=10 - number), **known)


def said(overlap: Overlap, *, active: int = 0, due: int = 1, **known) -> str:
    """The verdicts on runs 1 to `due` while runs 101 to 100 + `active` are active, as one line of words."""
    gate = Gate(overlap=overlap, is_paused=known.pop("is_paused", False), held_up_by=known.pop("held_up_by", None))
    stopping = known.pop("stopping", 0)
    running = [ActiveRun(run_id=uuid.UUID(int=101 + n), is_stopping=n < stopping) for n in range(active)]
    line = known.pop("line", None) or [run(n + 1, **known) for n in range(due)]
    return " ".join(sorted(_word(each) for each in decide(gate, active=running, line=line, now=NOW)))


def _word(verdict) -> str:
    number = verdict.run_id.int
    match verdict:
        case Admit():
            return f"{number}:in"
        case Turn():
            return f"{number}:{verdict.state}"
        case Wait():
            return f"{number}:{verdict.reason}"
        case Stop():
            return f"{number}:stop"


@pytest.mark.parametrize(
    ("overlap", "active", "due", "expected"),
    [
        (Overlap(), 5, 3, "1:in 2:in 3:in"),
        (Overlap(max_running=2), 1, 3, "1:in 2:limit.schedule 3:limit.schedule"),
        (Overlap(policy=P.SKIP), 0, 2, "1:in 2:skipped"),
        (Overlap(policy=P.SKIP), 1, 2, "1:skipped 2:skipped"),
        (Overlap(policy=P.SKIP, max_running=3), 1, 3, "1:in 2:in 3:skipped"),
        (Overlap(policy=P.BUFFER_ONE), 0, 3, "1:in 2:overlap.buffered 3:skipped"),
        (Overlap(policy=P.BUFFER_ONE), 1, 3, "1:overlap.buffered 2:skipped 3:skipped"),
        (Overlap(policy=P.BUFFER_LATEST), 1, 3, "1:coalesced 2:coalesced 3:overlap.buffered"),
        (Overlap(policy=P.BUFFER_LATEST), 0, 3, "1:in 2:coalesced 3:overlap.buffered"),
        (Overlap(policy=P.BUFFER_ALL, max_buffered=2), 1, 3, "1:overlap.buffered 2:overlap.buffered 3:skipped"),
        (Overlap(policy=P.CANCEL_OTHER), 0, 1, "1:in"),
        (Overlap(policy=P.CANCEL_OTHER), 1, 1, "101:stop 1:overlap.stopping"),
        (Overlap(policy=P.CANCEL_OTHER), 1, 3, "101:stop 1:coalesced 2:coalesced 3:overlap.stopping"),
        (Overlap(policy=P.CANCEL_OTHER, max_running=2), 2, 1, "101:stop 1:overlap.stopping"),
        (Overlap(policy=P.TERMINATE_OTHER), 1, 1, "101:stop 1:overlap.stopping"),
        (Overlap(policy=P.STRICT_SEQUENTIAL), 0, 2, "1:in 2:overlap.buffered"),
        (Overlap(policy=P.STRICT_SEQUENTIAL), 1, 2, "1:overlap.buffered 2:overlap.buffered"),
    ],
)
def test_each_policy_says_what_becomes_of_a_run_without_room(
    overlap: Overlap, active: int, due: int, expected: str
) -> None:
    assert said(overlap, active=active, due=due) == expected


def test_one_that_was_asked_to_stop_is_not_asked_again() -> None:
    assert said(Overlap(policy=P.CANCEL_OTHER), active=1, stopping=1) == "1:overlap.stopping"


def test_whoever_asked_for_a_patient_run_has_it_wait_whatever_the_policy_does() -> None:
    assert said(Overlap(policy=P.SKIP), active=1, is_patient=True) == "1:limit.schedule"
    assert said(Overlap(policy=P.TERMINATE_OTHER), active=1, is_patient=True) == "1:limit.schedule"


def test_a_start_deadline_that_has_passed_ends_the_run_even_where_there_is_room() -> None:
    assert said(Overlap(policy=P.SKIP), expires_at=NOW) == "1:expired"
    assert said(Overlap(policy=P.SKIP), is_paused=True, expires_at=NOW) == "1:expired"


def test_a_pause_keeps_out_what_the_schedule_planned_and_nothing_else() -> None:
    assert said(Overlap(policy=P.SKIP), is_paused=True) == "1:schedule.paused"
    assert said(Overlap(policy=P.SKIP), is_paused=True, is_planned=False) == "1:in"


def test_in_a_strict_line_nobody_passes_by_one_that_a_pause_keeps_out() -> None:
    line = [run(1), run(2, is_planned=False)]

    assert said(Overlap(policy=P.STRICT_SEQUENTIAL), is_paused=True, line=line) == (
        "1:schedule.paused 2:schedule.paused"
    )


def test_a_dead_run_holds_a_strict_line_up_for_all_but_a_redrive() -> None:
    overlap = Overlap(policy=P.STRICT_SEQUENTIAL, on_failure=OnFailure.HOLD)
    line = [run(1), run(2, is_planned=False, origin_run_id=uuid.UUID(int=9))]

    assert said(overlap, held_up_by=uuid.UUID(int=9), line=line) == "1:overlap.line_held 2:in"


@pytest.mark.parametrize(
    ("on_failure", "state", "expected"),
    [
        (OnFailure.CONTINUE, RunState.DEAD, None),
        (OnFailure.HOLD, RunState.DEAD, 5),
        (OnFailure.HOLD, RunState.SUCCEEDED, None),
        (OnFailure.HOLD, RunState.CANCELLED, 1),
    ],
)
def test_what_holds_the_line_up_after_an_end(on_failure: OnFailure, state: RunState, expected: int | None) -> None:
    overlap = Overlap(policy=P.STRICT_SEQUENTIAL, on_failure=on_failure)
    held_up = line_after(Gate(overlap=overlap, held_up_by=uuid.UUID(int=1)), ended=uuid.UUID(int=5), state=state)

    assert held_up == (None if expected is None else uuid.UUID(int=expected))


OVERLAPS = st.builds(
    lambda policy, most, buffered, hold: Overlap(
        policy=policy,
        max_running=None if policy is P.STRICT_SEQUENTIAL else most,
        max_buffered=buffered if policy is P.BUFFER_ALL else None,
        on_failure=OnFailure.HOLD if hold and policy is P.STRICT_SEQUENTIAL else OnFailure.CONTINUE,
    ),
    st.sampled_from(P),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 4),
    st.booleans(),
)
LINES = st.lists(
    st.builds(
        lambda due, expires, planned, patient, origin: (due, expires, planned, patient, origin),
        st.integers(-20, 3),
        st.none() | st.integers(-5, 5),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@given(OVERLAPS, LINES, st.tuples(st.integers(0, 6), st.integers(0, 3)), st.tuples(st.booleans(), st.booleans()))
def test_a_gate_answers_every_due_run_once_and_never_lets_too_many_in(overlap, shape, actives, state) -> None:
    (active, stopping), (is_paused, held_up) = actives, state
    line = [
        HeldRun(
            run_id=uuid.UUID(int=n + 1),
            due_at=NOW + timedelta(minutes=due),
            expires_at=None if expires is None else NOW + timedelta(minutes=expires),
            is_planned=planned,
            is_patient=patient,
            origin_run_id=uuid.UUID(int=999) if origin else None,
        )
        for n, (due, expires, planned, patient, origin) in enumerate(sorted(shape, key=lambda each: each[0]))
    ]
    running = [ActiveRun(run_id=uuid.UUID(int=101 + n), is_stopping=n < stopping) for n in range(active)]
    holder = uuid.UUID(int=999) if held_up and overlap.is_strict else None
    gate = Gate(overlap=overlap, is_paused=is_paused, held_up_by=holder)

    verdicts = decide(gate, active=running, line=line, now=NOW)

    due = [each.run_id for each in line if each.due_at <= NOW]
    assert sorted(v.run_id for v in verdicts if not isinstance(v, Stop)) == sorted(due)
    admitted = [v.run_id for v in verdicts if isinstance(v, Admit)]
    if overlap.most_running is not None:
        assert len(admitted) <= max(0, overlap.most_running - active)
    turned = {v.run_id: v.state for v in verdicts if isinstance(v, Turn)}
    if overlap.is_strict or overlap.policy is P.ALLOW:
        assert set(turned.values()) <= {RunState.EXPIRED}
    if overlap.is_strict and holder is None:
        assert admitted == [run_id for run_id in due if run_id not in turned][: len(admitted)]
    stops = [v.run_id for v in verdicts if isinstance(v, Stop)]
    assert len(set(stops)) == len(stops)
    assert set(stops) <= {each.run_id for each in running if not each.is_stopping}
    patient = {each.run_id for each in line if each.is_patient}
    assert {state for run_id, state in turned.items() if run_id in patient} <= {RunState.EXPIRED}
    # Deciding again, with what was decided done, decides nothing else about who stays.
    waiting = {v.run_id for v in verdicts if isinstance(v, Wait)}
    later = decide(
        gate,
        active=[*running, *(ActiveRun(run_id=run_id) for run_id in admitted)],
        line=[each for each in line if each.run_id in waiting],
        now=NOW,
    )
    assert {v.run_id for v in later if isinstance(v, Wait)} == waiting


@given(OVERLAPS)
def test_a_policy_survives_the_way_through_json_and_has_a_sentence(overlap: Overlap) -> None:
    assert parse_overlap(overlap_to_json(overlap)) == overlap
    assert explain_overlap(overlap).endswith(".")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("skip", "overlap.type"),
        ({"policy": "forbid"}, "overlap.policy"),
        ({}, "overlap.policy"),
        ({"policy": "skip", "most": 1}, "overlap.field"),
        ({"policy": "skip", "max_running": 0}, "overlap.max_running"),
        ({"policy": "skip", "max_running": True}, "overlap.max_running"),
        ({"policy": "skip", "max_running": 1001}, "overlap.max_running"),
        ({"policy": "strict_sequential", "max_running": 2}, "overlap.max_running"),
        ({"policy": "skip", "max_buffered": 2}, "overlap.max_buffered"),
        ({"policy": "skip", "on_failure": "hold"}, "overlap.on_failure"),
        ({"policy": "skip", "on_failure": "stop"}, "overlap.on_failure"),
    ],
)
def test_what_is_no_policy_is_refused(value, code: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_overlap(value)

    assert refused.value.code == code


def test_reasons_name_the_runs_that_were_in_the_way() -> None:
    gate = Gate(overlap=Overlap(policy=P.SKIP))
    (verdict,) = decide(gate, active=[ActiveRun(run_id=uuid.UUID(int=101))], line=[run(1)], now=NOW)

    assert isinstance(verdict, Turn)
    assert (verdict.reason, verdict.blocked_by) == (Reason.OVERLAP_PREVIOUS_RUNNING, (uuid.UUID(int=101),))
