"""Where ten thousand alerts go: a mail server, an HTTPS receiver and a stand-in for Slack, each of which is down for a
while, answers badly now and then, and keeps what it took, and when: the judge outside of the system.

What a receiver *took* is what it answered well. Whether the answer arrived is another matter: who sends may have died
meanwhile, or the receiver cut the connection, and then the same message comes again, under the same id.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes
from itertools import cycle
from random import Random  # noqa: TID251  # drawn by the test's seed
from typing import Any
from uuid import UUID

from aiosmtpd.smtp import AuthResult

from everwhen import clock
from tests.alerts.servers import CUT, HANG, ORDINARY, SLOW, HttpsReceiver, MailServer, Reply, Request, SlackStandIn

KEY = "whsec_" + "Y2FuYXJ5LW9mLXRoZS1zeXN0ZW0tdGVzdC0x"
PASSWORD = "canary-password+of/the=mail"  # of a server of the test's own
AGAIN = Reply(status=429, headers={"Retry-After": "1"})


@dataclass
class Taken:
    """When each delivery was taken, and how much it told each time."""

    at: dict[UUID, list[datetime]] = field(default_factory=dict)
    totals: dict[UUID, set[int]] = field(default_factory=dict)
    occasions: set[str] = field(default_factory=set)
    badly: Counter[str] = field(default_factory=Counter)
    """What was answered badly, or not at all, how often."""

    def take(self, delivery: str) -> UUID:
        identity = UUID(delivery)
        self.at.setdefault(identity, []).append(clock.process_now())
        return identity


class Hook(HttpsReceiver):
    """Verifies every request with the `standardwebhooks` library, by the one secret that it knows."""

    troubles: tuple[Any, ...] = (500, Reply(status=503, headers={"Retry-After": "1"}), HANG, CUT, SLOW)

    def __init__(self, **changes: Any) -> None:
        super().__init__(secrets=(KEY,), **changes)
        self.taken = Taken()

    def answer(self, request: Request) -> int | str | Reply:
        what = super().answer(request)
        if what not in ORDINARY:
            self.taken.badly[_word(what)] += 1
            return what
        data = request.json["data"]
        identity = self.taken.take(request.headers["webhook-id"])
        assert data["delivery_id"] == str(identity)
        self.taken.totals.setdefault(identity, set()).add(data["total"])
        self.taken.occasions |= {occasion["occasion_id"] for occasion in data["occasions"]}
        return what


class Chat(SlackStandIn):
    """Slack has no ids of deliveries; the first block has one."""

    troubles: tuple[Any, ...] = (AGAIN, AGAIN, 500, SLOW, CUT)

    def __init__(self) -> None:
        super().__init__()
        self.taken = Taken()

    def answer(self, request: Request) -> int | str | Reply:
        what = super().answer(request)
        if what in ORDINARY:
            self.taken.take(request.json["blocks"][0]["block_id"])
        else:
            self.taken.badly[_word(what)] += 1
        return what


class Post(MailServer):
    """Takes mails over STARTTLS from who has logged in."""

    troubles: tuple[Any, ...] = ("451 4.7.1 try later", "451 4.7.1 try later", HANG, CUT, SLOW, "550 5.7.1 no")

    def __init__(self) -> None:
        super().__init__(password=PASSWORD)
        self.taken = Taken()

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        identity = str(message_from_bytes(envelope.content)["Message-ID"])[1:].partition("@")[0]
        answer = await super().handle_DATA(server, session, envelope)
        if answer.startswith("2"):
            self.taken.take(identity)
        else:
            self.taken.badly[answer[:3]] += 1
        return answer

    def _authenticate(self, server, session, envelope, mechanism, data) -> AuthResult:  # noqa: PLR0917
        found = super()._authenticate(server, session, envelope, mechanism, data)
        if not found.success:
            self.taken.badly["535"] += 1
        return found

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802, PLR0917
        answer = await super().handle_RCPT(server, session, envelope, address, options)
        if not answer.startswith("2"):
            self.taken.badly[answer[:3]] += 1
        return answer


@dataclass(frozen=True)
class Receivers:
    """The three, and one that takes every request and never answers."""

    hook: Hook
    chat: Chat
    post: Post
    black_hole: HttpsReceiver
    turns: dict[Any, Iterator[Any]] = field(default_factory=dict[Any, Iterator[Any]])

    @property
    def all(self) -> tuple[Hook, Chat, Post]:
        return self.hook, self.chat, self.post

    def disturb(self, rng: Random) -> None:
        """Let the next answer of one of them be a bad one: of its kinds of trouble each comes in turn."""
        troubled = rng.choice(self.all)
        if not troubled.script:
            turns = self.turns.setdefault(troubled, cycle(rng.sample(troubled.troubles, len(troubled.troubles))))
            troubled.script.append(next(turns))


def _word(what: int | str | Reply) -> str:
    return what if isinstance(what, str) else str(what.status if isinstance(what, Reply) else what)
