"""A worker says that it is there, hears how it is wanted, and works all the same where nobody listens."""

import threading
from uuid import UUID

import pytest

from everwhen.worker import Worker
from everwhen.worker.errors import RequestRefused, ServerAway
from everwhen.worker.presence import Load, Presence
from everwhen.worker.protocol import Announcement, Standing
from everwhen.worker.settings import read_labels, read_resources, resolve
from tests.worker.fake_server import wait_until


def worker_of(**tasks):
    worker = Worker(version="2.1", labels={"zone": "a"}, resources={"gpu": 1})
    for name, function in tasks.items():
        worker.task(name)(function)
    return worker


def test_a_worker_announces_itself_beats_when_idle_and_leaves(fleet, start):
    running = start(worker_of(hello=lambda: None), queues=["mails"], worker_id="w-1")
    (said,) = wait_until(lambda: list(fleet.workers.values()), "the announcement")
    wait_until(lambda: len(fleet.said[said["instance"]]) >= 2, "two beats of an idle worker")
    running.stop()

    assert running.join() == 0
    assert said["worker"] == "w-1"
    assert (said["slots"], said["queues"], said["tasks"]) == (4, ["mails"], ["hello"])
    assert (said["version"], said["labels"], said["resources"]) == ("2.1", {"zone": "a"}, {"gpu": 1})
    assert said["pid"] > 0
    assert said["sdk"].startswith("python ")
    assert fleet.said[said["instance"]][-1]["stopping"]
    assert fleet.left == [said["instance"]]


def test_two_workers_of_one_name_are_two(fleet, start):
    for _ in range(2):
        start(worker_of(hello=lambda: None), worker_id="same")

    wait_until(lambda: len(fleet.workers) == 2, "two workers")
    assert {said["worker"] for said in fleet.workers.values()} == {"same"}


def test_one_that_was_forgotten_announces_itself_again(fleet, start):
    start(worker_of(hello=lambda: None))
    wait_until(lambda: fleet.workers, "the announcement")
    fleet.workers.clear()

    wait_until(lambda: fleet.workers, "another announcement")


@pytest.mark.parametrize(("path", "status"), [("announce", 404), ("announce", 403), ("announce", 409), ("beat", 404)])
def test_a_server_that_lists_no_workers_costs_no_run(fleet, start, path, status):
    fleet.fail(path, status, times=1000)
    run = fleet.add("hello")
    running = start(worker_of(hello=lambda: "done"))

    assert fleet.report(run)["result"] == "done"
    running.stop()
    assert running.join() == 0


def test_a_cordoned_worker_claims_nothing_until_it_is_uncordoned(fleet, start):
    fleet.wish = {"wish": "cordoned"}
    start(worker_of(hello=lambda: None))
    wait_until(lambda: heard(fleet) == "cordoned", "it goes by it")
    claims = len(fleet.claims)
    run = fleet.add("hello")
    wait_until(lambda: beats(fleet) >= 3, "further beats")
    assert (len(fleet.claims), fleet.reports.get(run)) == (claims, None)
    fleet.wish = {"wish": "active"}

    fleet.report(run)
    wait_until(lambda: heard(fleet) == "active", "it says that it goes on")


def test_a_drained_worker_finishes_what_it_has_and_says_that_it_is_empty(fleet, start):
    gate, begun = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert gate.wait(45)

    run = fleet.add("hold")
    running = start(worker_of(hold=hold))
    assert begun.wait(45)
    fleet.wish = {"wish": "draining"}
    wait_until(lambda: heard(fleet) == "draining", "it goes by it")
    assert last(fleet)["held"] == 1
    another = fleet.add("hold")
    gate.set()

    assert fleet.report(run)["outcome"] == "succeeded"
    wait_until(lambda: last(fleet)["held"] == 0, "it says that it is empty")
    assert last(fleet)["heard"] == "draining"
    assert another not in fleet.reports
    assert running.code is None, "it stays"


def test_one_that_is_to_end_when_it_is_empty_exits_0(fleet, start):
    fleet.wish = {"wish": "draining", "exits": True}

    assert start(worker_of(hello=lambda: None)).join() == 0
    assert len(fleet.left) == 1


def test_what_was_fetched_ahead_is_given_back_when_it_is_drained(fleet, start):
    gate, begun = threading.Event(), threading.Event()

    def hold():
        begun.set()
        assert gate.wait(45)

    runs = [fleet.add("hold") for _ in range(2)]
    start(worker_of(hold=hold), concurrency=1, prefetch=1)
    assert begun.wait(45)
    fleet.wish = {"wish": "draining"}

    wait_until(lambda: any(fleet.reports[run][0]["outcome"] == "released" for run in runs if fleet.reports[run]), "one")
    gate.set()
    assert sorted(fleet.report(run)["outcome"] for run in runs) == ["released", "succeeded"]


def test_a_worker_offers_what_its_runs_leave_free_all_of_it_by_one_claim(fleet, start):
    gate, begun = threading.Event(), threading.Event()

    def train():
        begun.set()
        assert gate.wait(45)

    run = fleet.add("train", resources={"gpu": 1})
    worker = Worker(labels={"zone": "a"}, resources={"gpu": 3})
    worker.task("train")(train)
    start(worker, fetchers=2)
    assert begun.wait(45)
    wait_until(lambda: last(fleet)["in_use"] == {"gpu": 1}, "the beat tells what is in use")
    claims = len(fleet.claims)
    wait_until(lambda: len(fleet.claims) >= claims + 4, "further claims")
    gate.set()
    fleet.report(run)
    wait_until(
        lambda: any(claim.get("free", {}) == {"gpu": 3} for claim in fleet.claims[claims:]), "all is offered again"
    )

    assert fleet.claims[0]["labels"] == {"zone": "a"}
    assert sorted(claim.get("free", {}).get("gpu", 0) for claim in fleet.claims[:2]) == [0, 3]
    assert all(claim.get("free", {}).get("gpu", 0) in {0, 2} for claim in fleet.claims[claims : claims + 4])


class Script:
    """A transport that answers as it is told."""

    def __init__(self, *answers):
        self.answers, self.said = list(answers), []

    def _answer(self, said):
        self.said.append(type(said).__name__)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    announce = beat = leave = _answer


KNOWN, UNKNOWN = Standing(known=True, beat_seconds=7), Standing(known=False)


@pytest.mark.parametrize(
    ("answers", "said", "pauses"),
    [
        ([KNOWN, KNOWN], ["Announcement", "Beat"], [7, 7]),
        ([KNOWN, UNKNOWN, KNOWN], ["Announcement", "Beat", "Announcement"], [7, 7]),
        ([ServerAway("away"), KNOWN], ["Announcement", "Announcement"], [15, 7]),
        ([ServerAway("away", retry_after=3), KNOWN], ["Announcement", "Announcement"], [4.5, 7]),
        ([RequestRefused("no", status=404, code=None), KNOWN], ["Announcement", "Announcement"], [90, 7]),
        ([KNOWN, ServerAway("away"), KNOWN], ["Announcement", "Beat", "Beat"], [7, 15, 7]),
        ([Standing(known=True, beat_seconds=0), KNOWN], ["Announcement", "Beat"], [1, 7]),
    ],
)
def test_what_is_said_and_when_the_next_time_is(answers, said, pauses):
    script = Script(*answers)
    presence = Presence(
        announcement=Announcement(instance=UUID(int=7), worker="w", slots=1, queues=["q"]),
        transport=script,
        load=lambda: Load(held=0, in_use={}),
        on_order=lambda standing: None,
        clock=lambda: 0.0,
        jitter=lambda: 0.5,
    )

    assert [presence.tick() for _ in pauses] == pauses
    assert script.said == said


def test_labels_and_resources_are_read_from_the_environment():
    environ = {"EVERWHEN_URL": "http://x", "EVERWHEN_TOKEN": "t", "EVERWHEN_LABELS": "zone=a, disk=ssd"}
    settings = resolve(environ=environ | {"EVERWHEN_RESOURCES": "gpu=1,memory_mb=4096"})

    assert (settings.labels, settings.resources) == ({"zone": "a", "disk": "ssd"}, {"gpu": 1, "memory_mb": 4096})


@pytest.mark.parametrize(("read", "text"), [(read_labels, "zone"), (read_labels, "=a"), (read_resources, "gpu=many")])
def test_what_is_no_pair_is_refused(read, text):
    with pytest.raises(ValueError, match="write name="):
        read([text])


def last(fleet):
    wait_until(lambda: fleet.said, "a beat")
    (said,) = fleet.said.values()
    return said[-1]


def beats(fleet):
    return sum(map(len, fleet.said.values()))


def heard(fleet):
    return last(fleet)["heard"] if fleet.said else None
