"""Fair shares between lanes."""

import uuid
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.lanes import CREDIT_CLAIMS, Lane, Share, allot, allot_rest, charge

lanes = st.builds(
    Lane,
    tenant_id=st.uuids(),
    queue=st.just("q"),
    weight=st.integers(1, 10),
    virtual_time=st.floats(0, 1e6),
    max_in_flight=st.none() | st.integers(0, 50),
    in_flight=st.integers(0, 60),
)


@given(st.lists(lanes, max_size=20), st.integers(1, 500))
def test_no_share_exceeds_its_lanes_room(many: list[Lane], limit: int) -> None:
    for share in allot(many, limit=limit):
        assert 1 <= share.quota <= limit
        if share.lane.max_in_flight is not None:
            assert share.lane.in_flight + share.quota <= share.lane.max_in_flight


@given(st.lists(lanes, max_size=20), st.integers(1, 500))
def test_a_lane_with_room_is_never_left_out(many: list[Lane], limit: int) -> None:
    served = {id(share.lane) for share in allot(many, limit=limit)}

    for lane in many:
        has_room = lane.max_in_flight is None or lane.in_flight < lane.max_in_flight
        assert (id(lane) in served) == has_room


@dataclass
class Line:
    """A lane of the model, what waits in it, and what it got."""

    lane: Lane
    waiting: int = 0
    got: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.got)

    @property
    def by_weight(self) -> float:
        return self.total / self.lane.weight


def lines_of(*weights: int, waiting: int = 0) -> list[Line]:
    return [
        Line(Lane(tenant_id=uuid.UUID(int=n), queue="q", weight=weight), waiting)
        for n, weight in enumerate(weights, start=1)
    ]


def claim(lines: list[Line], *, limit: int) -> int:
    """One claim as the shell makes it; return how many runs it took."""
    busy = {line.lane.tenant_id: line for line in lines if line.waiting}
    shares = allot([line.lane for line in busy.values()], limit=limit)
    first = take(busy, shares, limit=limit)
    taken = [(share, first[share.lane.tenant_id]) for share in shares]
    left = limit - sum(first.values())
    second = take(busy, allot_rest(taken, limit=left) if left else [], limit=left)
    furthest = max((line.lane.virtual_time for line in busy.values()), default=0.0)
    for tenant_id, line in busy.items():
        count = first.get(tenant_id, 0) + second.get(tenant_id, 0)
        time = charge(line.lane, taken=count, furthest=furthest, limit=limit)
        line.lane = replace(line.lane, virtual_time=time)
    for line in lines:
        line.got.append(first.get(line.lane.tenant_id, 0) + second.get(line.lane.tenant_id, 0))
    return sum(first.values()) + sum(second.values())


def take(busy: dict[uuid.UUID, Line], shares: list[Share], *, limit: int) -> dict[uuid.UUID, int]:
    taken: dict[uuid.UUID, int] = {}
    for share in shares:
        line = busy[share.lane.tenant_id]
        count = min(limit - sum(taken.values()), share.quota, line.waiting)
        line.waiting -= count
        taken[share.lane.tenant_id] = count
    return taken


ENDLESS = 10**9
weights = st.lists(st.integers(1, 10), min_size=1, max_size=5)
limits = st.integers(1, 64)


@pytest.mark.parametrize("limit", [1, 3, 10, 64, 500])
def test_a_saturated_queue_is_shared_by_weight(limit: int) -> None:
    lines = lines_of(1, 2, 4, waiting=ENDLESS)
    for _ in range(2_000):
        claim(lines, limit=limit)

    whole = sum(line.total for line in lines)
    assert [line.total / whole for line in lines] == pytest.approx([1 / 7, 2 / 7, 4 / 7], rel=0.05)


@given(weights, st.lists(st.lists(st.integers(0, 200), min_size=3, max_size=3), min_size=1, max_size=60), limits)
def test_lanes_that_always_have_work_converge_to_their_weights_whatever_else_arrives(
    steady: list[int], arrivals: list[list[int]], limit: int
) -> None:
    lines = lines_of(*steady, waiting=ENDLESS) + lines_of(1, 3, 7)
    for n, line in enumerate(lines[len(steady) :]):
        line.lane = replace(line.lane, tenant_id=uuid.UUID(int=100 + n))
    for arrived in arrivals:
        for line, count in zip(lines[len(steady) :], arrived, strict=True):
            line.waiting += count
        claim(lines, limit=limit)

    served = [line.by_weight for line in lines[: len(steady)]]
    assert max(served) - min(served) <= 2 * limit  # however long it goes on


@given(weights, limits, st.integers(1, 200))
def test_a_lane_that_was_idle_or_is_new_gets_its_share_and_no_more_than_its_credit(
    others: list[int], limit: int, idle_for: int
) -> None:
    lines = lines_of(*others, waiting=ENDLESS)
    for _ in range(idle_for):
        claim(lines, limit=limit)
    new = Line(Lane(tenant_id=uuid.UUID(int=100), queue="q", weight=1), ENDLESS)
    after = 50
    for _ in range(after):
        claim([*lines, new], limit=limit)

    fair = after * limit / (sum(others) + 1)
    assert new.total <= fair + (CREDIT_CLAIMS + 2) * limit


@given(weights, limits)
def test_nothing_starves(many: list[int], limit: int) -> None:
    lines = lines_of(*many, waiting=ENDLESS)
    rounds = 2 * sum(many) + 4
    for _ in range(4 * rounds):
        claim(lines, limit=limit)

    for line in lines:
        assert all(any(line.got[n : n + rounds]) for n in range(len(line.got) - rounds)), line


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8), limits)
def test_what_one_lane_has_not_the_others_get_in_the_same_claim(waiting: list[int], limit: int) -> None:
    lines = lines_of(*(1 for _ in waiting))
    for line, count in zip(lines, waiting, strict=True):
        line.waiting = count

    # One helping more: what it leaves, of lanes of very different lengths, the next claim takes.
    assert claim(lines, limit=limit) >= min(limit, sum(waiting)) // 2
    assert sum(claim(lines, limit=limit) for _ in range(len(waiting) + sum(waiting) // limit + 1)) >= 0
    assert sum(line.waiting for line in lines) == 0 or limit < sum(waiting)


def test_an_idle_lane_saves_only_so_much() -> None:
    idle = Lane(tenant_id=uuid.UUID(int=1), queue="q", virtual_time=0.0)

    assert charge(idle, taken=10, furthest=1e6, limit=50) == 1e6 - CREDIT_CLAIMS * 50 + 10
