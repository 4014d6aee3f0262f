"""The kind `slack` beyond what every kind keeps to: hosts, limits of its blocks, and its words."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from everwhen.alerts.channels.protocol import Delivered, Refused, TryLater
from everwhen.alerts.channels.slack.kind import Slack
from everwhen.alerts.channels.slack.writing import body_of
from everwhen.alerts.message import Rendered
from everwhen.errors import InvalidInput
from tests.alerts.servers import Reply, SlackStandIn
from tests.egress.guarded import egress

HOSTS = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})
NOW = datetime(2026, 11, 30, tzinfo=UTC)
DELIVERY = UUID(int=9)


async def send(slack, rendered=None):
    kind = Slack(egress(), frozenset({"localhost"}))
    return await kind.send(
        rendered or Rendered(subject="s", text="t", html="h"),
        tenant_id=UUID(int=1),
        recipient="",
        unsubscribe_link=None,
        configuration={},
        secrets={"url": slack.url},
        delivery_id=DELIVERY,
        now=NOW,
    )


@pytest.fixture
def slack():
    with SlackStandIn() as running:
        yield running


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.slack.com/services/T/B/x",
        "https://hooks.slack-gov.com/services/T/B/x",
        "https://HOOKS.slack.com./services/T/B/x",
    ],
)
def test_incoming_webhooks_of_slack_are_taken(url):
    assert Slack(egress(), HOSTS).check({}, {"url": url}) == {}


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/services/T/B/x", "https://hooks.slack.com.evil.com/services/x", "https://hooks.slack.com/",
        "https://evilhooks.slack.com/services/x", "http://hooks.slack.com/services/x", "https://hooks.slack.com@evil.com/x",
        "https://evil.com/hooks.slack.com", "https://evil.com?hooks.slack.com/x", "", "https://127.0.0.1/services/T/B/x",
    ],
    ids=str,
)  # fmt: skip
def test_other_urls_are_not_and_are_not_quoted(url):
    with pytest.raises(InvalidInput) as refused:
        Slack(egress(), HOSTS).check({}, {"url": url})

    assert refused.value.errors[0].pointer == "/secrets/url"
    assert not url or url not in str(refused.value)


async def test_a_host_that_is_not_allowed_any_more_is_refused_when_it_is_sent_to(slack):
    kind = Slack(egress(), HOSTS)
    outcome = await kind.send(
        Rendered(subject="s", text="t", html="h"), tenant_id=UUID(int=1), recipient="", unsubscribe_link=None,
        configuration={}, secrets={"url": slack.url}, delivery_id=DELIVERY, now=NOW,
    )  # fmt: skip

    assert isinstance(outcome, Refused)
    assert slack.connections == 0


def test_blocks_are_brought_within_the_limits():
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 5000}, "fields": [{"text": "f" * 3000}] * 12}
    header = {"type": "header", "text": {"type": "plain_text", "text": "h" * 200}}
    empty = {"type": "section", "text": {"type": "mrkdwn", "text": ""}}
    blocks = [header, empty, {"type": "context", "elements": [{"text": "e"}] * 40}, *[section] * 60]
    made = json.loads(body_of(Rendered(subject="s" * 9000, text="t", html="", blocks=blocks), delivery_id=DELIVERY))

    assert len(made["blocks"]) == 50
    assert len(made["text"]) == 4000
    assert len(made["blocks"][0]["text"]["text"]) == 150
    assert made["blocks"][1]["text"]["text"] == " "
    assert len(made["blocks"][2]["elements"]) == 25
    assert len(made["blocks"][3]["text"]["text"]) == 3000
    assert [len(field["text"]) for field in made["blocks"][3]["fields"]] == [2000] * 10
    assert made["blocks"][0]["block_id"] == str(DELIVERY)


async def test_without_blocks_the_text_is_sent(slack):
    assert isinstance(await send(slack), Delivered)
    assert slack.messages == [{"text": "s\nt"}]


@pytest.mark.parametrize(
    ("reply", "outcome", "said"),
    [
        (Reply(status=400, body=b"invalid_payload"), Refused, "400 Bad Request (invalid_payload)"),
        (Reply(status=404, body=b"no_service"), Refused, "404 Not Found (no_service)"),
        (Reply(status=410, body=b"channel_is_archived"), Refused, "410 Gone (channel_is_archived)"),
        (Reply(status=403, body=b"my own secret words"), Refused, "403 Forbidden"),
        (Reply(status=500, body=b"rollup_error"), TryLater, "500 Internal Server Error (rollup_error)"),
        (Reply(status=429, headers={"Retry-After": "30"}, body=b""), TryLater, "429 Too Many Requests"),
    ],
    ids=str,
)
async def test_each_answer_has_its_meaning(slack, reply, outcome, said):
    slack.script.append(reply)
    came = await send(slack)

    assert isinstance(came, outcome)
    assert came.response == said
