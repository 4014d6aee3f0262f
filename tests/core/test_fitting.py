"""A run that fits nobody is told what is missing, with numbers that the core's own arithmetic agrees with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.capability import Capacity, Requirements, fits
from everwhen.core.fitting import LiveWorker, why_unfit

BIG = Requirements(labels={"zone": "a"}, resources={"cpu": 4.0})


def worker(cpu=8.0, in_use=0.0, zone="a", **more):
    return LiveWorker(labels={"zone": zone}, resources={"cpu": cpu}, in_use={"cpu": in_use}, **more)


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        ([], "no live worker is known"),
        ([worker(is_taking=False)], "all 1 live workers are cordoned or draining"),
        ([worker(tasks=["other"]), worker(tasks=[])], "none of 2 live workers knows the task"),
        ([worker(zone="b")], "none of 1 live worker has the label zone=a"),
        (
            [worker(cpu=2.0), worker(cpu=3.0), worker(zone="b")],
            "it asks for cpu=4, and the most that any of 2 live workers has is cpu=3",
        ),
        (
            [worker(in_use=6.0), worker(in_use=7.0), worker(cpu=1.0)],
            "it asks for cpu=4, the most that is free is cpu=2; 2 of 3 live workers could hold it",
        ),
        (
            [worker(has_slot=False)],
            "1 of 1 live worker could hold it, and every slot of those with room for it is taken",
        ),
        ([worker()], "1 of 1 live worker could hold it, and 1 had room by its last beat"),
    ],
)
def test_the_first_thing_that_is_missing_is_told(workers, why):
    assert why_unfit("train", BIG, workers)["why"] == why


def test_many_labels_are_cut():
    required = Requirements(labels={f"l{index}": "x" for index in range(6)})

    assert why_unfit("train", required, [worker()])["why"].endswith("l0=x l1=x l2=x l3=x and 2 more")


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 4).map(float), max_size=2)
LABELS = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b"]), max_size=2)
WORKERS = st.lists(
    st.builds(
        LiveWorker,
        tasks=st.sampled_from([None, ["train"], ["other"]]),
        labels=LABELS,
        resources=AMOUNTS,
        in_use=AMOUNTS,
        is_taking=st.booleans(),
        has_slot=st.booleans(),
    ),
    max_size=5,
)


@given(required=st.builds(Requirements, labels=LABELS, resources=AMOUNTS), workers=WORKERS)
def test_the_numbers_are_those_of_the_claim(required, workers):
    told = why_unfit("train", required, workers)
    takers = [each for each in workers if each.is_taking and (each.tasks is None or "train" in each.tasks)]
    empty = [each for each in takers if fits(required, Capacity(labels=each.labels, free=each.resources))]
    now = [each for each in takers if each.has_slot and fits(required, Capacity(labels=each.labels, free=each.free))]

    assert (told["able"], told["fitting"]) == (len(empty), len(now))
    assert told["workers"] + told["held_back"] == len(workers)
    assert told["why"]
