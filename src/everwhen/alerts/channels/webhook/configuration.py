"""What a webhook channel is told, and what it refuses.

url                  where to post
payload              `full`, or `thin`: ids and links only, so that no data of the tenant's leaves
headers              of the receiver's own, written openly
secret               signs; `whsec_` and 24 to 64 bytes in base64
secret_previous      signs as well, while receivers move from one secret to the next
authorization        the value of the header of that name, if the receiver wants one
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from everwhen.alerts.channels.reading import Configuration, secret, wrong_field, wrong_secret
from everwhen.egress.client import HEADER_NAME, HEADER_VALUE
from everwhen.egress.policy import EgressPolicy
from everwhen.egress.targets import TargetRefused, read_url

SECRETS: Final = ("secret", "secret_previous", "authorization")
PREFIX: Final = "whsec_"
MOST_HEADERS: Final = 20
MOST_HEADER_CHARACTERS: Final = 1000
_OURS: Final = frozenset({
    "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "keep-alive",
    "proxy-authorization", "proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade", "expect", "user-agent",
    "accept-encoding", "cookie", "date", "via", "forwarded",
})  # fmt: skip
_OURS_BY_PREFIX: Final = ("webhook-", "x-forwarded-", "sec-", "proxy-")


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
    for name, value in configuration.headers.items():
        _check_header(name, value)
    if len({name.lower() for name in configuration.headers}) < len(configuration.headers):
        raise wrong_field("headers", "a header stands there twice")
    keys_of(secrets)
    if (authorization := secrets.get("authorization")) and not _fits(authorization):
        raise wrong_secret("authorization", "This is one line of printable ASCII.")


def keys_of(secrets: Mapping[str, str]) -> list[bytes]:
    """Return the keys that sign, the newest first; raise InvalidInput when one is none."""
    keys = [_key("secret", secret(secrets, "secret"))]
    if previous := secrets.get("secret_previous"):
        keys.append(_key("secret_previous", previous))
    return keys


def _key(name: str, text: str) -> bytes:
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise wrong_secret(name, "A signing secret is `whsec_` followed by 24 to 64 bytes in base64.")
    return key


def _check_header(name: str, value: str) -> None:
    at = f"headers/{name.replace('~', '~0').replace('/', '~1')}"
    lower = name.lower()
    if not HEADER_NAME.fullmatch(name) or not _fits(value):
        raise wrong_field(at, "a header is a name and one line of printable ASCII")
    if lower == "authorization":
        raise wrong_field(at, "this header is a secret: give it as secrets.authorization")
    if lower in _OURS or lower.startswith(_OURS_BY_PREFIX):
        raise wrong_field(at, "this header is not for a channel to set")


def _fits(value: str) -> bool:
    return len(value) <= MOST_HEADER_CHARACTERS and HEADER_VALUE.fullmatch(value) is not None
