"""The kind `slack`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from everwhen.alerts.channels.answers import outcome_of
from everwhen.alerts.channels.protocol import Outcome, Refused
from everwhen.alerts.channels.reading import read, stored
from everwhen.alerts.channels.slack import configuration as checking
from everwhen.alerts.channels.slack.configuration import SECRETS, SlackConfiguration
from everwhen.alerts.channels.slack.writing import body_of
from everwhen.alerts.message import Rendered
from everwhen.egress.answers import line
from everwhen.egress.client import Answer, Answered, Egress
from everwhen.errors import InvalidInput

# Words by which Slack says what is wrong. Others are not passed on: see answers.py.
_WORDS: Final = frozenset({
    "action_prohibited", "channel_is_archived", "channel_not_found", "invalid_blocks", "invalid_payload",
    "invalid_token", "no_active_hooks", "no_service", "no_service_id", "no_team", "no_text",
    "posting_to_general_channel_denied",
    "rollup_error", "team_disabled", "too_many_attachments", "user_not_found",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slack:
    """Posts blocks to an incoming webhook. Slack knows no delivery ids: what is repeated there, is seen twice."""

    egress: Egress
    hosts: frozenset[str]
    name: str = "slack"
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
        unsubscribe_link: str | None,  # noqa: ARG002  # Slack has its own way to leave a channel
        configuration: Mapping[str, Any],
        secrets: Mapping[str, str],
        delivery_id: UUID,
        now: datetime,
    ) -> Outcome:
        """See `ChannelKind`."""
        try:
            self._given(configuration, secrets)
        except InvalidInput as wrong:  # what was right once may not be allowed any more
            return Refused(response=line(wrong.detail))
        answer = await self.egress.post(
            secrets["url"],
            tenant_id=tenant_id,
            headers={"content-type": "application/json; charset=utf-8"},
            content=body_of(rendered, delivery_id=delivery_id),
        )
        return outcome_of(answer, now=now, says=_word(answer))

    def _given(self, configuration: Mapping[str, Any], secrets: Mapping[str, str]) -> SlackConfiguration:
        given = read(SlackConfiguration, configuration)
        checking.check(secrets, hosts=self.hosts, policy=self.egress.policy)
        return given


def _word(answer: Answer) -> str:
    word = answer.body.decode("ascii", "replace").strip() if isinstance(answer, Answered) else ""
    return word if word in _WORDS else ""
