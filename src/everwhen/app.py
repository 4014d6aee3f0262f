"""The composition, by hand: what the server is made of, and how it starts and stops.

Start: settings → zones from `tzdata` only → the schema fits → pools → the listener → the roles, each in its own task.
Stop (SIGINT, SIGTERM, or a role that ends by a defect): claims that wait are sent home, the API finishes what it has
begun, roles end after their tick, the pools close. A second signal ends the process at once.
"""

import asyncio
import gc
import hashlib
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import structlog
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from everwhen import clock
from everwhen.alerts import api as alerts_api
from everwhen.alerts import deliveries_api as alert_deliveries_api
from everwhen.alerts import unsubscribing
from everwhen.alerts.assembling import make_courier, make_kit
from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.alerts.delivering.courier import Times
from everwhen.alerts.notifier import Notifier
from everwhen.alerts.texts import api as alert_templates_api
from everwhen.audit import api as audit_api
from everwhen.audit.notary import Notary
from everwhen.audit.places import open_places
from everwhen.audit.sealer import ChainSealer
from everwhen.audit.signing import read_signer
from everwhen.calendars import api as calendars_api
from everwhen.config import RoleName, Settings
from everwhen.core.alert_retry import Patience
from everwhen.core.quotas import Limit
from everwhen.core.zones import use_tzdata_only
from everwhen.dead_letters import api as dead_letters_api
from everwhen.declarations import api as declarations_api
from everwhen.dispatch.api import BODY_FACTOR, WorkerApi, WorkerLimits
from everwhen.dispatch.brokers.composition import make_brokers, make_relay
from everwhen.dispatch.brokers.kinds import BrokerMaker
from everwhen.dispatch.brokers.mailboxes import Mailboxes
from everwhen.dispatch.lines import Lines
from everwhen.dispatch.reaper import Reaper
from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.egress.client import Egress
from everwhen.endpoints import api as endpoints_api
from everwhen.endpoints import calling
from everwhen.endpoints.caller import Caller
from everwhen.endpoints.service import EndpointsDesk
from everwhen.errors import ConfigurationError
from everwhen.explaining import api as explaining_api
from everwhen.explaining.observer import Observer
from everwhen.explaining.sightings import Askers, Sightings
from everwhen.fleets import api as fleets_api
from everwhen.fleets import service as fleets
from everwhen.fleets.worker_api import FleetApi
from everwhen.http.app import create_app, resolve_routes
from everwhen.http.auth import Authenticator
from everwhen.http.counting import Counter, allowance_of
from everwhen.http.limits import Bucket, RateLimits
from everwhen.http.plane import ControlPlane, IdentityLimits
from everwhen.http.refusals import Refusals
from everwhen.http.revocations import RevocationList
from everwhen.http.tallying import Tally
from everwhen.identity import members_api, revocations_api, sessions_api, tokens_api
from everwhen.identity.directory import DatabaseDirectory
from everwhen.identity.service import TOPIC as REVOCATIONS_TOPIC
from everwhen.limits import api as limits_api
from everwhen.limits import rates, sweeping
from everwhen.logs import api as logs_api
from everwhen.logs.following import Followers
from everwhen.logs.model import LogLimits
from everwhen.logs.service import Logs, sweep_after
from everwhen.logs.worker_api import WorkerLogs
from everwhen.operations import api as operations_api
from everwhen.operations.operator import Operator
from everwhen.outside import make_calling_egress, make_channels, make_egress
from everwhen.overlap import service as overlap
from everwhen.overlap.gatekeeper import Gatekeeper
from everwhen.pauses import api as pauses_api
from everwhen.pauses.attendant import Attendant
from everwhen.payloads import api as payloads_api
from everwhen.payloads import upload_api
from everwhen.payloads.depot import Depot
from everwhen.payloads.porter import Porter
from everwhen.payloads.receiving import PayloadLimits
from everwhen.payloads.service import Payloads
from everwhen.payloads.worker_api import WorkerPayloads
from everwhen.postgres.host import default_data_dir
from everwhen.postgres.migrate import assert_compatible
from everwhen.postgres.pool import Connection, Database, PoolLimits, SetClock
from everwhen.postgres.wakeups import Wakeups, line_topic, notify
from everwhen.queues import api as queues_api
from everwhen.replies import service as replies
from everwhen.role_running import run_role
from everwhen.roles import Role
from everwhen.runs import api as runs_api
from everwhen.runs.ends import OnEnded, follow_with
from everwhen.schedules import ahead_api, catchup_api, streaks, tz_api
from everwhen.schedules import api as schedules_api
from everwhen.schedules.scheduler import Scheduler
from everwhen.sealing.ring import read_ring
from everwhen.sealing.service import Sealer
from everwhen.sentinel import api as sentinel_api
from everwhen.sentinel.sentinel import Sentinel
from everwhen.sentinel.service import collect_metrics
from everwhen.serving import SHUTDOWN_SECONDS, listen, start_server, stop_on_signals
from everwhen.streaming import api as streaming_api
from everwhen.streaming.feed import run_feed, sweep_cuts
from everwhen.streaming.hub import Hub
from everwhen.sweeping import Sweeper
from everwhen.task_service import api as task_service_api
from everwhen.task_service import form_api as task_forms_api
from everwhen.tasks import api as tasks_api
from everwhen.tenants import api as tenants_api
from everwhen.tenants import service as tenants
from everwhen.workflows import api as workflows_api
from everwhen.workflows import runs_api as workflow_runs_api
from everwhen.workflows.conductor import Conductor
from everwhen.workflows.life import NodeFollower

FEATURES: Final = (
    tenants_api,
    members_api,
    tokens_api,
    revocations_api,
    sessions_api,
    tasks_api,
    calendars_api,
    declarations_api,
    schedules_api,
    ahead_api,
    catchup_api,
    tz_api,
    runs_api,
    logs_api,
    dead_letters_api,
    operations_api,
    queues_api,
    pauses_api,
    endpoints_api,
    workflows_api,
    workflow_runs_api,
    explaining_api,
    sentinel_api,
    alert_templates_api,
    payloads_api,
    upload_api,
    task_service_api,
    task_forms_api,
    alerts_api,
    alert_deliveries_api,
    audit_api,
    limits_api,
    fleets_api,
    streaming_api,
)
"""The control API: each feature's module with its router."""

SWEEPS: Final = (replies.sweep, sweeping.sweep_buckets, sweeping.fold_days, fleets.sweep_workers, sweep_cuts)
"""What the sweeper deletes."""

PAYLOADS: Final = "payloads"
"""The folder of payloads in the data directory."""

log = structlog.get_logger("everwhen.app")

OnStarted = Callable[["Services", str], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the roles are made of."""

    settings: Settings
    database: Database
    wakeups: Wakeups
    dispatch: Dispatch
    lines: Lines
    payloads: Payloads
    on_ended: OnEnded
    sealer: Sealer
    channels: Mapping[str, ChannelKind]
    egress: Egress
    brokers: Mapping[str, BrokerMaker]
    streams: Hub


@asynccontextmanager
async def open_services(
    settings: Settings, conninfo: str, *, set_clock: SetClock | None = None
) -> AsyncGenerator[Services]:
    """Connect, and refuse a database whose schema or login does not fit. Only tests set the clock."""
    use_tzdata_only()
    limits = PoolLimits(min_size=min(2, settings.pool_size), max_size=settings.pool_size)
    async with await Database.open(conninfo, limits=limits, set_clock=set_clock) as database:
        async with database.system() as conn:
            await assert_compatible(conn)
        wakeups = Wakeups(conninfo)
        on_ended = followers()
        dispatch = Dispatch(database, jitter=clock.jitter, on_ended=on_ended)
        yield Services(
            settings=settings,
            database=database,
            wakeups=wakeups,
            dispatch=dispatch,
            lines=Lines(dispatch, wakeups),
            payloads=open_payloads(settings, database),
            on_ended=on_ended,
            sealer=Sealer(read_ring(settings.sealing_keys.get_secret_value()) if settings.sealing_keys else None),
            channels=make_channels(settings),
            egress=make_calling_egress(settings),
            brokers=make_brokers(settings),
            streams=Hub(database),
        )


def open_payloads(settings: Settings, database: Database) -> Payloads:
    """Open the store of payloads; raise ConfigurationError when its address makes no sense."""
    location = settings.payload_url or (settings.data_dir or default_data_dir(Path.cwd())) / PAYLOADS
    limits = PayloadLimits(
        payload_bytes=settings.payload_bytes_max,
        tenant_bytes=settings.payload_tenant_bytes_max,
        uploads=settings.payload_uploads_max,
    )
    return Payloads.on(database, Depot.at(location), limits)


def followers() -> OnEnded:
    """Join what follows the end of a run. A gate that lets the next run in may turn others away: these ends go on."""
    others = follow_with(streaks.follow, NodeFollower(on_ready=_wake_line))
    return follow_with(overlap.follow(then=others), others)


def make_app(services: Services) -> FastAPI:
    """Join the features' routers and the worker API."""
    settings = services.settings
    if settings.jwt_secret is None:
        raise ConfigurationError("the API needs EVERWHEN_JWT_SECRET, at least 32 random bytes")
    limits = _identity_limits(settings)
    directory = DatabaseDirectory(database=services.database, session_idle=limits.session_idle)
    plane = ControlPlane(
        database=services.database,
        authenticator=Authenticator(
            settings.jwt_secret.get_secret_value(),
            most_lifetime=timedelta(seconds=settings.token_seconds_max),
            issuers=settings.issuers,
            directory=directory,
            revocations=RevocationList(
                directory.read_revocations, woken=services.wakeups.subscribe(REVOCATIONS_TOPIC).take
            ),
        ),
        identity=limits,
        counter=make_counter(settings, services.database),
        refusals=Refusals(services.database, trusted=settings.trusted_proxies),
        trusted=settings.trusted_proxies,
        usual_limits=_usual_limits(settings),
        find_tenant=tenants.find_tenant,
        on_ready=_wake_line,
        on_ended=services.on_ended,
        body_bytes_max=settings.body_bytes_max,
        cursor_key=hashlib.blake2b(settings.jwt_secret.get_secret_value().encode(), person=b"cursors").digest(),
        payloads=services.payloads,
        streams=services.streams,
    )
    tokens = LeaseTokens(settings.jwt_secret.get_secret_value())
    worker = WorkerApi(
        dispatch=services.dispatch,
        lines=services.lines,
        tokens=tokens,
        limits=WorkerLimits(
            lease_seconds=settings.lease_seconds_max,
            wait_seconds=settings.claim_wait_seconds_max,
            body_bytes=BODY_FACTOR * settings.body_bytes_max,
        ),
        mailboxes=Mailboxes(database=services.database, brokers=services.brokers),
    )
    downloads = WorkerPayloads(payloads=services.payloads, dispatch=services.dispatch, tokens=tokens)
    app = create_app(
        plane,
        routers=[*(feature.router for feature in FEATURES), unsubscribing.router],
        first_routes=[
            *worker.routes(),
            *downloads.routes(),
            *_worker_logs(services, tokens).routes(),
            *FleetApi(database=services.database).routes(),
        ],
    )
    app.state.followers = Followers()
    app.state.alerts = make_kit(services.channels, services.sealer, secret=settings.jwt_secret.get_secret_value())
    app.state.endpoints = EndpointsDesk(
        database=services.database, sealer=services.sealer, policy=services.egress.policy
    )
    return app


def _worker_logs(services: Services, tokens: LeaseTokens) -> WorkerLogs:
    limits = LogLimits(attempt_bytes=services.settings.log_attempt_bytes_max)
    logs = Logs(database=services.database, depot=services.payloads.depot, limits=limits)
    return WorkerLogs(logs=logs, tokens=tokens)


def _make_sweeper(services: Services) -> Sweeper:
    kept = timedelta(days=services.settings.log_retention_days)
    return Sweeper(database=services.database, sweeps=(*SWEEPS, sweep_after(kept)))


def make_counter(settings: Settings, database: Database) -> Counter:
    """Make what counts requests; a bucket whose setting is 0 limits nothing."""
    by_the_minute = {
        Bucket.ADDRESS: settings.rate_address,
        Bucket.FAILED: settings.rate_failed,
        Bucket.TENANT: settings.rate_tenant,
        Bucket.TOKEN: settings.rate_token,
        Bucket.WORKER: settings.rate_worker,
    }
    allowances = {bucket: allowance_of(bucket, rate) for bucket, rate in by_the_minute.items() if rate}
    limits = RateLimits(allowances, rates.DatabaseDraw(database))
    return Counter(limits, trusted=settings.trusted_proxies, tally=Tally(rates.DatabaseTally(database)))


def _usual_limits(settings: Settings) -> dict[Limit, int]:
    """Return the limits whose usual value is a setting; a rate of 0 is none."""
    rate = {Limit.REQUESTS: settings.rate_tenant} if settings.rate_tenant else {}
    return {Limit.PAYLOAD_BYTES: settings.payload_tenant_bytes_max, **rate}


def _identity_limits(settings: Settings) -> IdentityLimits:
    """Return how long things last; a revocation outlives every token that it can be about."""
    lives = [settings.token_seconds_max, settings.service_token_seconds_max, settings.session_seconds_max]
    longest = max([*lives, *(issuer.token_seconds_max for issuer in settings.issuers)])
    return IdentityLimits(
        service_token_most=timedelta(seconds=settings.service_token_seconds_max),
        revocation_keep=timedelta(seconds=longest) + timedelta(minutes=1),
        session_most=timedelta(seconds=settings.session_seconds_max),
        session_idle=timedelta(seconds=settings.session_idle_seconds),
    )


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
        on_ready=_wake_line,
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
        on_ready=_wake_line,
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


async def serve(
    settings: Settings, conninfo: str, *, on_started: OnStarted | None = None, any_port: bool = False
) -> None:
    """Run the roles of the settings until told to stop. `on_started` gets the services and the API's address.

    With `any_port` a port that is taken is replaced by a free one.
    """
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with open_services(settings, conninfo) as services, asyncio.TaskGroup() as tasks:
        listener = tasks.create_task(services.wakeups.listen_forever())  # a defect in it ends the process, as any
        end_api = asyncio.Event()
        url = ""
        if "api" in settings.roles:
            listening = listen(settings.host, settings.port, any_port=any_port)
            url = f"http://{settings.host}:{listening.getsockname()[1]}"
            _start_api(services, tasks, end_api, listening)
            _start_companions(services, tasks, stop)
        if settings.metrics_port is not None:
            _start_metrics(services, tasks, end_api, listen(settings.metrics_host, settings.metrics_port))
        for name in settings.roles:
            if name == "api":
                continue
            role = make_role(name, services)
            tasks.create_task(run_role(role, services.database, services.wakeups, stop))
            if isinstance(role, Caller):
                tasks.create_task(run_role(_sightings(services, role), services.database, services.wakeups, stop))
        companion = tasks.create_task(on_started(services, url)) if on_started else None
        _spare_the_collector()
        log.info("server.started", url=url, roles=list(settings.roles))
        await stop.wait()
        if companion is not None:  # what uses the API ends before it
            companion.cancel()
            await asyncio.wait({companion}, timeout=SHUTDOWN_SECONDS)
        end_api.set()
        listener.cancel()
    log.info("server.stopped")


def _start_api(services: Services, tasks: asyncio.TaskGroup, end: asyncio.Event, listening: socket.socket) -> None:
    app = make_app(services)
    resolve_routes(app)

    def send_home() -> None:
        services.lines.close()
        app.state.followers.close()
        services.streams.close()
        app.state.plane.refusals.flush_soon()

    start_server(app, tasks, end, listening, before_end=send_home)


def _sightings(services: Services, askers: Askers) -> Sightings:
    return Sightings(database=services.database, lines=askers, server_id=clock.new_id(clock.process_now()))


def _start_metrics(services: Services, tasks: asyncio.TaskGroup, end: asyncio.Event, listening: socket.socket) -> None:
    async def answer(request: Request) -> Response:
        body, media_type = await collect_metrics(services.database, accept=request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media_type})

    app = Starlette(routes=[Route("/metrics", answer)])
    log.info("metrics.started", port=listening.getsockname()[1])
    start_server(app, tasks, end, listening, before_end=lambda: None)


def _start_companions(services: Services, tasks: asyncio.TaskGroup, stop: asyncio.Event) -> None:
    """Run what belongs to every process that serves the API."""
    sightings = _sightings(services, services.lines)
    tasks.create_task(run_role(sightings, services.database, services.wakeups, stop))
    tasks.create_task(run_feed(services.streams, services.wakeups, stop))


def _spare_the_collector() -> None:
    """Look for garbage cycles less often, and never among what lives as long as the process.

    A batch makes thousands of objects that no cycle holds; with the defaults the search was a third of the API's CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _wake_line(conn: Connection, tenant_id: UUID, queue: str) -> None:
    """Wake whoever serves a queue."""
    await notify(conn, [line_topic(tenant_id, queue)])
