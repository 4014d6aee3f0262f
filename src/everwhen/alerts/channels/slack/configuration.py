"""What a Slack channel is told: nothing openly. Its URL is its secret: whoever has it, may post."""

from collections.abc import Mapping
from typing import Final

from everwhen.alerts.channels.reading import Configuration, secret, wrong_secret
from everwhen.egress.policy import EgressPolicy
from everwhen.egress.targets import TargetRefused, read_url

SECRETS: Final = ("url",)


class SlackConfiguration(Configuration):
    """Nothing."""


def check(secrets: Mapping[str, str], *, hosts: frozenset[str], policy: EgressPolicy) -> None:
    """Raise InvalidInput for a URL that is not one of an incoming webhook at one of these hosts."""
    try:
        target = read_url(secret(secrets, "url"), policy=policy)
    except TargetRefused as refused:
        raise wrong_secret("url", f"{str(refused)[:1].upper()}{str(refused)[1:]}.") from None
    if target.host not in hosts:
        raise wrong_secret("url", f"An incoming webhook is at {' or '.join(sorted(hosts))}.")
    if target.path == "/":
        raise wrong_secret("url", "The URL of an incoming webhook has a path.")
