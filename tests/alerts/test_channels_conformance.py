"""What every kind of channel keeps to. A new kind is a rig here, and nothing else.

A rig has a real server on loopback and says how each of the three ends is brought about; the suite does the rest.
"""

import asyncio
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from everwhen.alerts.channels.email.kind import Email
from everwhen.alerts.channels.protocol import ChannelKind, Delivered, Refused, TryLater
from everwhen.alerts.channels.registry import Outside, make_kinds
from everwhen.alerts.channels.slack.kind import Slack
from everwhen.alerts.channels.webhook.kind import Webhook
from everwhen.alerts.message import Rendered
from everwhen.errors import InvalidInput
from tests.alerts.servers import CUT, HANG, HttpsReceiver, MailServer, Reply, SlackStandIn
from tests.egress.guarded import Names, egress

TENANT = UUID(int=7)
DELIVERY = UUID("0192f0e0-0000-7000-8000-000000000001")
NOW = datetime.now(UTC)  # noqa: TID251  # receivers check that a signature is recent
KEY = "whsec_" + "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"
RENDERED = Rendered(
    subject="nightly is dead",
    text="Run failed: naïve ✓",
    html="<p>Run <b>failed</b></p>",
    blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "*nightly* is dead"}}],
    payload={"type": "run.dead", "version": 1, "timestamp": "2026-11-29T00:00:00Z", "data": {"occasions": []}},
)
IDS = {"delivery_id": str(DELIVERY), "tenant": "acme", "total": 1}
OCCASION = {"occasion_id": "1", "kind": "run.dead", "run_id": None, "link": None}


@dataclass
class Rig:
    """One kind beside its server."""

    kind: Any
    server: Any
    configuration: dict[str, Any]
    secrets: dict[str, str]
    recipient: str = ""
    later: Any = 503
    refused: Any = 404
    wrong: dict[str, Any] = field(default_factory=dict)
    """A field whose value cannot be, and a value that a message must not quote."""

    def ids(self) -> list[str]:
        """What the server told deliveries apart by, in the order in which they came."""
        raise NotImplementedError

    async def send(self, rendered: Rendered = RENDERED, *, guard=None, **changes):
        kind = self.kind if guard is None else self.with_guard(guard)
        arguments = {
            "tenant_id": TENANT,
            "recipient": self.recipient,
            "unsubscribe_link": "https://everwhen.test/u/1",
            "configuration": self.configuration,
            "secrets": self.secrets,
            "delivery_id": DELIVERY,
            "now": NOW,
        }
        return await kind.send(rendered, **(arguments | changes))

    def with_guard(self, guard) -> ChannelKind:
        """The same kind behind another guard."""
        made: Any = type(self.kind)
        return made(guard)


class WebhookRig(Rig):
    def ids(self):
        return [request.headers["webhook-id"] for request in self.server.requests]


class SlackRig(Rig):
    def ids(self):
        return [request.json["blocks"][0]["block_id"] for request in self.server.requests]

    def with_guard(self, guard):
        return Slack(guard, self.kind.hosts)


class EmailRig(Rig):
    def ids(self):
        return [str(message["Message-ID"]) for message in self.server.messages]


@contextmanager
def webhook():
    with HttpsReceiver(secrets=(KEY,)) as server:
        yield WebhookRig(
            kind=Webhook(egress()),
            server=server,
            configuration={"url": server.url},
            secrets={"secret": KEY, "authorization": "Bearer canary-token"},
            wrong={"url": "https://canary@x/"},
        )


@contextmanager
def slack():
    with SlackStandIn() as server:
        yield SlackRig(
            kind=Slack(egress(), frozenset({"localhost"})),
            server=server,
            configuration={},
            secrets={"url": server.url},
            wrong={"channel": "#canary"},
        )


@contextmanager
def email():
    with MailServer(password="canary-password") as server:
        yield EmailRig(
            kind=Email(egress()),
            server=server,
            configuration={
                "host": "mail.test",
                "port": server.port,
                "username": "user",
                "from": "everwhen@example.com",
                "to": ["ops@example.org"],
            },
            secrets={"password": "canary-password"},
            recipient="ops@example.org",
            later="451 4.7.1 try later",
            refused="550 5.1.1 no such user",
            wrong={"from": "canary"},
        )


RIGS = {"webhook": webhook, "slack": slack, "email": email}


@pytest.fixture(params=RIGS)
def rig(request):
    with RIGS[request.param]() as made:
        yield made


def test_every_kind_has_a_rig():
    kinds = make_kinds(Outside(egress=egress()))

    assert set(kinds) == set(RIGS)
    assert all(name == kind.name for name, kind in kinds.items())


async def test_what_is_checked_is_kept_and_can_be_checked_again(rig):
    kept = rig.kind.check(rig.configuration, rig.secrets)

    assert json.loads(json.dumps(kept)) == kept
    assert rig.kind.check(kept, rig.secrets) == kept
    assert set(rig.secrets) <= set(rig.kind.secret_names)
    assert not set(rig.kind.secret_names) & set(kept)
    assert rig.recipient in rig.kind.recipients(kept)


async def test_it_is_delivered(rig):
    outcome = await rig.send()

    assert isinstance(outcome, Delivered), outcome
    assert len(rig.ids()) == 1
    assert str(DELIVERY) in rig.ids()[0]


async def test_the_id_is_the_same_over_retries_and_another_for_another_delivery(rig):
    rig.server.script.append(rig.later)
    outcomes = [await rig.send() for _ in range(3)]
    other = UUID("0192f0e0-0000-7000-8000-000000000002")
    await rig.send(delivery_id=other)

    assert [type(outcome) for outcome in outcomes] == [TryLater, Delivered, Delivered]
    *same, last = rig.ids()
    assert len(set(same)) == 1
    assert str(other) in last


async def test_a_passing_trouble_is_for_later_and_a_lasting_one_is_not(rig):
    rig.server.script.extend([rig.later, rig.refused])

    assert isinstance(await rig.send(), TryLater)
    assert isinstance(await rig.send(), Refused)


@pytest.mark.parametrize("what", [HANG, CUT])
async def test_a_receiver_that_hangs_or_cuts_is_for_later_within_the_kinds_time(rig, what):
    rig.server.script.append(what)
    began = time.monotonic()
    outcome = await rig.send(guard=egress(seconds=1.0, mail_seconds=3.0))

    assert isinstance(outcome, TryLater), outcome
    assert time.monotonic() - began < 20  # bounded, not fast
    assert isinstance(await rig.send(), Delivered)


async def test_down_is_for_later_and_up_again_is_delivered(rig):
    rig.server.down()
    assert isinstance(await rig.send(), TryLater)

    rig.server.up()
    assert isinstance(await rig.send(), Delivered)


async def test_a_forbidden_address_is_refused_and_never_reached(rig):
    before = rig.server.connections
    for allowed_address in ("127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "10.0.0.1"):
        names = Names({"localhost": [allowed_address], "mail.test": [allowed_address]})
        outcome = await rig.send(guard=egress(allowed=(), names=names))
        assert isinstance(outcome, Refused), outcome
    assert rig.server.connections == before


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "\r\nBcc: evil@example.com\r\n\r\nx",
        "".join(map(chr, range(32))) + "\x7f\x85\u2028\u2029",
        "\u202eevil\u202c \u2066x\u2069 \u200b\ufeff",
        "\ud800 half a character \udfff",
        "<script>alert(1)</script> & <!channel> {{ 7*7 }}",
        "ü" * 5000,
        "",
    ],
    ids=["1 MB", "header", "controls", "bidi", "surrogates", "markup", "long words", "empty"],
)
async def test_any_text_is_contained(rig, text):
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    hostile = Rendered(
        subject=text,
        text=text,
        html=f"<pre>{text}</pre>",
        blocks=[section] * 60,
        payload={
            "type": "run.dead",
            "version": 1,
            "timestamp": "2026-11-29T00:00:00Z",
            "data": {**IDS, "occasions": [{**OCCASION, "error": text}]},
        },
    )
    outcome = await rig.send(hostile)

    assert isinstance(outcome, Delivered), outcome
    assert outcome.response.isprintable()
    assert len(outcome.response) <= 300


async def test_no_secret_is_shown_by_an_outcome_a_refusal_or_a_kind(rig):
    shown = [repr(rig.kind)]
    rig.server.script.extend(
        [rig.refused, rig.later, Reply(status=400, body=b"canary") if rig.refused == 404 else "550 x"]
    )
    shown += [repr(await rig.send()) for _ in range(4)]
    for name in rig.secrets:
        for wrong in ("canary-wrong", "https://canary-wrong@x/", "whsec_canary-wrong", ""):
            secrets = {**rig.secrets, name: wrong}
            shown.append(repr(await rig.send(secrets=secrets)))
            try:
                rig.kind.check(rig.configuration, secrets)
            except InvalidInput as refused:
                shown.append(f"{refused} {refused!r} {refused.errors} {refused.__cause__} {refused.__context__!r}")
    hidden = ["canary", *rig.secrets.values()]

    assert not [text for text in shown for secret in hidden if secret and secret in text]


async def test_a_field_that_cannot_be_is_pointed_at_and_not_quoted(rig):
    [(name, value)] = rig.wrong.items()
    for configuration in ({**rig.configuration, name: value}, {**rig.configuration, "canary_field": "canary"}):
        with pytest.raises(InvalidInput) as refused:
            rig.kind.check(configuration, rig.secrets)
        [*_, error] = refused.value.errors
        assert error.pointer.startswith(("/configuration/", "/secrets/"))
        assert "canary" not in error.detail
    assert isinstance(await rig.send(configuration={**rig.configuration, name: value}), Refused)


async def test_fifty_at_once_are_all_delivered(rig):
    outcomes = await asyncio.gather(*(rig.send(delivery_id=UUID(int=number)) for number in range(50)))

    assert {type(outcome) for outcome in outcomes} == {Delivered}
    assert len(rig.ids()) == 50


async def test_what_a_receiver_asks_for_is_bounded():
    with webhook() as rig:
        rig.server.script.extend([
            Reply(status=429, headers={"Retry-After": "7"}),
            Reply(status=503, headers={"Retry-After": "99999999999999999999"}),
            Reply(status=503, headers={"Retry-After": "-5"}),
            Reply(status=503, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}),
            Reply(status=503, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
        ])  # fmt: skip
        outcomes: list[Any] = [await rig.send() for _ in range(5)]

    hour = timedelta(hours=1)
    assert [outcome.after for outcome in outcomes] == [timedelta(seconds=7), hour, None, timedelta(), hour]
