"""What tasks print reaches the server before their report does, whatever the server does meanwhile."""

import logging
import sys

import pytest

from everwhen.worker import Context, Worker
from everwhen.worker import logs as module
from everwhen.worker.errors import ConfigurationError, RequestRefused, ServerAway
from everwhen.worker.leases import NEVER, Lease
from everwhen.worker.logs import BUFFER_BYTES, PIECE_BYTES, LogSender
from everwhen.worker.protocol import LogAnswer
from everwhen.worker.settings import resolve

RUN = Context.fake()._lease.run


def a_lease():
    return Lease(RUN, sent=0.0, received=0.0, duration=NEVER)


class Server:
    """Takes pieces; `mishaps` are raised first."""

    def __init__(self, *mishaps, most=1 << 30):
        self.mishaps, self.most, self.pieces = list(mishaps), most, []

    def __call__(self, run, piece, data):
        if self.mishaps and (mishap := self.mishaps.pop(0)) is not None:
            raise mishap
        if piece == len(self.pieces):
            self.pieces.append(data)
        return LogAnswer(pieces=len(self.pieces), size_bytes=len(self.text), is_capped=len(self.text) >= self.most)

    @property
    def text(self):
        return b"".join(self.pieces)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.001)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.001)


@pytest.fixture
def sender_to():
    senders = []

    def make(server, **options):
        senders.append(LogSender(server, **options))
        return senders[-1]

    yield make
    for sender in senders:
        sender.stop()


def test_what_is_written_arrives_in_order_and_in_pieces_of_bounded_size(sender_to):
    server = Server()
    log = sender_to(server).open(a_lease())
    data = bytes(range(256)) * (4 * PIECE_BYTES // 256)
    for start in range(0, len(data), 100_000):
        log.write(data[start : start + 100_000], wait_seconds=30.0)

    assert log.close()
    assert server.text == data
    assert max(map(len, server.pieces)) <= PIECE_BYTES


def test_a_server_that_is_away_gets_it_later_once(sender_to):
    server = Server(None, ServerAway("gone"), ServerAway("gone"))
    log = sender_to(server).open(a_lease())
    for line in (b"one\n", b"two\n", b"three\n"):
        log.write(line)

    assert log.close()
    assert server.text == b"one\ntwo\nthree\n"


def test_what_does_not_fit_while_the_server_is_away_is_dropped_and_told(sender_to):
    server = Server(*[ServerAway("gone")] * 30)
    log = sender_to(server).open(a_lease())
    log.write(b"x" * BUFFER_BYTES * 2)
    log.write(b"y" * 10)

    assert log.close(wait_seconds=30.0)
    kept, dropped = server.text.count(b"x"), BUFFER_BYTES * 2 - server.text.count(b"x") + 10
    assert BUFFER_BYTES <= kept < 2 * BUFFER_BYTES
    assert b"y" * 10 not in server.text
    assert f"everwhen: {dropped:,} bytes were dropped here".encode() in server.text


@pytest.mark.parametrize("error", [RequestRefused("no", status=404), RequestRefused("no", status=409)])
def test_a_log_that_is_refused_is_over(sender_to, error):
    log = sender_to(Server(error)).open(a_lease())
    log.write(b"x")

    assert log.close()
    assert log.is_over


def test_a_full_log_takes_no_more_and_never_makes_its_writer_wait(sender_to):
    server = Server(most=10)
    log = sender_to(server).open(a_lease())
    log.write(b"x" * 20)
    assert log.close()
    for _ in range(100):
        log.write(b"y" * BUFFER_BYTES, wait_seconds=1_000.0)

    assert (log.is_over, server.text) == (True, b"x" * 20)


def test_an_end_that_never_arrives_is_not_waited_for(sender_to):
    log = sender_to(Server(*[ServerAway("gone")] * 10_000)).open(a_lease())
    log.write(b"x")

    assert not log.close(wait_seconds=0.05)


def test_secrets_are_hidden_also_across_writes(sender_to):
    server = Server()
    log = sender_to(server, secrets=[b"swordfish"]).open(a_lease())
    for part in (b"the word is sword", b"fish, not sword"):
        log.write(part)

    assert log.close()
    assert server.text == b"the word is ********, not sword"


def test_a_mask_names_variables_and_capturing_is_yes_or_no():
    environ = {"EVERWHEN_URL": "http://x", "EVERWHEN_TOKEN": "t", "EVERWHEN_MASK": "A, B", "A": "secret"}

    settings = resolve(environ=environ | {"EVERWHEN_CAPTURE_OUTPUT": "yes"})
    assert (settings.secrets, settings.mask, settings.capture_output) == ((b"secret",), ("A", "B"), True)
    assert "secret" not in repr(settings)
    assert not resolve(environ=environ).capture_output
    with pytest.raises(ConfigurationError):
        resolve(environ=environ | {"EVERWHEN_CAPTURE_OUTPUT": "perhaps"})


def test_a_fake_context_keeps_what_is_logged():
    context = Context.fake()
    context.log("rows", 5)
    context.write_log(b"\xff")

    assert context.logged == b"rows 5\n\xff"


def test_what_tasks_log_and_print_is_there_before_their_report(fleet, start):
    worker = Worker()

    @worker.task("sync")
    def sync(ctx):
        print("printed")  # noqa: T201
        logging.getLogger("app").warning("warned")
        ctx.log("logged")

    @worker.task("async")
    async def coroutine(ctx):
        print("from a coroutine", file=sys.stderr)  # noqa: T201

    @worker.task("failing")
    def failing(ctx):
        ctx.log("before the end")
        raise ValueError

    @worker.task("silent")
    def silent(ctx):
        return None

    runs = {name: fleet.add(name) for name in ("sync", "async", "failing", "silent")}
    start(worker, capture_output=True)
    seen = {name: (fleet.report(run_id), fleet.log(run_id))[1] for name, run_id in runs.items()}

    assert seen["sync"].startswith(b"printed\n")
    assert seen["sync"].endswith(b"WARNING app: warned\nlogged\n")
    assert (seen["async"], seen["failing"], seen["silent"]) == (b"from a coroutine\n", b"before the end\n", b"")


def test_without_asking_for_it_nothing_is_captured(fleet, start):
    worker = Worker()

    @worker.task("loud")
    def loud(ctx):
        print("to the terminal only")  # noqa: T201

    run_id = fleet.add("loud")
    start(worker)
    fleet.report(run_id)

    assert fleet.log(run_id) == b""
    assert "logs" not in fleet.seen
