"""What a channel of mails is told, and what it refuses.

    host, port, tls, username    the tenant's own server; all left out: the installation's
    from, from_name              the sender; left out: the installation's
    to                           up to 50 addresses, each of which gets a mail of its own
    password                     for the tenant's own server; secret

`tls` is `starttls` (the server must offer it), `implicit` (from the first byte), or, where the installation allows it,
`none`. Certificates are always checked.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from everwhen.alerts.channels.email.server import DEFAULT_PORTS, MailServer
from everwhen.alerts.channels.reading import Configuration, wrong_field, wrong_secret
from everwhen.egress.policy import EgressPolicy
from everwhen.egress.targets import TargetRefused, is_address, read_host
from everwhen.errors import ConfigurationError

SECRETS: Final = ("password",)
MOST_RECIPIENTS: Final = 50
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u00a1-\ud7ff\uf900-\ufffd-]+"
_LOCAL: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LOCAL_BYTES: Final = 64


def read_address(text: str) -> str:
    """Return an address with its domain in ASCII; raise ValueError for what is none, quoted local parts included."""
    local, at, domain = text.rpartition("@")
    if not at or not _LOCAL.fullmatch(local) or not local.isprintable() or len(local.encode()) > _LOCAL_BYTES:
        raise ValueError("this is not the address of a mailbox")
    try:
        host = read_host(domain)
    except TargetRefused:
        host = ""
    if "." not in host or is_address(host):
        raise ValueError("this is not the address of a mailbox")
    return f"{local}@{host}"


def read_sender(text: str) -> str:
    """Return the installation's sender; raise ConfigurationError."""
    try:
        return read_address(text)
    except ValueError as error:
        raise ConfigurationError(f"smtp_from: {error}") from None


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("this is one line without control characters")
    return text


Mailbox = Annotated[str, Field(max_length=320), AfterValidator(read_address)]
Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]


class EmailConfiguration(Configuration):
    """The open part of a channel of mails."""

    host: Annotated[str, Field(max_length=253)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    tls: Literal["starttls", "implicit", "none"] | None = None
    username: Line | None = None
    sender: Annotated[Mailbox | None, Field(alias="from")] = None
    from_name: Line | None = None
    to: Annotated[tuple[Mailbox, ...], Field(min_length=1, max_length=MOST_RECIPIENTS)]


def stored(given: EmailConfiguration) -> dict[str, Any]:
    """Return its stored form."""
    return given.model_dump(mode="json", exclude_none=True, by_alias=True)


def server_of(  # what the tenant says, and what the installation does
    given: EmailConfiguration,
    secrets: Mapping[str, str],
    *,
    default: MailServer | None,
    default_sender: str | None,
    plain_allowed: bool,
    policy: EgressPolicy,
) -> tuple[MailServer, str]:
    """Return the server and the sender; raise InvalidInput for what is missing, contradicts or is not allowed."""
    if given.host is None:
        return _the_installations(given, secrets, default, default_sender)
    if given.sender is None:
        raise wrong_field("from", "a channel with a server of its own names its sender")
    tls = given.tls or "starttls"
    if tls == "none" and not plain_allowed:
        raise wrong_field("tls", "this installation hands mails over with TLS only")
    port = given.port or DEFAULT_PORTS[tls]
    if port not in policy.mail_ports:
        raise wrong_field("port", f"port {port} is not among those of mail servers")
    try:
        host = read_host(given.host)
    except TargetRefused as refused:
        raise wrong_field("host", refused) from None
    if bool(given.username) != bool(secrets.get("password")):
        raise wrong_secret("password", "A user name and a password go together.")
    own = MailServer(
        host=host, port=port, tls=tls, username=given.username, password=secrets.get("password"), guarded=True
    )
    return own, given.sender


def _the_installations(
    given: EmailConfiguration, secrets: Mapping[str, str], default: MailServer | None, default_sender: str | None
) -> tuple[MailServer, str]:
    if default is None:
        raise wrong_field("host", "this installation has no mail server of its own, so a channel names one")
    for name in ("port", "tls", "username"):
        if getattr(given, name) is not None:
            raise wrong_field(name, "this goes with a host")
    if secrets.get("password"):
        raise wrong_secret("password", "This goes with a host.")
    if given.sender is not None or default_sender is None:
        raise wrong_field("from", "the sender by the installation's server is the installation's")
    return default, default_sender
