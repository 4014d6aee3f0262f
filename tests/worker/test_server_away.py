"""A server that is away, busy, hostile or confused: the worker waits, says so once, and goes on."""

import threading

import pytest

from everwhen.worker import Worker
from everwhen.worker.backoff import Backoff, Outage
from everwhen.worker.errors import ServerAway
from tests.worker.fake_server import wait_until as until


def noop_worker() -> Worker:
    worker = Worker()
    worker.task("noop")(lambda: None)
    return worker


def test_a_worker_started_before_its_server_works_once_it_is_there(start, fleet, caplog):
    worker = noop_worker()
    caplog.set_level("INFO")
    fleet.stop()
    start(worker)
    until(lambda: "server.away" in caplog.text, "the line about the server")
    fleet.start()
    run_id = fleet.add("noop")
    assert fleet.report(run_id)["outcome"] == "succeeded"
    until(lambda: "server.back" in caplog.text, "the line about its return")


def test_a_result_waits_for_a_server_that_is_away(start, fleet):
    worker = noop_worker()
    gate = threading.Event()
    worker.task("hold")(gate.wait)
    run_id = fleet.add("hold")
    start(worker)
    until(lambda: fleet.leases, "the claim")
    fleet.stop()
    gate.set()
    fleet.start()
    assert fleet.report(run_id)["outcome"] == "succeeded"


def test_a_busy_server_is_asked_again(start, fleet):
    worker = noop_worker()
    fleet.fail("claim", 503, times=2, headers={"Retry-After": "0"})
    fleet.fail("complete", 429, headers={"Retry-After": "0"})
    run_id = fleet.add("noop")
    start(worker)
    assert fleet.report(run_id)["outcome"] == "succeeded"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_stops_the_worker_with_a_clear_line(start, fleet, caplog, status):
    worker = noop_worker()
    fleet.fail("claim", status, times=2, body={"title": "Forbidden", "detail": "not your queue"})
    assert start(worker).join() == 4
    assert "worker.unauthorised" in caplog.text
    assert f"answered {status} not your queue" in caplog.text


def test_a_wrong_token_stops_the_worker(start, fleet):
    worker = noop_worker()
    assert start(worker, token="wrong").join() == 4


def test_a_report_that_the_server_will_not_take_holds_up_no_other(start, fleet):
    worker = noop_worker()
    gate = threading.Event()

    @worker.task("big")
    def big():
        gate.wait()
        return "big"

    fleet.poison = "big"
    runs = [fleet.add("big"), fleet.add("noop"), fleet.add("noop")]
    start(worker)
    until(lambda: not fleet.waiting, "the claims")
    gate.set()
    sent = fleet.report(runs[0])
    assert (sent["outcome"], sent["error"]["type"], sent["retryable"]) == ("failed", "ReportRefused", False)
    assert [fleet.report(run_id)["outcome"] for run_id in runs[1:]] == ["succeeded", "succeeded"]


def test_a_report_whose_answer_was_lost_is_sent_again_and_its_refusal_understood(start, fleet, caplog):
    worker = noop_worker()
    fleet.swallowed.add("complete")
    run_id = fleet.add("noop")
    start(worker)
    until(lambda: worker.stats.refused == 1, "the refusal of the second copy")
    assert (len(fleet.reports[run_id]), fleet.refused) == (1, [run_id])
    assert "the first copy was probably accepted" in caplog.text


def test_an_answer_that_cannot_be_read_counts_as_away(start, fleet, caplog):
    worker = noop_worker()
    fleet.fail("claim", 200, body={"runs": "none"})
    run_id = fleet.add("noop")
    start(worker)
    fleet.report(run_id)
    assert "cannot read" in caplog.text


def test_an_empty_answer_before_its_time_is_not_asked_again_at_once():
    from everwhen.worker.fetching import Fetcher

    settings = Worker(url="http://x", token="t").settings()
    names = ("tasks", "transport", "intake", "room", "pace", "outage", "backoff", "clock", "instance")
    parts = dict.fromkeys((*names, "on_held_back"))
    fetcher = Fetcher(settings=settings, jitter=lambda: 0.5, **parts)
    assert (fetcher._early(0.01, wait=20.0), fetcher._early(20.0, wait=20.0)) == (0.375, 0.0)


def test_delays_double_up_to_a_limit_and_never_undercut_the_server():
    backoff = Backoff(jitter=lambda: 0.0)
    delays = [backoff.next_delay(ServerAway("x")) for _ in range(9)]
    assert delays == [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 7.5, 7.5, 7.5]
    assert backoff.next_delay(ServerAway("x", retry_after=60.0)) == 60.0
    backoff.reset()
    assert backoff.next_delay(ServerAway("x")) == 0.125


def test_one_line_a_period_however_many_loops_fail(caplog):
    now = [0.0]
    outage = Outage(clock=lambda: now[0])
    with caplog.at_level("INFO"):
        for _ in range(5):
            outage.failed(ServerAway("no route"), delay=1.0)
        now[0] = 1.0
        outage.failed(ServerAway("no route"), delay=2.0)
        now[0] = 2.0
        outage.recovered()
        outage.recovered()
    assert [record.message for record in caplog.records] == [
        "server.away, trying again in 1.0 s: no route",
        "server.away, trying again in 2.0 s: no route",
        "server.back after 2.0 s",
    ]
