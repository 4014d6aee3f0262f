"""Fair shares between lanes."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.lanes import MOST_CREDIT, Lane, allot, charge

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


def test_a_saturated_queue_is_shared_by_weight() -> None:
    weights = {uuid.UUID(int=n): weight for n, weight in enumerate((1, 2, 4))}
    clock = dict.fromkeys(weights, 0.0)
    taken = dict.fromkeys(weights, 0)

    for _ in range(1000):
        many = [Lane(tenant_id=t, queue="q", weight=w, virtual_time=clock[t]) for t, w in weights.items()]
        left = 10
        for share in allot(many, limit=10):
            take = min(left, share.quota)
            left -= take
            tenant = share.lane.tenant_id
            taken[tenant] += take
            clock[tenant] = charge(share.lane, taken=take, furthest=max(clock.values()))

    total = sum(taken.values())
    shares = [taken[tenant] / total * 7 for tenant in weights]
    assert all(abs(share - weight) < 0.05 * weight for share, weight in zip(shares, (1, 2, 4), strict=True))


def test_an_idle_lane_saves_only_so_much() -> None:
    idle = Lane(tenant_id=uuid.UUID(int=1), queue="q", virtual_time=0.0)

    assert charge(idle, taken=10, furthest=1e6) == 1e6 - MOST_CREDIT + 10
