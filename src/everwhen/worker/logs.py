"""What an attempt prints, on its way to the server: gathered for a moment, and sent in numbered pieces.

A task never waits for its log: writing puts bytes into a buffer. One thread sends what has gathered, one piece of an
attempt after the other, until the server has it. While the server is away the buffer fills; what does not fit is
dropped, and a line in the log says how much. A writer that can wait (an executor, with a pipe behind it) asks for room
first, and lets its program wait instead.

    the piece's number is that of the server, so a piece that is sent again is there once
    the server says that the log is full     nothing more is sent
    the lease does not hold any more         likewise; whatever it was is gone with the attempt

The log is closed before the attempt is reported, since its lease ends with the report.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final

from everwhen.worker.errors import ServerAway, WorkerError
from everwhen.worker.leases import Lease
from everwhen.worker.masking import Masker
from everwhen.worker.protocol import ClaimedRun, LogAnswer

log = logging.getLogger("everwhen.worker")

PIECE_BYTES: Final = 256 * 1024
BUFFER_BYTES: Final = 1024 * 1024
GATHER_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 15.0
"""How long the end of an attempt waits for its log."""

Send = Callable[[ClaimedRun, int, bytes], LogAnswer]
"""Sends a piece of a run's log by its number; blocks; raises ServerAway, RequestRefused or Unauthorised."""


class AttemptLog:
    """The log of one attempt. Safe to use from any thread."""

    def __init__(self, lease: Lease, sender: "LogSender", *, secrets: Iterable[bytes]) -> None:
        """Be empty."""
        self._lease = lease
        self._sender = sender
        self._masker = Masker(secrets)
        self._buffer = bytearray()
        self._sending = b""
        self._pieces = 0
        self._dropped = 0
        self._changed = threading.Condition()
        self.is_over = False
        """Whether nothing more is kept: the log is full, or the lease does not hold any more."""

    def write(self, data: bytes, *, wait_seconds: float = 0.0) -> None:
        """Append bytes; wait so long for room, then drop what does not fit."""
        with self._changed:
            if self.is_over or not data:
                return
            self._put(self._masker.mask(data), wait_seconds)
        self._sender.wake(self)

    def close(self, *, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Send what is left and wait until it is there; return False when it is not by then."""
        with self._changed:
            self._put(self._masker.rest(), 0.0)
            self._sender.wake(self, at_once=True)
            settled = self._changed.wait_for(self._is_settled, timeout=wait_seconds)
            self.is_over = True
            self._buffer.clear()
        if not settled:
            log.warning("log.unsent run_id=%s: the server did not take the end of the log", self._lease.run.run_id)
        return settled

    def send_one(self, send: Send) -> bool:
        """Send the next piece, if there is one; return whether more is there to be sent at once."""
        with self._changed:
            if self.is_over:
                self._end()
                return False
            if not self._sending:
                self._sending = bytes(self._buffer[:PIECE_BYTES])
                del self._buffer[:PIECE_BYTES]
                self._say_what_was_dropped()
            piece, data = self._pieces, self._sending
        if not data:
            return False
        try:
            answer = send(self._lease.run, piece, data)
        except ServerAway:
            if self._lease.lost:
                self._over("its lease is lost")
            raise
        except WorkerError as error:
            self._over(str(error))
            return False
        with self._changed:
            self._sending = b""
            self._pieces = max(answer.pieces, piece + 1)
            if answer.is_capped:
                self._end()
            self._changed.notify_all()
            return bool(self._buffer)

    def _put(self, data: bytes, wait_seconds: float) -> None:
        room = BUFFER_BYTES - len(self._buffer)
        if len(data) > room and wait_seconds > 0:
            self._sender.wake(self, at_once=True)
            self._changed.wait_for(lambda: self.is_over or len(self._buffer) <= BUFFER_BYTES // 2, timeout=wait_seconds)
            if self.is_over:
                return
            room = BUFFER_BYTES - len(self._buffer)
        if self._dropped:
            room = 0  # what was dropped is told of first, where it is missing
        self._buffer += data[:room]
        self._dropped += len(data) - len(data[:room])

    def _say_what_was_dropped(self) -> None:
        if self._dropped and len(self._buffer) <= BUFFER_BYTES // 2:
            text = (
                f"\n--- everwhen: {self._dropped:,} bytes were dropped here: the server did not take them in time ---\n"
            )
            self._buffer += text.encode()
            self._dropped = 0

    def _is_settled(self) -> bool:
        return self.is_over or not (self._buffer or self._sending)

    def _over(self, why: str) -> None:
        log.info("log.over run_id=%s: %s", self._lease.run.run_id, why)
        with self._changed:
            self._end()
            self._changed.notify_all()

    def _end(self) -> None:
        self.is_over = True
        self._buffer.clear()
        self._sending = b""


class LogSender:
    """Sends the logs of all attempts of a worker, on a thread of its own that is made when somebody writes."""

    def __init__(self, send: Send, *, secrets: Iterable[bytes] = ()) -> None:
        """Send by this; hide these secrets."""
        self._send = send
        self._secrets = tuple(secrets)
        self._waiting: dict[AttemptLog, None] = {}
        self._changed = threading.Condition()
        self._at_once = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def open(self, lease: Lease) -> AttemptLog:
        """Open the log of an attempt."""
        return AttemptLog(lease, self, secrets=self._secrets)

    def wake(self, attempt_log: AttemptLog, *, at_once: bool = False) -> None:
        """Send what this log has: soon, or at once."""
        with self._changed:
            if self._stopping:
                return
            self._waiting[attempt_log] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="everwhen-logs", daemon=True)
                self._thread.start()
            self._changed.notify()
        if at_once:
            self._at_once.set()

    def stop(self) -> None:
        """End the thread; what is not sent by then is not sent."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._at_once.set()

    def _serve(self) -> None:
        while (batch := self._gathered()) is not None:
            away = False
            for attempt_log in batch:
                try:
                    if attempt_log.send_one(self._send):
                        self.wake(attempt_log, at_once=True)
                except ServerAway:
                    away = True
                    self.wake(attempt_log)
                except Exception:
                    log.exception("log.failed; the next one goes on")
            if away:
                threading.Event().wait(PAUSE_SECONDS)

    def _gathered(self) -> list[AttemptLog] | None:
        """Wait for something to send, and a moment longer unless it is to be sent at once; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._stopping)
        self._at_once.wait(GATHER_SECONDS)
        self._at_once.clear()
        with self._changed:
            if self._stopping:
                return None
            batch = list(self._waiting)
            self._waiting.clear()
            return batch
