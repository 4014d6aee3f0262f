"""The composition, by hand: what the server is made of, and how it starts and stops.

Start: settings → zones from `tzdata` only → the schema fits → pools → the listener → the roles, each in its own task.
Stop (SIGINT, SIGTERM, or a role that ends by a defect): claims that wait are sent home, the API finishes what it has
begun, roles end after their tick, the pools close. A second signal ends the process at once.
"""

import asyncio
import gc
import hashlib
import socket
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

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
from everwhen.alerts.assembling import make_kit
from everwhen.alerts.texts import api as alert_templates_api
from everwhen.audit import api as audit_api
from everwhen.calendars import api as calendars_api
from everwhen.config import Settings
from everwhen.core.quotas import Limit
from everwhen.dead_letters import api as dead_letters_api
from everwhen.declarations import api as declarations_api
from everwhen.dispatch.api import BODY_FACTOR, WorkerApi, WorkerLimits
from everwhen.dispatch.brokers.mailboxes import Mailboxes
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.endpoints import api as endpoints_api
from everwhen.endpoints.caller import Caller
from everwhen.endpoints.service import EndpointsDesk
from everwhen.errors import ConfigurationError
from everwhen.explaining import api as explaining_api
from everwhen.explaining.sightings import Askers, Sightings
from everwhen.fleets import api as fleets_api
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
from everwhen.limits import rates
from everwhen.logs import api as logs_api
from everwhen.logs.following import Followers
from everwhen.logs.model import LogLimits
from everwhen.logs.service import Logs
from everwhen.logs.worker_api import WorkerLogs
from everwhen.operations import api as operations_api
from everwhen.pauses import api as pauses_api
from everwhen.payloads import api as payloads_api
from everwhen.payloads import upload_api
from everwhen.payloads.worker_api import WorkerPayloads
from everwhen.postgres.pool import Database
from everwhen.queues import api as queues_api
from everwhen.role_makers import make_role
from everwhen.role_running import run_role
from everwhen.runs import api as runs_api
from everwhen.schedules import ahead_api, catchup_api, tz_api
from everwhen.schedules import api as schedules_api
from everwhen.sentinel import api as sentinel_api
from everwhen.sentinel.service import collect_metrics
from everwhen.services import Services, open_services, wake_line
from everwhen.serving import SHUTDOWN_SECONDS, listen, start_server, stop_on_signals
from everwhen.streaming import api as streaming_api
from everwhen.streaming.feed import run_feed
from everwhen.task_service import api as task_service_api
from everwhen.task_service import form_api as task_forms_api
from everwhen.tasks import api as tasks_api
from everwhen.tenants import api as tenants_api
from everwhen.tenants import service as tenants
from everwhen.workflows import api as workflows_api
from everwhen.workflows import runs_api as workflow_runs_api

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

log = structlog.get_logger("everwhen.app")

OnStarted = Callable[["Services", str], Coroutine[Any, Any, None]]


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
        on_ready=wake_line,
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
    settings = services.settings
    limits = LogLimits(attempt_bytes=settings.log_attempt_bytes_max, tenant_bytes=settings.log_tenant_bytes_max)
    logs = Logs(database=services.database, depot=services.payloads.depot, limits=limits)
    return WorkerLogs(logs=logs, tokens=tokens)


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
    return {
        Limit.LOG_BYTES: settings.log_tenant_bytes_max,
        Limit.PAYLOAD_BYTES: settings.payload_tenant_bytes_max,
        **rate,
    }


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
