"""What of this process reaches outside, made of the settings: the guarded way out, and the kinds of channels."""

from collections.abc import Mapping
from dataclasses import replace

from everwhen.alerts.channels.email.configuration import read_sender
from everwhen.alerts.channels.email.server import read_server
from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.alerts.channels.registry import Outside, make_kinds
from everwhen.config import Settings
from everwhen.egress.client import Egress
from everwhen.egress.policy import EgressPolicy
from everwhen.endpoints import calling


def make_policy(settings: Settings) -> EgressPolicy:
    """Return what tenants may reach; raise ConfigurationError for what cannot be read of it."""
    policy = EgressPolicy(
        allowed=settings.egress_allow,
        ports=frozenset(settings.egress_ports),
        mail_ports=frozenset(settings.egress_mail_ports),
        plain_http=settings.egress_plain_http,
        per_tenant=settings.egress_per_tenant,
        ca_file=settings.egress_ca_file,
    )
    policy.check()
    return policy


def make_egress(settings: Settings) -> Egress:
    """Make the guarded way out; raise ConfigurationError for what cannot be read of its settings."""
    return Egress(make_policy(settings))


def make_calling_egress(settings: Settings) -> Egress:
    """Make the way out to endpoints: it has turns of its own, so that slow endpoints hold back no alert."""
    return Egress(replace(make_policy(settings), per_tenant=calling.PER_TENANT))


def make_channels(settings: Settings) -> Mapping[str, ChannelKind]:
    """Make the kinds of channels; raise ConfigurationError for what cannot be read of their settings."""
    return make_kinds(
        Outside(
            egress=make_egress(settings),
            mail_server=read_server(settings.smtp_url.get_secret_value()) if settings.smtp_url else None,
            mail_sender=read_sender(settings.smtp_from) if settings.smtp_from else None,
            plain_mail=settings.smtp_plain,
            slack_hosts=frozenset(settings.slack_hosts),
        )
    )
