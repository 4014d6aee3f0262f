"""The kinds of channels there are. A new one is a folder beside the others, and a line here."""

from collections.abc import Mapping
from dataclasses import dataclass

from everwhen.alerts.channels.email.kind import Email
from everwhen.alerts.channels.email.server import MailServer
from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.alerts.channels.slack.kind import Slack
from everwhen.alerts.channels.webhook.kind import Webhook
from everwhen.egress.client import Egress


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the installation gives its channels."""

    egress: Egress
    mail_server: MailServer | None = None
    mail_sender: str | None = None
    plain_mail: bool = False
    slack_hosts: frozenset[str] = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})


def make_kinds(outside: Outside) -> Mapping[str, ChannelKind]:
    """Make every kind, by its name."""
    kinds: tuple[ChannelKind, ...] = (
        Email(outside.egress, outside.mail_server, outside.mail_sender, outside.plain_mail),
        Webhook(outside.egress),
        Slack(outside.egress, outside.slack_hosts),
    )
    return {kind.name: kind for kind in kinds}
