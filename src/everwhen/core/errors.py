"""Errors that the pure core raises about definitions, never about the state of the system."""


class TriggerError(Exception):
    """A trigger, a time zone or a time policy that cannot be accepted.

    Attributes:
        code: what is wrong, stable and dotted, such as `trigger.cron.unreachable`.
        message: one sentence for the person who wrote the definition.
        field: the input that is to be changed, such as `expr` or `timezone`.
    """

    def __init__(self, code: str, message: str, *, field: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


def quoted(text: str, *, limit: int = 60) -> str:
    """Return the text as one printable line, cut at `limit` characters, for use inside a message."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return ascii(shown) if not shown.isprintable() else f"'{shown}'"
