"""What tasks print, as their attempts' logs: `print`, `sys.stderr` and `logging`, opt-in, beside where it goes anyway.

Threads and coroutines know whose attempt they are (`current_context`), so what is printed goes to that attempt's log
and what nobody's attempt prints goes where it always went. Output of child processes, and of C libraries, is not seen.
"""

import io
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from everwhen.worker.context import Context, current_context


class _Tee(io.TextIOBase):
    """A stream that also writes to the log of the attempt that writes."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - what it writes to decides
        return self._inner.encoding

    def write(self, text: str, /) -> int:
        written = self._inner.write(text)
        if (context := _context()) is not None:
            context.write_log(text.encode("utf-8", "replace"))
        return written

    def flush(self) -> None:
        self._inner.flush()

    def isatty(self) -> bool:
        return self._inner.isatty()

    def fileno(self) -> int:
        return self._inner.fileno()

    def writable(self) -> bool:
        return True


class _LogHandler(logging.Handler):
    """Writes records to the log of the attempt that logs."""

    def emit(self, record: logging.LogRecord) -> None:
        context = _context()
        if context is None or record.name.startswith("everwhen.worker"):
            return
        try:
            context.write_log((self.format(record) + "\n").encode("utf-8", "replace"))
        except Exception:  # noqa: BLE001 - as every handler: a record that cannot be written stops nobody
            self.handleError(record)


@contextmanager
def captured_output() -> Generator[None]:
    """Capture what tasks print while the block runs."""
    before = sys.stdout, sys.stderr
    handler = _LogHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    sys.stdout, sys.stderr = _Tee(before[0]), _Tee(before[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        logging.getLogger().removeHandler(handler)


def _context() -> Context | None:
    try:
        return current_context()
    except LookupError:
        return None
