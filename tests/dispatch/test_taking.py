import uuid
from datetime import timedelta

import pytest

from everwhen.dispatch import store, taking
from everwhen.dispatch.taking import CALM_CLAIMS, MOST_AGED, Aged

LINES = uuid.UUID(int=7), ("line",)
OTHER = None, ("line",)


def test_that_something_is_old_is_forgotten_once_claims_meet_nothing_old():
    aged = Aged()
    aged.note(OTHER, has_old=False)
    assert LINES not in aged

    aged.note(LINES, has_old=True)
    for _ in range(CALM_CLAIMS - 1):
        aged.note(LINES, has_old=False)
    assert (LINES in aged, OTHER in aged) == (True, False)

    aged.note(LINES, has_old=False)
    assert LINES not in aged


def test_no_more_lines_are_remembered_than_fit():
    aged = Aged()
    for n in range(MOST_AGED):
        aged.note((uuid.UUID(int=n), ("line",)), has_old=True)

    aged.note(OTHER, has_old=True)
    aged.note((uuid.UUID(int=0), ("line",)), has_old=True)

    assert OTHER not in aged
    assert (uuid.UUID(int=0), ("line",)) in aged


@pytest.fixture
def used(monkeypatch):
    """The statements that claims use, in order."""
    names: list[str] = []
    for name in ("claim_runs", "claim_aged", "claim_chosen"):
        real = getattr(store, name)

        def noted(conn, real=real, name=name, **params):
            names.append(name)
            return real(conn, **params)

        monkeypatch.setattr(taking.store, name, noted)
    return names


async def test_a_claim_that_meets_something_old_begins_anew_and_the_next_knows(line, used):
    await line.set_lane(ageing_seconds=60.0)
    await line.fill(2)
    await line.claim(limit=1)
    assert used == ["claim_runs"]

    old = await line.fill(2, priority=0, due_in=timedelta(seconds=-541))
    first = await line.claim(limit=1)
    second = await line.claim(limit=1)

    assert used[1:] == ["claim_runs", "claim_aged", "claim_aged"]
    assert {lease.run_id for lease in (*first, *second)} == set(old)


async def test_a_line_in_which_nothing_is_old_is_claimed_by_one_statement(line, used):
    await line.fill(3)

    for _ in range(3):
        await line.claim(limit=1)

    assert used == ["claim_runs"] * 3
