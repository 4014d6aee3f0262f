# pyright: reportArgumentType=false, reportCallIssue=false
"""Three walls between tenants (keys, row-level security, WHERE clauses), each proven with the next one taken down.

Every operation of the document is called by tenant B: on tenant A's path, and on its own path with A's names and ids.
What it hears must be, byte for byte, what it hears for a tenant, a name or an id that nobody has; and nothing of A's
may have changed. test_matrix.py does that for every role, with the walls up; here it is done without row-level
security, without the WHERE clauses, and without both, where the leak must be found: a check that cannot fail proves
nothing.
"""

import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from unittest.mock import Mock

import psycopg
import pytest
from obstore.store import MemoryStore

from everwhen.alerts import store as alerts_store
from everwhen.alerts.reading import store as alerts_reading_store
from everwhen.alerts.texts import service as alert_templates
from everwhen.alerts.texts import store as alert_templates_store
from everwhen.alerts.texts.parts import Part
from everwhen.audit import service as audit
from everwhen.audit import store as audit_store
from everwhen.audit.model import Actor, Deed
from everwhen.calendars import service as calendars
from everwhen.calendars import store as calendars_store
from everwhen.calendars.model import CalendarDraft
from everwhen.core.calendars import Definition
from everwhen.core.lifecycle import RunState
from everwhen.dead_letters import store as dead_letters_store
from everwhen.endpoints import service as endpoints
from everwhen.endpoints import store as endpoints_store
from everwhen.endpoints.model import EndpointDraft
from everwhen.endpoints.service import EndpointsDesk
from everwhen.explaining import store as explaining_store
from everwhen.fleets import service as fleets
from everwhen.fleets import store as fleets_store
from everwhen.fleets.model import Announced
from everwhen.http import edge
from everwhen.identity import service as identity
from everwhen.identity import store as identity_store
from everwhen.identity.model import TokenWish
from everwhen.limits import store as limits_store
from everwhen.logs import store as logs_store
from everwhen.logs.service import Logs
from everwhen.operations import store as operations_store
from everwhen.overlap import store as overlap_store
from everwhen.pauses import store as pauses_store
from everwhen.payloads import store as payloads_store
from everwhen.payloads.depot import Depot
from everwhen.payloads.service import Payloads
from everwhen.postgres.pool import Database, PoolLimits
from everwhen.queues import store as queues_store
from everwhen.revisions import NONE
from everwhen.runs import store as runs_store
from everwhen.runs.listing import store as listing_store
from everwhen.schedules import store as schedules_store
from everwhen.streaming import store as streaming_store
from everwhen.streaming.hub import Hub
from everwhen.targets import store as targets_store
from everwhen.tasks import store as tasks_store
from everwhen.tenants import store as tenants_store
from everwhen.workflows import store as workflows_store
from everwhen.workflows.catalogue import store as catalogue_store
from everwhen.workflows.listing import store as workflow_listing_store
from tests.alerts.scene import PlainSealer
from tests.contracts.alerts import KIT, Alerts, furnish_alerts
from tests.egress.guarded import egress
from tests.factories import make_run, make_schedule, make_task, make_tenant
from tests.logs.scene import make_writer
from tests.operations.scene import begin, redrive
from tests.payloads.scene import put
from tests.people import app_on, client_of, token_of
from tests.tzif import archive
from tests.workflows.scene import Scene

# Every operation is called several times over, and there are more of them with each feature.
pytestmark = pytest.mark.timeout(300)

STORES = (
    tenants_store,
    audit_store,
    targets_store,
    tasks_store,
    calendars_store,
    schedules_store,
    explaining_store,
    fleets_store,
    identity_store,
    limits_store,
    logs_store,
    runs_store,
    listing_store,
    dead_letters_store,
    operations_store,
    overlap_store,
    pauses_store,
    payloads_store,
    queues_store,
    workflows_store,
    catalogue_store,
    workflow_listing_store,
    alerts_store,
    endpoints_store,
    alerts_reading_store,
    alert_templates_store,
    streaming_store,
)
ENDLESS = {"stream_events", "stream_run_events"}
"""What goes on for ever unless it is told not to follow."""

CANARY = "linnet"  # no word of the API
KEYS = map(str, count())
RANGE = {"from": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00Z"}
ENDPOINT_SECRET = "whsec_" + "bmJi" * 8
CRON = {"kind": "cron", "expr": "30 2 * * *"}
# In an order in which they succeed one after the other on one's own things; {} is the task, name or id in question.
BODIES = {
    "get_tenant": None,
    "get_limits": None,
    "get_usage": None,
    "list_members": None,
    "get_member": None,
    "put_member": {"roles": ["viewer"]},
    "list_tokens": None,
    "get_token": None,
    "create_token": {"name": "made", "roles": ["viewer"]},
    "renew_token": {},
    "create_revocation": {"token_id": "made", "reason": "why"},
    "list_revocations": None,
    "list_tasks": None,
    "get_task": None,
    "list_alert_templates": None,
    "get_alert_template": None,
    "preview_alert_template": {"kind": "run.dead"},
    "put_alert_template": {"source": "{{ tenant }}"},
    "create_alert_channel": {"name": "made", "kind": "email", "configuration": {"to": ["made@ops.test"]}},
    "list_alert_channels": None,
    "get_alert_channel": None,
    "update_alert_channel": {"kind": "email", "configuration": {"to": ["{address}", "{unsubscribed}"]}},
    "verify_alert_channel": {"code": "{code}"},
    "resubscribe_alert_receiver": {"recipient": "{unsubscribed}"},
    "send_alert_test": {"recipient": "{unsubscribed}"},
    "disable_alert_channel": {"reason": "why"},
    "enable_alert_channel": None,
    "create_alert_subscription": {"name": "made", "kinds": ["run.late"], "channels": ["{channel}"]},
    "list_alert_subscriptions": None,
    "get_alert_subscription": None,
    "preview_alert_subscription": {"kinds": ["run.dead"], "channels": ["{channel}"]},
    "update_alert_subscription": {"kinds": ["run.late"], "channels": ["{channel}"]},
    "list_alert_deliveries": None,
    "get_alert_delivery": None,
    "resend_alert_delivery": None,
    "list_calendars": None,
    "get_calendar": None,
    "list_versions": None,
    "get_version": None,
    "get_year": None,
    "list_queues": None,
    "get_queue": None,
    "get_queue_share": None,
    "list_schedules": None,
    "get_schedule": None,
    "list_revisions": None,
    "preview_schedule": None,
    "preview_timing": {"trigger": CRON},
    "forecast_tenant": None,
    "draw_forecast": None,
    "smooth_schedules": None,
    "get_tz": None,
    "review_tz": {"archive": archive()},
    "list_runs": None,
    "get_run": None,
    "explain_run": None,
    "list_events": None,
    "stream_events": None,
    "stream_run_events": None,
    "list_attempts": None,
    "get_attempt_logs": None,
    "list_workflows": None,
    "get_workflow": None,
    "list_workflow_versions": None,
    "get_workflow_version": None,
    "validate_workflow": {"definition": {"nodes": [{"id": "a", "task": "{}"}]}},
    "list_workflow_runs": None,
    "get_workflow_run": None,
    "explain_node": None,
    "draw_workflow_run": None,
    "list_instances": None,
    "create_workflow": {"name": "made", "definition": {"nodes": [{"id": "a", "task": "{}"}]}},
    "replace_workflow": {"definition": {"nodes": [{"id": "b", "task": "{}"}]}},
    "rerun_workflow_run": {"nodes": ["a"]},
    "cancel_workflow_run": {},
    "list_payloads": None,
    "get_payload": None,
    "get_payload_content": None,
    "upload_payload": {"content": "{}"},
    "list_declarations": None,
    "plan_declarations": {
        "owner": "git",
        "adopt": True,
        "absent": [{"kind": "Calendar", "name": "{calendar}"}],
        "documents": [{"kind": "Schedule", "name": "{schedule}", "spec": {"task": "{}", "trigger": CRON}}],
    },
    "create_task": {"name": "{}-2"},
    "update_task": {"priority": 1},
    "replace_task": {"priority": 2},
    "create_calendar": {"name": "made", "definition": {}},
    "replace_calendar": {"definition": {"week": ["mon"]}},
    "replace_queue": {"max_in_flight": 5},
    "create_schedule": {"name": "made", "task": "{}", "trigger": CRON},
    "update_schedule": {"priority": 1},
    "replace_schedule": {"task": "{}", "trigger": CRON, "priority": 2},
    "pause_schedule": {"reason": "why"},
    "resume_schedule": {},
    "list_catch_ups": None,
    "preview_catch_up": {},
    "release_schedule": {},
    "pause_queue": {"reason": "why"},
    "pause_tenant": {"reason": "why"},
    "list_pauses": None,
    "list_pause_changes": None,
    "resume_queue": {},
    "resume_tenant": {},
    "list_workers": None,
    "get_worker": None,
    "drain_worker": {"reason": "why", "exit": True},
    "cordon_worker": {"reason": "why"},
    "uncordon_worker": None,
    "list_findings": None,
    "list_audit": None,
    "get_audit_event": None,
    "get_punctuality": None,
    "set_objective": {"objective_seconds": 5},
    "request_run": {"task": "{}"},
    "cancel_run": {},
    "list_dead_letters": None,
    "list_dead_runs": None,
    "put_endpoint": {"url": "https://example.com/", "secrets": {"secret": ENDPOINT_SECRET}},
    "get_endpoint": None,
    "send_endpoint_test": None,
    "dismiss_run": {"reason": "why"},
    "restore_run": {},
    "redrive_run": {"reason": "why"},
    "dismiss_dead_letters": {"reason": "why"},
    "plan_operation": {"kind": "backfill", "backfill": {"schedule": "{schedule}", **RANGE}},
    "create_operation": {"kind": "redrive", "filter": "task:{}", "reason": "why"},
    "list_operations": None,
    "get_operation": None,
    "list_operation_items": None,
    "pause_operation": {},
    "resume_operation": {},
    "abort_operation": {"reason": "why"},
    "delete_endpoint": None,
    "delete_schedule": None,
    "delete_calendar": None,
    "delete_task": None,
    "delete_workflow": None,
    "delete_queue": None,
    "delete_alert_template": None,
    "delete_alert_subscription": None,
    "delete_alert_channel": None,
    "delete_payload": None,
    "revoke_token": None,
    "remove_member": None,
}
# What these are about must not be in use: the name, after that of what is.
UNUSED = {"delete_task": "-2", "delete_workflow": "-spare"}
# These name nothing that exists already, so B may do them on its own path with any name.
NAMELESS = {
    "list_members", "put_member", "list_tokens", "create_token", "create_revocation", "list_revocations",
    "list_calendars", "create_calendar",
    "list_alert_templates", "get_alert_template", "preview_alert_template", "put_alert_template",
    "delete_alert_template",
    "create_alert_channel", "list_alert_channels", "list_alert_subscriptions", "preview_alert_subscription",
    "list_alert_deliveries",
    "get_limits", "get_usage",
    "list_queues", "replace_queue",
    "get_tenant", "list_tasks", "list_schedules", "preview_timing", "list_runs", "create_task", "forecast_tenant",
    "draw_forecast", "smooth_schedules", "get_tz", "review_tz",
    "list_dead_letters", "list_dead_runs", "dismiss_dead_letters", "create_operation", "list_operations",
    "pause_tenant", "resume_tenant", "list_pauses", "list_pause_changes",
    "list_workers", "stream_events",
    "list_findings", "list_audit",
    "list_declarations", "plan_declarations", "list_workflows", "list_workflow_runs", "list_payloads", "upload_payload",
}  # fmt: skip
# These are about no tenant at all.
PLATFORM = {
    # The tenant of these is the token's: tests/task_service proves them.
    "post_service_task",
    "change_service_task",
    "get_service_task",
    "delete_service_task",
    "set_service_task_status",
    "list_service_tasks",
    "create_platform_revocation",
    "list_platform_revocations",
    "list_shared_workers",
    "get_shared_worker",
    "drain_shared_worker",
    "cordon_shared_worker",
    "uncordon_shared_worker",
    "get_me",
    "begin_session",
    "get_session",
    "end_session",
    "create_tenant",
    "list_tenants",
    "update_limits",
    "set_queue_share",
    "forecast_all",
    "list_platform_audit",
    "get_platform_audit_event",
    "list_all_findings",
    "get_metrics",
    "list_reasons",
    "live",
    "ready",
}


@dataclass(frozen=True)
class Things:
    """What one tenant has, by name; of strangers' names nothing exists."""

    tenant: str
    task: str
    schedule: str
    run: str
    calendar: str
    dead: str
    logged: str
    operation: str
    queue: str
    workflow: str
    workflow_run: str
    waiting_workflow_run: str
    payload: str
    token: str
    member: str
    event: str
    worker: str
    alerts: Alerts
    place: str = "1"
    """In streams, before anything happened to anybody."""

    @property
    def names(self) -> dict[str, str]:
        """All of them, each by what it is."""
        return {key: value for key, value in vars(self).items() if key not in {"alerts", "place"}} | vars(self.alerts)


NOBODY = Things(
    tenant="nobody",
    task="no-task",
    schedule="no-schedule",
    run=str(uuid.UUID(int=5)),
    calendar="no-calendar",
    dead=str(uuid.UUID(int=6)),
    logged=str(uuid.UUID(int=13)),
    operation=str(uuid.UUID(int=7)),
    queue="no-queue",
    workflow="no-workflow",
    workflow_run=str(uuid.UUID(int=8)),
    waiting_workflow_run=str(uuid.UUID(int=9)),
    payload=f"sha256:{0:064}",
    token=str(uuid.UUID(int=10)),
    member="login:nobody",
    event=str(uuid.UUID(int=12)),
    worker=str(uuid.UUID(int=13)),
    alerts=Alerts(
        channel="no-channel",
        unused_channel="no-unused",
        address="nobody@ops.test",
        code="no-code",
        unsubscribed="nobody@gone.test",
        subscription="no-subscription",
        delivery=str(uuid.UUID(int=11)),
    ),
)
ABOUT_DEAD_RUNS = {"dismiss_run", "restore_run", "redrive_run"}


DEPOT = Depot(MemoryStore())


def app_with_payloads(db: Database):
    """The application, with the depot that the tenants' payloads are in, and what their channels are made of."""
    app = app_on(db, payloads=Payloads.on(db, DEPOT))
    app.state.alerts = KIT
    app.state.endpoints = endpoints_desk(db)
    return app


async def furnish(db: Database, *, name: str):
    place = await first_place(db)
    tenant = await make_tenant(db, name=name)
    await make_task(db, tenant, name=f"{name}-task", queue=f"{name}-queue")
    await make_schedule(db, tenant, name=f"{name}-schedule", task=f"{name}-task", input={"secret": name})
    draft = CalendarDraft(definition=Definition(), changed_by=name, reason=name)
    await calendars.create_calendar(db, tenant_id=tenant.id, name=f"{name}-calendar", draft=draft)
    await alert_templates.put_template(
        db, tenant_id=tenant.id, kind="run.dead", part=Part.TEXT, source=name, updated_by=name
    )
    run = await make_run(db, tenant, state=RunState.WAITING, input={"secret": name})
    ended, waiting = await furnish_workflow(db, tenant, name=name)
    logged = await log_of(db, tenant, name)
    things = Things(
        tenant=name,
        task=f"{name}-task",
        schedule=f"{name}-schedule",
        run=str(run.row.run_id),
        calendar=f"{name}-calendar",
        dead=str((await make_run(db, tenant, state=RunState.DEAD, input={"secret": name})).row.run_id),
        logged=logged,
        operation=str((await begin(db, tenant, redrive("reason:attempt.failed"))).id),
        queue=f"{name}-queue",
        workflow=f"{name}-workflow",
        workflow_run=ended,
        waiting_workflow_run=waiting,
        payload=(await put(Payloads.on(db, DEPOT), tenant, name.encode())).digest,
        token=await furnish_token(db, tenant, name=name),
        member=f"login:{name}",
        event=await furnish_event(db, tenant, name=name),
        worker=await furnish_worker(db, tenant, name=name),
        alerts=await furnish_alerts(db, tenant, name=name),
        place=place,
    )
    await furnish_endpoint(db, tenant, name=name)
    return tenant, things


async def first_place(db: Database) -> str:
    """The first cut, which is made if there is none."""
    await Hub(db).look()
    async with db.system() as conn:
        cursor = await conn.execute("select min(cut) from everwhen.cuts")
        [first] = await cursor.fetchone()
        return str(first)


def filled(value, things: Things):
    """A body with the names in their places."""
    if isinstance(value, dict):
        return {key: filled(inner, things) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, things) for inner in value]
    if isinstance(value, str):
        for name, text in things.names.items():
            value = value.replace(f"{{{name}}}", text)
        return value.replace("{}", things.task)
    return value


async def planned(client, path: str, body):
    """The body with the token of its plan, where it can be planned."""
    answer = await client.post(f"{path}/plan", json={key: body[key] for key in ("kind", "filter")})
    return body | {"plan_token": answer.json().get("plan_token", "none")}


async def furnish_endpoint(db: Database, tenant, *, name: str) -> None:
    """Have a queue's runs posted; nobody calls it here."""
    draft = EndpointDraft(url=f"https://{name}.test/", secrets={"secret": ENDPOINT_SECRET})
    await endpoints.put_endpoint(
        endpoints_desk(db), tenant_id=tenant.id, queue=f"{name}-queue", draft=draft, by=name, expected=NONE
    )


def endpoints_desk(db: Database) -> EndpointsDesk:
    """What endpoints are managed by."""
    return EndpointsDesk(database=db, sealer=PlainSealer(), policy=egress().policy)


async def log_of(db: Database, tenant, name: str) -> str:
    """A run with an attempt that printed the tenant's name; return the run's id."""
    writer = await make_writer(db, tenant, name=f"{name}-printing")
    await Logs(database=db, depot=DEPOT).append(writer, 0, name.encode())
    return str(writer.run_id)


async def furnish_token(db: Database, tenant, *, name: str) -> str:
    """A service token and a member; return the token's id."""
    wish = TokenWish(name=f"{name}-token", roles=["viewer"], queues=None, tasks=None, by=name)
    made, _ = await identity.create_token(db, tenant_id=tenant.id, wish=wish, lifetime=timedelta(hours=1))
    await identity.put_member(db, tenant_id=tenant.id, subject=f"login:{name}", roles=["viewer"], by=name)
    return str(made.token_id)


async def furnish_event(db: Database, tenant, *, name: str) -> str:
    """An event of the audit; return its id."""
    deed = Deed(operation="create_task", resource=f"tasks/{name}-task", after={"name": f"{name}-task"})
    async with db.tenant(tenant.id) as conn:
        return str(await audit.record(conn, tenant_id=tenant.id, actor=Actor(subject=name), deed=deed))


async def furnish_worker(db: Database, tenant, *, name: str) -> str:
    """A worker that has announced itself, of the platform without a tenant; return its id."""
    said = Announced(
        instance=uuid.uuid5(uuid.NAMESPACE_URL, name),
        name=f"{name}-worker",
        sdk=None,
        version=None,
        host=f"{name}-host",
        pid=None,
        slots=1,
        tasks=[f"{name}-task"],
        queues=[f"{name}-queue"],
        labels={"of": name},
        resources={},
    )
    return str((await fleets.announce(db, tenant_id=tenant and tenant.id, said=said)).worker_id)


async def furnish_workflow(db: Database, tenant, *, name: str) -> tuple[str, str]:
    """A workflow with a run that has ended, and can be run again, and one that waits; return their ids."""
    scene = Scene(db=db, tenant=tenant)
    each = {"items": [name], "max_parallel": 1}
    await scene.define({"id": "a", "task": f"{name}-task", "each": each, "queue": name}, name=f"{name}-workflow")
    await scene.define({"id": "a", "task": f"{name}-task"}, name=f"{name}-workflow-spare")
    run = await scene.run(f"{name}-workflow", input={"secret": name})
    await scene.work(queues=[name])
    return run, await scene.run(f"{name}-workflow", input={"secret": name})


def operations(app):
    found = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }
    assert set(found) == set(BODIES) | PLATFORM, "every operation needs a case here"
    return {name: found[name] for name in BODIES}


def run_about(operation: str, path: str, things: Things) -> str:
    if "/workflow-runs" in path:
        return things.waiting_workflow_run if operation == "cancel_workflow_run" else things.workflow_run
    if operation == "get_attempt_logs":
        return things.logged
    return things.dead if operation in ABOUT_DEAD_RUNS else things.run


async def call(client, operation: str, method: str, path: str, *, tenant: str, things: Things, key: str | None = None):
    """Return status and body, with the names that were asked for blotted out."""
    targets = {"/tasks": things.task, "/calendars": things.calendar, "/workflows": things.workflow}
    target = next((name for part, name in targets.items() if part in path), things.schedule)
    target += UNUSED.get(operation, "")
    ids = {
        "run": run_about(operation, path, things),
        "attempt": "latest",
        "operation": things.operation,
        "queue": things.queue,
        "node": "a",
        "kind": "run.dead",
        "part": "text",
        "digest": things.payload,
        "token": things.token,
        "event": things.event,
        "worker": things.worker,
        "subject": things.member,
        "channel": things.alerts.unused_channel if operation == "delete_alert_channel" else things.alerts.channel,
        "subscription": things.alerts.subscription,
        "delivery": things.alerts.delivery,
    }
    url = path.format(tenant=tenant, name=target, version=1, year=2027, fingerprint="none", **ids)
    body = filled(BODIES[operation], things)
    if operation == "create_operation":
        body = await planned(client, url, body)
    query = {"follow": "false", "after": things.place} if operation in ENDLESS else None
    answer = await client.request(
        method, url, json=body, params=query, headers={"Request-Id": "fixed", "Idempotency-Key": key or next(KEYS)}
    )
    text = answer.text
    for name in sorted(things.names.values(), key=len, reverse=True):
        text = text.replace(name, "*")
    return answer.status_code, text


async def leaks(db: Database, server, name: str, *, only: frozenset[str] | None = None) -> list[str]:
    """Where tenant B hears or does anything of tenant A's, by every operation, or by `only` these."""
    _, canary = await furnish(db, name=CANARY)
    other, own = await furnish(db, name="other")
    app = app_with_payloads(db)
    asked = {each: how for each, how in operations(app).items() if only is None or each in only}
    before, found = rows_of(server, name), []
    async with client_of(app, token_of("admin", tenant_id=other.id)) as client:
        for operation, (method, path) in asked.items():
            found += await differences(client, operation, method, path, canary=canary, own=own)
    if rows_of(server, name) != before:
        found.append("rows of the other tenant have changed")
    async with client_of(app, token_of("admin", tenant_id=other.id)) as client:
        for operation, (method, path) in asked.items():
            status, text = await call(client, operation, method, path, tenant=own.tenant, things=own)
            found += [f"{operation} on one's own: {status} {text}"] if status >= 400 else []
            found += [f"{operation} on one's own tells of the other"] if CANARY in text else []
    return found


async def differences(client, operation, method, path, *, canary, own):
    found = []
    theirs = await call(client, operation, method, path, tenant=canary.tenant, things=canary)
    nobodys = await call(client, operation, method, path, tenant=NOBODY.tenant, things=NOBODY)
    if theirs != nobodys or theirs[0] != 404:
        found.append(f"{operation} on the other's path: {theirs} but {nobodys}")
    if operation in NAMELESS:
        return found
    theirs = await call(client, operation, method, path, tenant=own.tenant, things=canary)
    nobodys = await call(client, operation, method, path, tenant=own.tenant, things=NOBODY)
    if theirs != nobodys or theirs[0] not in {404, 422}:
        found.append(f"{operation} by the other's name: {theirs} but {nobodys}")
    return found


def rows_of(server, name: str) -> dict[str, list]:
    """Every row of tenant A, as text, table by table."""
    with psycopg.connect(server.superuser(name), autocommit=True) as conn:
        tables = [
            row[0]
            for row in conn.execute(
                "select attrelid::regclass::text from pg_attribute join pg_class c on c.oid = attrelid"
                " where attname = 'tenant_id' and relnamespace = 'everwhen'::regnamespace and relkind in ('r', 'p')"
                " and not relispartition order by 1"
            )
        ]
        query = (
            "select t::text from {} t where tenant_id = (select id from everwhen.tenants where name = %s) order by 1"
        )
        return {table: conn.execute(query.format(table).encode(), (CANARY,)).fetchall() for table in tables}


def without_row_security(server, name: str) -> None:
    with psycopg.connect(server.superuser(name), autocommit=True) as conn:
        tables = conn.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'everwhen'::regnamespace and relkind in ('r', 'p') and relrowsecurity"
        ).fetchall()
        for (table,) in tables:
            conn.execute(f"alter table {table} disable row level security, no force row level security".encode())


def without_where(monkeypatch, stores=STORES, *, at_least=30) -> None:
    """Make every condition on the tenant true, and keep its parameter."""
    condition = re.compile(r"\b(?:\w+\.)?(?:tenant_)?id = %\(tenant_id\)s")
    changed = 0
    for store in stores:
        queries = {}
        for name, text in store._SQL._queries.items():
            queries[name], times = condition.subn("%(tenant_id)s::uuid is not null", text)
            changed += times
        monkeypatch.setattr(store._SQL, "_queries", queries)
    assert changed >= at_least, "the conditions are written otherwise now: mend the pattern"


@pytest.fixture
async def scratch(server, fresh_database):
    async with await Database.open(server.app(fresh_database), limits=PoolLimits(min_size=1, max_size=4)) as opened:
        yield opened


async def test_the_where_clauses_hold_without_row_security(scratch, server, fresh_database):
    without_row_security(server, fresh_database)

    assert await leaks(scratch, server, fresh_database) == []


async def test_row_security_holds_without_the_where_clauses(scratch, server, fresh_database, monkeypatch):
    without_where(monkeypatch)

    assert await leaks(scratch, server, fresh_database) == []


async def test_without_both_the_leak_is_found(scratch, server, fresh_database, monkeypatch):
    without_row_security(server, fresh_database)
    # Without the first nobody gets in at all; without the second a count is everybody's, and nothing can be uploaded.
    without_where(monkeypatch, [store for store in STORES if store not in {tenants_store, payloads_store}])
    # What only foreign keys stop by then answers 500, and each trace of one would take half a minute to print.
    monkeypatch.setattr(edge, "log", Mock())

    # Three kinds of leak are enough to see that what finds none above would have found some.
    found = await leaks(
        scratch, server, fresh_database, only=frozenset({"list_tasks", "get_schedule", "pause_schedule"})
    )

    assert any("list_tasks on one's own tells of the other" in leak for leak in found)
    assert any("get_schedule by the other's name" in leak for leak in found)
    assert "rows of the other tenant have changed" in found


@pytest.mark.parametrize("role", ["viewer", "operator", "editor", "admin", "worker"])
async def test_only_the_platform_makes_and_lists_tenants(database, role):
    tenant = await make_tenant(database)
    app = app_with_payloads(database)
    for tenant_id in (tenant.id, None):
        async with client_of(app, token_of(role, tenant_id=tenant_id)) as client:
            assert (await client.post("/v1/tenants", json={"name": "x"})).status_code == 403
            assert (await client.get("/v1/tenants")).status_code == 403


async def test_a_tenants_token_with_the_role_platform_is_still_a_tenants_token(database):
    tenant, other = await make_tenant(database), await make_tenant(database)
    async with client_of(app_on(database), token_of("platform", "admin", tenant_id=tenant.id)) as client:
        assert (await client.get("/v1/tenants")).status_code == 403
        assert (await client.get(f"/v1/tenants/{other.name}")).status_code == 404


async def test_a_token_without_a_tenant_needs_the_role_platform_to_look_into_one(database):
    tenant = await make_tenant(database)
    async with client_of(app_on(database), token_of("admin")) as client:
        known = await client.get(f"/v1/tenants/{tenant.name}", headers={"Request-Id": "x"})
        unknown = await client.get("/v1/tenants/nobody", headers={"Request-Id": "x"})

    assert known.status_code == unknown.status_code == 403
    assert known.content == unknown.content


async def test_a_token_of_a_tenant_that_is_gone_finds_nothing(database):
    tenant = await make_tenant(database)
    async with client_of(app_on(database), token_of("admin", tenant_id=uuid.UUID(int=5))) as client:
        assert (await client.get(f"/v1/tenants/{tenant.name}/tasks")).status_code == 404
