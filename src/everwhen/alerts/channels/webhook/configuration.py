"""What a webhook channel is told, and what it refuses.

url                  where to post
payload              `full`, or `thin`: ids and links only, so that no data of the tenant's leaves
headers              of the receiver's own, written openly
secret               signs; `whsec_` and 24 to 64 bytes in base64
secret_previous      signs as well, while receivers move from one secret to the next
authorization        the value of the header of that name, if the receiver wants one
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from everwhen.alerts.channels.reading import Configuration, secret, wrong_field, wrong_secret
from everwhen.egress.policy import EgressPolicy
from everwhen.egress.standard_webhooks import MOST_HEADERS, WrongHeader, check_headers, fits, read_key
from everwhen.egress.targets import TargetRefused, read_url

SECRETS: Final = ("secret", "secret_previous", "authorization")


class WebhookConfiguration(Configuration):
    """The open part of a webhook channel."""

    url: Annotated[str, Field(max_length=2048)]
    payload: Literal["full", "thin"] = "full"
    headers: Annotated[dict[str, str], Field(default_factory=dict, max_length=MOST_HEADERS)]


def check(configuration: WebhookConfiguration, secrets: Mapping[str, str], *, policy: EgressPolicy) -> None:
    """Raise InvalidInput for a URL that may not be reached, headers that are not the tenant's, and bad secrets."""
    try:
        read_url(configuration.url, policy=policy)
    except TargetRefused as refused:
        raise wrong_field("url", refused) from None
    try:
        check_headers(configuration.headers)
    except WrongHeader as wrong:
        raise wrong_field(_at(wrong.name), str(wrong)) from None
    keys_of(secrets)
    if (authorization := secrets.get("authorization")) and not fits(authorization):
        raise wrong_secret("authorization", "This is one line of printable ASCII.")


def keys_of(secrets: Mapping[str, str]) -> list[bytes]:
    """Return the keys that sign, the newest first; raise InvalidInput when one is none."""
    keys = [_key("secret", secret(secrets, "secret"))]
    if previous := secrets.get("secret_previous"):
        keys.append(_key("secret_previous", previous))
    return keys


def _key(name: str, text: str) -> bytes:
    key = read_key(text)
    if key is None:
        raise wrong_secret(name, "A signing secret is `whsec_` followed by 24 to 64 bytes in base64.")
    return key


def _at(header: str | None) -> str:
    return "headers" if header is None else f"headers/{header.replace('~', '~0').replace('/', '~1')}"
