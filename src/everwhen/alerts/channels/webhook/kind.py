"""The kind `webhook`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from everwhen.alerts.channels.answers import outcome_of
from everwhen.alerts.channels.protocol import Outcome, Refused
from everwhen.alerts.channels.reading import read, stored
from everwhen.alerts.channels.webhook import configuration as checking
from everwhen.alerts.channels.webhook.configuration import SECRETS, WebhookConfiguration, keys_of
from everwhen.alerts.channels.webhook.writing import body_of
from everwhen.alerts.message import Rendered
from everwhen.egress.answers import line
from everwhen.egress.client import Egress
from everwhen.egress.standard_webhooks import signed
from everwhen.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Webhook:
    """Posts signed JSON."""

    egress: Egress
    name: str = "webhook"
    secret_names: Sequence[str] = SECRETS

    def check(self, configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
        """See `ChannelKind`."""
        return stored(self._given(configuration, secrets))

    def recipients(self, configuration: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG002  # one receiver
        """See `ChannelKind`."""
        return [""]

    async def send(  # noqa: PLR0913  # see `ChannelKind`
        self,
        rendered: Rendered,
        *,
        tenant_id: UUID,
        recipient: str,  # noqa: ARG002  # one receiver
        unsubscribe_link: str | None,  # noqa: ARG002  # for people
        configuration: Mapping[str, Any],
        secrets: Mapping[str, str],
        delivery_id: UUID,
        now: datetime,
    ) -> Outcome:
        """See `ChannelKind`."""
        try:
            given = self._given(configuration, secrets)
        except InvalidInput as wrong:  # what was right once may not be allowed any more
            return Refused(response=line(wrong.detail))
        body = body_of(rendered.payload, thin=given.payload == "thin")
        headers = given.headers | signed(body, keys=keys_of(secrets), message_id=str(delivery_id), now=now)
        if authorization := secrets.get("authorization"):
            headers["authorization"] = authorization
        answer = await self.egress.post(given.url, tenant_id=tenant_id, headers=headers, content=body)
        return outcome_of(answer, now=now)

    def _given(self, configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> WebhookConfiguration:
        given = read(WebhookConfiguration, configuration)
        checking.check(given, secrets, policy=self.egress.policy)
        return given
