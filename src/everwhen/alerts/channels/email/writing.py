"""Writes a mail: multipart/alternative, with the headers of what a machine sends and a reader may leave.

Nothing that is written here can begin a header of its own: each value is one line by check, an address is made of
parts that were checked when the channel was, and the library refuses line breaks besides. A mail of one delivery is the
same at every try, the Message-ID above all.
"""

import re
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8, EmailPolicy
from typing import Any, Final
from uuid import UUID

from everwhen.alerts.channels.email.server import Letter
from everwhen.alerts.message import Rendered
from everwhen.egress.answers import line

SUBJECT_CHARACTERS: Final = 200
TEXT_CHARACTERS: Final = 200_000
_CUT: Final = "\n…"
_LINK: Final = re.compile(r"https://[!-;=?-~]{1,900}")
_AS_IT_IS: Final = frozenset({"message-id", "list-unsubscribe", "list-unsubscribe-post"})


class _Policy(EmailPolicy):
    """Folds headers, but for those that no reader puts together again: ids and links stay on one line."""

    def fold_binary(self, name: str, value: Any) -> bytes:
        """See `email.policy.Policy`."""
        if name.lower() in _AS_IT_IS:
            return f"{name}: {value}\r\n".encode("ascii")
        return super().fold_binary(name, value)


_ASCII: Final = _Policy(**{name: getattr(SMTP, name) for name in ("linesep", "cte_type")})
_UTF8: Final = _ASCII.clone(utf8=SMTPUTF8.utf8)


def letter_of(  # noqa: PLR0913  # what a mail is made of
    rendered: Rendered,
    *,
    sender: str,
    sender_name: str | None,
    recipient: str,
    unsubscribe_link: str | None,
    delivery_id: UUID,
    now: datetime,
) -> Letter:
    """Write the mail of one delivery to one mailbox."""
    letter = Letter(sender=sender, recipient=recipient, content=b"")
    message = EmailMessage(policy=_UTF8 if letter.needs_utf8 else _ASCII)
    message["From"] = _address(sender, line(sender_name or "Everwhen"))
    message["To"] = _address(recipient)
    message["Subject"] = line(_whole(rendered.subject))[:SUBJECT_CHARACTERS] or "Everwhen"
    message["Date"] = now
    message["Message-ID"] = f"<{delivery_id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    if unsubscribe_link and _LINK.fullmatch(unsubscribe_link):
        message["List-Unsubscribe"] = f"<{unsubscribe_link}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(_fitted(rendered.text), cte="base64")
    if rendered.html:
        message.add_alternative(_fitted(rendered.html), subtype="html", cte="base64")
    return Letter(sender=sender, recipient=recipient, content=message.as_bytes())


def _address(mailbox: str, name: str = "") -> Address:
    local, _, domain = mailbox.rpartition("@")
    return Address(display_name=name, username=local, domain=domain)


def _fitted(text: str) -> str:
    text = _whole(text).replace("\0", "")
    return text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - len(_CUT)] + _CUT


def _whole(text: str) -> str:
    """Replace halves of characters, which no encoding takes."""
    return text.encode("utf-8", "replace").decode()
