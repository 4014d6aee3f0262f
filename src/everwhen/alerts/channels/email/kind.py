"""The kind `email`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.alerts.channels.email.configuration import SECRETS, EmailConfiguration, server_of, stored
from everwhen.alerts.channels.email.server import MailServer, hand_in
from everwhen.alerts.channels.email.writing import letter_of
from everwhen.alerts.channels.protocol import Outcome, Refused
from everwhen.alerts.channels.reading import read
from everwhen.alerts.message import Rendered
from everwhen.egress.answers import line
from everwhen.egress.client import Egress
from everwhen.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Email:
    """Hands in a mail for each recipient."""

    egress: Egress
    server: MailServer | None = None
    """The installation's own, for channels that name none."""
    sender: str | None = None
    plain_allowed: bool = False
    name: str = "email"
    secret_names: Sequence[str] = SECRETS

    def check(self, configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
        """See `ChannelKind`."""
        given, _, _ = self._given(configuration, secrets)
        return stored(given)

    def recipients(self, configuration: Mapping[str, Any]) -> Sequence[str]:
        """See `ChannelKind`."""
        return list(dict.fromkeys(read(EmailConfiguration, configuration).to))

    async def send(  # noqa: PLR0913  # see `ChannelKind`
        self,
        rendered: Rendered,
        *,
        tenant_id: UUID,
        recipient: str,
        unsubscribe_link: str | None,
        configuration: Mapping[str, Any],
        secrets: Mapping[str, str],
        delivery_id: UUID,
        now: datetime,
    ) -> Outcome:
        """See `ChannelKind`."""
        try:
            given, server, sender = self._given(configuration, secrets)
        except InvalidInput as wrong:  # what was right once may not be allowed any more
            return Refused(response=line(wrong.detail))
        if recipient not in given.to:
            return Refused(response="the channel has no such recipient any more")
        letter = letter_of(
            rendered,
            sender=sender,
            sender_name=given.from_name,
            recipient=recipient,
            unsubscribe_link=unsubscribe_link,
            delivery_id=delivery_id,
            now=now,
        )
        return await hand_in(letter, to=server, egress=self.egress, tenant_id=tenant_id)

    def _given(
        self, configuration: Mapping[str, Any], secrets: Mapping[str, str]
    ) -> tuple[EmailConfiguration, MailServer, str]:
        given = read(EmailConfiguration, configuration)
        server, sender = server_of(
            given,
            secrets,
            default=self.server,
            default_sender=self.sender,
            plain_allowed=self.plain_allowed,
            policy=self.egress.policy,
        )
        return given, server, sender
