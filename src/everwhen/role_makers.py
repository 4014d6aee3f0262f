"""How each role that ticks is made of the services of its process."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from everwhen import clock
from everwhen.alerts.assembling import make_courier, make_kit
from everwhen.alerts.delivering.courier import Times
from everwhen.alerts.notifier import Notifier
from everwhen.audit.notary import Notary
from everwhen.audit.places import open_places
from everwhen.audit.sealer import ChainSealer
from everwhen.audit.signing import read_signer
from everwhen.config import RoleName
from everwhen.core.alert_retry import Patience
from everwhen.dispatch.brokers.composition import make_relay
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.endpoints import calling
from everwhen.endpoints.caller import Caller
from everwhen.errors import ConfigurationError
from everwhen.explaining.observer import Observer
from everwhen.fleets import service as fleets
from everwhen.limits import sweeping
from everwhen.logs.service import sweep_after
from everwhen.operations.operator import Operator
from everwhen.outside import make_egress
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.pauses.attendant import Attendant
from everwhen.payloads.porter import Porter
from everwhen.replies import service as replies
from everwhen.roles import Role
from everwhen.schedules.scheduler import Scheduler
from everwhen.sentinel.sentinel import Sentinel
from everwhen.services import Services, wake_line
from everwhen.streaming.feed import sweep_cuts
from everwhen.sweeping import Sweeper
from everwhen.workflows.conductor import Conductor

SWEEPS: Final = (replies.sweep, sweeping.sweep_buckets, sweeping.fold_days, fleets.sweep_workers, sweep_cuts)
"""What the sweeper deletes."""


def _make_sweeper(services: Services) -> Sweeper:
    kept = timedelta(days=services.settings.log_retention_days)
    return Sweeper(database=services.database, sweeps=(*SWEEPS, sweep_after(kept)))


def make_notifier(services: Services) -> Notifier:
    """Make the role that tells people; it signs links and codes with the installation's secret."""
    settings = services.settings
    if settings.jwt_secret is None:
        raise ConfigurationError("the notifier needs EVERWHEN_JWT_SECRET, the one of the API")
    kit = make_kit(services.channels, services.sealer, secret=settings.jwt_secret.get_secret_value())
    public_url = (settings.public_url or f"http://{settings.host}:{settings.port}").rstrip("/")
    times = Times(
        patience=Patience(
            first=timedelta(seconds=settings.alert_retry_first_seconds),
            most=timedelta(seconds=settings.alert_retry_most_seconds),
            give_up=timedelta(seconds=settings.alert_retry_seconds),
        ),
        lease=timedelta(seconds=settings.alert_lease_seconds),
    )
    courier = make_courier(services.database, kit, public_url=public_url, jitter=clock.jitter, times=times)
    return Notifier(database=services.database, courier=courier, retention_days=settings.alert_retention_days)


def make_notary(services: Services) -> Notary:
    """Make the role that notes where the audit's chains end; raise ConfigurationError for a place that is none."""
    settings = services.settings
    key, webhook = (
        None if secret is None else secret.get_secret_value()
        for secret in (settings.audit_anchor_key, settings.audit_anchor_webhook)
    )
    return Notary(
        database=services.database,
        places=open_places(settings.audit_anchor_url, webhook, egress=lambda: make_egress(settings)),
        signer=None if key is None else read_signer(key),
        period=timedelta(seconds=settings.audit_anchor_seconds),
    )


def make_caller(services: Services) -> Caller:
    """Make the role that posts runs to endpoints; it seals lease tokens with the installation's secret."""
    settings = services.settings
    if settings.jwt_secret is None:
        raise ConfigurationError("the caller needs EVERWHEN_JWT_SECRET, the one of the API")
    outside = calling.Outside(
        egress=services.egress, tokens=LeaseTokens(settings.jwt_secret.get_secret_value()), jitter=clock.jitter
    )
    calls = calling.Calls(database=services.database, dispatch=services.dispatch, outside=outside)
    return Caller(database=services.database, sealer=services.sealer, calls=calls)


MAKERS: Final[Mapping[str, Callable[[Services], Role]]] = {
    "scheduler": lambda services: Scheduler(
        database=services.database,
        ahead=timedelta(seconds=services.settings.plan_ahead_seconds),
        batch=services.settings.scheduler_batch,
    ),
    "gatekeeper": lambda services: Gatekeeper(database=services.database, on_ended=services.on_ended),
    "attendant": lambda services: Attendant(database=services.database),
    "conductor": lambda services: Conductor(
        database=services.database,
        on_ready=wake_line,
        on_ended=services.on_ended,
        batch=services.settings.conductor_batch,
    ),
    "reaper": lambda services: Reaper(
        database=services.database,
        jitter=clock.jitter,
        batch=services.settings.reaper_batch,
        on_ended=services.on_ended,
    ),
    "caller": make_caller,
    "observer": lambda services: Observer(
        database=services.database,
        observer_id=clock.new_id(clock.process_now()),
        kept=timedelta(days=services.settings.observer_kept_days),
    ),
    "operator": lambda services: Operator(
        database=services.database,
        on_ready=wake_line,
        on_ended=services.on_ended,
        batch=services.settings.operator_batch,
    ),
    "relay": lambda services: make_relay(services.database, services.brokers, services.settings),
    "sentinel": lambda services: Sentinel(
        database=services.database,
        overdue=timedelta(seconds=services.settings.sentinel_overdue_seconds),
        waiting=timedelta(seconds=services.settings.sentinel_wait_seconds),
    ),
    "sweeper": _make_sweeper,
    "porter": lambda services: Porter(database=services.database, depot=services.payloads.depot),
    "notifier": make_notifier,
    "sealer": lambda services: ChainSealer(database=services.database),
    "notary": make_notary,
}
"""How each role that ticks is made; the API is served apart."""


def make_role(name: RoleName, services: Services) -> Role:
    """Make one of the roles that tick."""
    return MAKERS[name](services)
