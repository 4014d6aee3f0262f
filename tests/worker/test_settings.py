"""Where settings come from, what is refused, and what is shown."""

import pytest

from everwhen.worker import ConfigurationError, Worker
from everwhen.worker.banner import banner
from everwhen.worker.settings import resolve

ENVIRON = {"EVERWHEN_URL": "http://env/", "EVERWHEN_TOKEN": "t", "EVERWHEN_QUEUES": "a, b", "EVERWHEN_CONCURRENCY": "7"}


def test_the_command_line_wins_over_the_code_over_the_environment_over_the_default():
    settings = resolve({"queues": ["cli"]}, {"queues": ["code"], "prefetch": 2}, environ=ENVIRON)
    assert (settings.url, settings.queues, settings.concurrency, settings.prefetch) == ("http://env", ("cli",), 7, 2)
    assert (settings.lease_seconds, settings.beat_seconds, settings.poll_seconds) == (30.0, 10.0, 20.0)
    assert resolve(environ=ENVIRON).queues == ("a", "b")


def test_a_long_poll_leaves_time_to_renew_what_it_brings():
    assert resolve({"lease_seconds": 9.0}, environ=ENVIRON).poll_seconds == 6.0


@pytest.mark.parametrize(
    ("options", "environ", "message"),
    [
        ({}, {}, "no address of the server: set EVERWHEN_URL"),
        ({}, {"EVERWHEN_URL": "http://x"}, "no token: set EVERWHEN_TOKEN"),
        ({"url": "x"}, ENVIRON, "must start with http"),
        ({"concurrency": 0}, ENVIRON, "concurrency is 0"),
        ({"lease_seconds": 0.0}, ENVIRON, "lease_seconds is 0"),
        ({"drain_seconds": -1.0}, ENVIRON, "cannot be negative"),
        ({"via": "kafka"}, ENVIRON, "must be one of: nats, rabbitmq"),
        ({"via": "nats"}, ENVIRON, "no address of nats"),
        ({}, ENVIRON | {"EVERWHEN_CONCURRENCY": "many"}, "EVERWHEN_CONCURRENCY='many' is not a number"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(options, environ, message):
    with pytest.raises(ConfigurationError, match=message):
        resolve(options, environ=environ)


def test_a_worker_without_tasks_is_refused():
    with pytest.raises(ConfigurationError, match="no tasks"):
        Worker(url="http://x", token="t").run()


def test_the_banner_shows_every_setting_in_force_and_no_token():
    worker = Worker()
    worker.task("report", timeout=600)(lambda: None)
    worker.task("hello")(lambda: None)
    settings = resolve({"token": "hidden", "worker_id": "host-1-ab"}, environ=ENVIRON)
    assert banner(settings, worker.tasks).splitlines() == [
        "everwhen worker",
        "  server       http://env",
        "  worker       host-1-ab",
        "  queues       a, b",
        "  tasks        report, hello",
        "  concurrency  7 runs at once (sync in threads, async on the loop), nothing fetched ahead",
        "  labels       none",
        "  resources    none",
        "  lease        30 s, renewed every 10 s",
        "  claims       2 in flight, each waits up to 20 s for work",
        "  broker       none, every queue is asked",
        "  time-outs    report 600 s; for the others the server's deadline, if the run has one",
        "  drain        up to 30 s after SIGTERM or Ctrl-C, at once after a second",
    ]


def test_the_banner_names_the_broker_and_neither_its_address_nor_its_password():
    worker = Worker()
    worker.task("report")(lambda: None)
    broker = {"via": "nats", "broker_url": "nats://u:canary@n:4222"}
    shown = banner(resolve({"token": "hidden", **broker}, environ=ENVIRON), worker.tasks)
    assert "  broker       nats tells of runs, its queues are asked every 10 s beside" in shown
    assert "canary" not in shown
