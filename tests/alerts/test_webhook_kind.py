"""The kind `webhook` beyond what every kind keeps to: signatures, rotation, payloads, headers, statuses."""

import base64
from datetime import UTC, datetime
from uuid import UUID

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from everwhen.alerts.channels.protocol import Delivered, Refused, TryLater
from everwhen.alerts.channels.webhook.kind import Webhook
from everwhen.alerts.channels.webhook.writing import BODY_BYTES, body_of
from everwhen.alerts.message import Rendered
from everwhen.egress.standard_webhooks import signed
from everwhen.errors import InvalidInput
from tests.alerts.servers import HttpsReceiver
from tests.egress.guarded import egress

OLD, NEW, OTHER = ("whsec_" + base64.b64encode(letter * 24).decode() for letter in (b"o", b"n", b"x"))
NOW = datetime.now(UTC)  # noqa: TID251  # receivers check that a signature is recent
DELIVERY = UUID(int=9)
PAYLOAD = {
    "type": "run.dead",
    "version": 1,
    "timestamp": "2026-11-29T00:00:00Z",
    "data": {
        "delivery_id": str(DELIVERY),
        "tenant": "acme",
        "total": 2,
        "subject": "canary",
        "occasions": [{"occasion_id": "1", "kind": "run.dead", "run_id": "r", "link": "https://x/", "error": "canary"}],
    },
}
RENDERED = Rendered(subject="s", text="t", html="h", payload=PAYLOAD)


@pytest.fixture
def receiver():
    with HttpsReceiver() as running:
        yield running


async def send(receiver, *, secrets=None, **configuration):
    return await Webhook(egress()).send(
        RENDERED,
        tenant_id=UUID(int=1),
        recipient="",
        unsubscribe_link=None,
        configuration={"url": receiver.url, **configuration},
        secrets=secrets or {"secret": NEW},
        delivery_id=DELIVERY,
        now=NOW,
    )


async def test_both_secrets_verify_while_they_rotate_and_no_other(receiver):
    await send(receiver, secrets={"secret": NEW, "secret_previous": OLD})
    [request] = receiver.requests

    for secret in (NEW, OLD):
        assert Verifier(secret).verify(request.body, request.headers) == PAYLOAD
    for secret, body in ((OTHER, request.body), (NEW, request.body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Verifier(secret).verify(body, request.headers)
    assert request.headers["webhook-id"] == str(DELIVERY)


def test_a_signature_is_the_librarys_and_grows_old():
    body = b'{"a":1}'
    headers = signed(body, keys=[b"n" * 24], message_id=str(DELIVERY), now=NOW)

    assert headers["webhook-signature"] == Verifier(NEW).sign(str(DELIVERY), NOW, body.decode())
    old = signed(body, keys=[b"n" * 24], message_id=str(DELIVERY), now=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(WebhookVerificationError):
        Verifier(NEW).verify(body, old)


async def test_the_thin_payload_has_ids_and_links_only(receiver):
    await send(receiver, payload="thin")
    [request] = receiver.requests

    assert b"canary" not in request.body
    assert request.json["data"]["occasions"] == [
        {"occasion_id": "1", "kind": "run.dead", "run_id": "r", "link": "https://x/"}
    ]
    assert request.json["type"] == "run.dead"


def test_what_is_too_large_goes_thin():
    [occasion] = PAYLOAD["data"]["occasions"]
    large = {**PAYLOAD, "data": {**PAYLOAD["data"], "occasions": [{**occasion, "error": "x" * BODY_BYTES}]}}
    body = body_of(large, thin=False)

    assert len(body) < 1000
    assert b'"truncated":true' in body


async def test_headers_of_the_receivers_own_and_its_authorization_are_sent(receiver):
    await send(receiver, headers={"X-Team": "ops"}, secrets={"secret": NEW, "authorization": "Bearer t"})
    [request] = receiver.requests

    assert (request.headers["x-team"], request.headers["authorization"]) == ("ops", "Bearer t")
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"}, {"content-LENGTH": "1"}, {"Transfer-Encoding": "chunked"}, {"Connection": "x"}, {"TE": "x"},
        {"webhook-id": "x"}, {"Webhook-Signature": "x"}, {"X-Forwarded-For": "127.0.0.1"}, {"Proxy-Authorization": "x"},
        {"Authorization": "x"}, {"Cookie": "x"}, {"User-Agent": "x"}, {"Content-Type": "x"}, {"Expect": "100-continue"},
        {"X": "a\r\nB: c"}, {"X\r\nB": "c"}, {"X:": "c"}, {"": "c"}, {"X": ""}, {"X": "ü"}, {"X": "a" * 1001},
        {"X" * 101: "a"}, {"x": "1", "X": "2"}, {f"X-{number}": "1" for number in range(21)}, {"Upgrade": "h2c"},
    ],
    ids=str,
)  # fmt: skip
def test_headers_that_are_not_a_channels_to_set_are_refused(headers):
    with pytest.raises(InvalidInput) as refused:
        Webhook(egress()).check({"url": "https://example.com/", "headers": headers}, {"secret": NEW})

    assert refused.value.errors[0].pointer.startswith("/configuration/headers")


@pytest.mark.parametrize("secret", ["", "x", "whsec_", "whsec_!", NEW.removeprefix("whsec_"), "whsec_" + "eA" * 8])
def test_a_secret_that_cannot_sign_is_refused(secret):
    for name in ("secret", "secret_previous"):
        secrets = {"secret": NEW, name: secret}
        if name == "secret" or secret:
            with pytest.raises(InvalidInput) as refused:
                Webhook(egress()).check({"url": "https://example.com/"}, secrets)
            assert refused.value.errors[0].pointer == f"/secrets/{name}"


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, Delivered), (202, Delivered), (204, Delivered), (299, Delivered)]
    + [(status, Refused) for status in (301, 302, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 422, 451, 499)]
    + [(status, TryLater) for status in (408, 425, 429, 500, 501, 502, 503, 504, 520, 599)],
)
async def test_each_status_has_its_meaning(receiver, status, outcome):
    receiver.script.append(status)
    came = await send(receiver)

    assert isinstance(came, outcome), came
    assert came.response.startswith(str(status))
