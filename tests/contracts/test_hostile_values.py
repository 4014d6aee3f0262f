"""Every operation, with a nasty value in every place: no server error, no status that the document does not name."""

import itertools
import json
from datetime import timedelta
from urllib.parse import quote

import pytest

from everwhen.alerts import service as alerts
from everwhen.alerts import subscribing
from everwhen.alerts.channels.webhook.kind import Webhook
from everwhen.alerts.model import ChannelDraft, SubscriptionDraft
from everwhen.alerts.service import AlertsDesk, Kit
from everwhen.calendars import service as calendars
from everwhen.calendars.model import CalendarDraft
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.calendars import Definition
from everwhen.endpoints.service import EndpointsDesk
from everwhen.identity import service as identity
from everwhen.identity.model import TokenWish
from tests.alerts.scene import SIGNER, PlainSealer
from tests.contracts.openapi_snapshot import app_for_its_document
from tests.contracts.test_isolation import ENDLESS, furnish_event, furnish_worker
from tests.egress.guarded import egress
from tests.factories import make_run, make_schedule, make_task, make_tenant
from tests.operations.scene import begin, redrive
from tests.people import app_on, client_of, token_of

NASTY = [
    None, True, False, 0, -1, 1, 9, 10, 2**31, 2**63 - 1, -(2**63 - 1), 0.5, 1e308, -1e-308, "", " ", "a", "0", "null",
    "\u202e", "\ufeff", "\U0010ffff", "a\x00b", "\r\n", "'; drop table runs; --", "%s%(x)s%", "../..", "{}",
    "*/1 * * * *",
    "P1D", "PT0S", "P9999999999D", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+23:59", "2026-02-30T00:00:00Z",
    "Europe/Berlin", "Etc/GMT+12", "x" * 300, "x" * 70_000, [], [[]], [None] * 10, {}, {"kind": "cron"}, {"": ""},
    {"kind": "every", "every": "PT1S", "anchor": "9999-12-31T23:59:59Z"}, {"kind": "at", "at": "0001-01-01T00:00"},
    {"kind": "cron", "expr": "0 0 29 2 *"}, {"kind": "cron", "expr": "0 0 30 2 *"}, {"policy": "replay"},
]  # fmt: skip
RULE = {
    "policy": "replay", "keep": "latest", "window_seconds": 60, "max_runs": 5, "rate": 1.5, "order": "newest_first",
    "priority": None, "priority_offset": -1,
}  # fmt: skip
SCHEDULE = {
    "trigger": {"kind": "cron", "expr": "H 2 * * *", "seconds": False, "dialect": "vixie-ext", "hash_seed": "x"},
    "timezone": "UTC",
    "preset": None,
    "gap": None,
    "fold": None,
    "calendars": None,
    "catch_up": {"policy": "coalesce", "grace_seconds": 60, "window_seconds": None, "on_creation": None},
    "flex": {"mode": "smooth", "window_seconds": 600, "offset_seconds": None},
    "overlap": {"policy": "buffer_all", "max_running": 2, "max_buffered": 5, "on_failure": "continue"},
}
GRAPH = {
    "nodes": [{"id": "a", "task": "report", "each": {"items": [1]}}, {"id": "b", "task": "report", "needs": ["a"]}]
}
DEFINITION = {**SCHEDULE, "pause_after_failures": 3, "task": "report", "input": {}, "priority": None}
CALENDAR = {
    "definition": {"week": {"mon": "open"}, "days": [{"date": "2027-12-25", "hours": "closed", "label": "x"}]},
    "effective_from": "2027-01-01",
    "reason": "why",
}
TASK = {
    "queue": "default",
    "priority": 5,
    "retry": {"max_attempts": 5, "base_seconds": 1, "factor": 2, "cap_seconds": 60, "jitter": "none"},
    "timeout_seconds": None,
    "start_deadline_seconds": None,
}
PLAN = {
    "kind": "backfill",
    "filter": "",
    "backfill": {
        "schedule": "nightly",
        "from": "2026-11-01T00:00:00Z",
        "until": "2026-11-02T00:00:00Z",
        "include": "not_run",
        "only": ["missed"],
        "id": None,
    },
    "order": "oldest",
    "priority": None,
    "overlap": "wait",
    "rate_per_second": 10.5,
    "canary": 1,
    "stop_after_dead": 1,
    "stop_dead_share": 0.5,
}
CHANNEL = {
    "kind": "webhook",
    "configuration": {"url": "https://hooks.test/x", "payload": "thin", "headers": {"x-team": "ops"}},
    "secrets": {"secret": "whsec_" + "bm5u" * 8},
    "window_seconds": 60.0,
    "messages_an_hour": 10,
    "quiet_hours": {"zone": "Europe/Berlin", "begins": "22:00", "ends": "07:00", "days": ["mon"]},
}
SUBSCRIPTION = {
    "kinds": ["run.dead"],
    "channels": ["ops"],
    "scope": "task",
    "target": "report",
    "filter": "task:report",
    "after_failures": 2,
    "pierces": True,
    "enabled": True,
}
REVOCATION = {"token_id": "x", "issued_until": "2026-11-01T00:00:00Z", "reason": "why"}
BODIES = {
    "create_alert_channel": {"name": "ops-2", **CHANNEL},
    "update_alert_channel": CHANNEL,
    "send_alert_test": {"recipient": ""},
    "verify_alert_channel": {"code": "2345-6789"},
    "disable_alert_channel": {"reason": "why"},
    "resubscribe_alert_receiver": {"recipient": ""},
    "create_alert_subscription": {"name": "dead-2", **SUBSCRIPTION},
    "update_alert_subscription": SUBSCRIPTION,
    "preview_alert_subscription": SUBSCRIPTION,
    "put_endpoint": {
        "url": "https://example.com/",
        "headers": {"X-Team": "ops"},
        "answer_seconds": 10.0,
        "accept_seconds": 60.0,
        "secrets": {"secret": "whsec_" + "bmJi" * 8, "authorization": "Bearer t"},
    },
    "put_member": {"roles": ["viewer"]},
    "create_token": {"name": "ci", "roles": ["worker"], "queues": ["q"], "tasks": ["t"], "lifetime_seconds": 60.0},
    "renew_token": {"lifetime_seconds": 60.0, "grace_seconds": 1.0},
    "create_revocation": REVOCATION,
    "create_platform_revocation": REVOCATION,
    "put_alert_template": {"source": "{{ tenant }}"},
    "preview_alert_template": {"kind": "run.dead", "templates": {"subject": "{{ tenant }}"}},
    "create_tenant": {"name": "acme"},
    "plan_declarations": {
        "documents": [{"kind": "Schedule", "name": "x", "spec": DEFINITION}],
        "absent": [{"kind": "Task", "name": "y"}],
        "owner": "git",
        "adopt": True,
        "days": 7,
    },
    "update_limits": {"schedules": 20_000, "requests_per_minute": None, "runs_per_day": 1_000_000},
    "create_task": {"name": "report", **TASK},
    "update_task": TASK,
    "replace_task": {**TASK, "owner": "acme/ops"},
    "create_calendar": {"name": "holidays", **CALENDAR},
    "replace_calendar": {**CALENDAR, "owner": "acme/ops"},
    "replace_queue": {
        "max_in_flight": 5,
        "rate": {"tokens": 5, "per_seconds": 1.5, "burst": None},
        "delivery": "pull",
        "delivery_settings": {},
        "ageing_seconds": 60.0,
        "tags": ["billing"],
        "owner": "acme/ops",
    },
    "set_queue_share": {"weight": 2, "max_in_flight": None},
    "create_schedule": {"name": "nightly", **DEFINITION, "since": None, "paused": "why"},
    "update_schedule": {**DEFINITION, "owner": "acme/ops", "reason": "why"},
    "replace_schedule": {**DEFINITION, "reason": "why"},
    "preview_timing": {**SCHEDULE, "count": 1, "since": "2026-11-01T00:00:00Z"},
    "pause_schedule": {"reason": "why", "until": "2027-01-01T00:00:00Z"},
    "review_tz": {"archive": "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==", "days": 30, "after": None},
    "resume_schedule": {"reason": "why", "catch_up": RULE},
    "preview_catch_up": {"cause": "creation", "since": "2026-11-01T00:00:00Z", "catch_up": RULE},
    "request_run": {"task": "report", "input": {}, "priority": None, "at": None, "overlap": "respect"},
    "release_schedule": {"reason": "why"},
    "pause_queue": {"reason": "why", "until": "2027-01-01T00:00:00Z"},
    "resume_queue": {"reason": "why"},
    **{f"{order}_worker": {"reason": "why"} for order in ("cordon", "uncordon", "cordon_shared", "uncordon_shared")},
    "drain_worker": {"reason": "why", "exit": True},
    "drain_shared_worker": {"reason": "why", "exit": True},
    "pause_tenant": {"reason": "why", "until": None},
    "resume_tenant": {"reason": "why"},
    "set_objective": {"objective_seconds": 5.0},
    "cancel_run": {"reason": "why"},
    "redrive_run": {"reason": "why", "again": True, "input": {}, "priority": None, "overlap": "wait"},
    "dismiss_run": {"reason": "why"},
    "restore_run": {"reason": "why"},
    "dismiss_dead_letters": {"reason": "why"},
    "plan_operation": PLAN,
    "create_operation": {**PLAN, "plan_token": "pln_", "reason": "why"},
    "abort_operation": {"reason": "why", "cancel_runs": True},
    "pause_operation": {"reason": "why"},
    "resume_operation": {"reason": "why"},
    "create_workflow": {"name": "etl", "definition": GRAPH, "reason": "why"},
    "replace_workflow": {"definition": GRAPH, "reason": "why"},
    "validate_workflow": {"name": "etl", "definition": GRAPH},
    "cancel_workflow_run": {"reason": "why"},
    "rerun_workflow_run": {"nodes": [], "reason": "why"},
    "upload_payload": {"any": "content"},
    "post_service_task": {"dedup_id": "x"},
    "change_service_task": {"dedup_id": "x"},
    "set_service_task_status": {"id": "01a22915-06ff-70da-a75e-79f816daceb5", "status": "disable"},
}
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in app_for_its_document().openapi()["paths"].items()
    for method, operation in methods.items()
}
KEYS = map(str, itertools.count())
KIT = Kit(kinds={"webhook": Webhook(egress())}, sealer=PlainSealer(), signer=SIGNER)


def mutations(body):
    """The body with one value replaced, at every depth."""
    yield from NASTY
    for key, value in body.items():
        for nasty in NASTY:
            yield {**body, key: nasty}
        yield {name: kept for name, kept in body.items() if name != key}
        if isinstance(value, dict) and value:
            yield from ({**body, key: inner} for inner in mutations(value) if isinstance(inner, dict))


@pytest.fixture
async def furnished(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    await make_schedule(database, tenant)
    draft = CalendarDraft(definition=Definition(), changed_by="tester")
    await calendars.create_calendar(database, tenant_id=tenant.id, name="nightly", draft=draft)
    run = await make_run(database, tenant)
    operation = await begin(database, tenant, redrive())
    wish = TokenWish(name="ci", roles=["viewer"], queues=None, tasks=None, by="tester")
    token, _ = await identity.create_token(database, tenant_id=tenant.id, wish=wish, lifetime=timedelta(hours=1))
    await identity.put_member(database, tenant_id=tenant.id, subject="login:ada", roles=["viewer"], by="tester")
    return {
        "tenant": "acme",
        "name": "nightly",
        "run": str(run.row.run_id),
        "attempt": "latest",
        "version": "1",
        "year": "2027",
        "fingerprint": "none",
        "node": "a",
        "operation": str(operation.id),
        "queue": "default",
        "kind": "run.dead",
        "part": "text",
        "digest": f"sha256:{0:064}",
        "token": str(token.token_id),
        "worker": await furnish_worker(database, tenant, name="ada"),
        "subject": "login:ada",
        "event": await furnish_event(database, tenant, name="ada"),
        "channel": "ops",
        "subscription": "dead",
        "delivery": await furnish_alerts(database, tenant),
    }


async def furnish_alerts(database, tenant) -> str:
    """A channel and a subscription; return the id of a delivery."""
    draft = ChannelDraft(**{key: CHANNEL[key] for key in ("kind", "configuration", "secrets")})
    desk = AlertsDesk(database=database, kit=KIT)
    await alerts.create_channel(desk, tenant_id=tenant.id, name="ops", draft=draft, by="tester")
    wanted = SubscriptionDraft(kinds=frozenset({AlertKind.RUN_DEAD}), channels=("ops",))
    await subscribing.create_subscription(database, tenant_id=tenant.id, name="dead", draft=wanted, by="tester")
    [delivery] = await alerts.send_tests(database, tenant_id=tenant.id, name="ops")
    return str(delivery)


@pytest.fixture
async def client(database, furnished):
    app = app_on(database)
    app.state.alerts = KIT
    app.state.endpoints = EndpointsDesk(database=database, sealer=PlainSealer(), policy=egress().policy)
    async with client_of(app, token_of("platform", "admin")) as opened:
        yield opened


async def check(answer, operation):
    assert answer.status_code < 500, answer.text
    assert str(answer.status_code) in operation["responses"], (answer.status_code, answer.text)
    if answer.status_code >= 400:
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["code"]
        assert len(answer.content) < 30_000


@pytest.mark.parametrize("name", BODIES)
async def test_no_value_in_a_body_is_too_much(client, furnished, name):
    method, template, operation = OPERATIONS[name]
    path = template.format(**furnished | ({"name": "report"} if "/tasks" in template else {}))
    for body in mutations(BODIES[name]):
        headers = {"Idempotency-Key": next(KEYS), "Content-Type": "application/json"}
        await check(await client.request(method, path, content=json.dumps(body), headers=headers), operation)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_no_value_in_a_path_or_query_is_too_much(client, furnished, name):
    method, template, operation = OPERATIONS[name]
    texts = [value for value in NASTY if isinstance(value, str)]
    for parameter in operation.get("parameters", ()):
        for text in texts:
            where, key = parameter["in"], parameter["name"]
            if where == "path" and ("/" in text or text == ""):
                continue  # another path
            path = template.format(**furnished | ({key: quote(text[:5_000], safe="")} if where == "path" else {}))
            query = {"follow": "false"} if name in ENDLESS else {}
            query |= {key: text[:5_000]} if where == "query" else {}
            headers = {"Idempotency-Key": next(KEYS)}
            if where == "header":
                headers[key] = quote(text[:5_000])
            await check(
                await client.request(method, path, params=query, json=BODIES.get(name), headers=headers), operation
            )


def test_every_operation_with_a_body_has_one_here():
    assert set(BODIES) == {name for name, (_, _, operation) in OPERATIONS.items() if "requestBody" in operation}
