# pyright: reportArgumentType=false, reportCallIssue=false
"""Every list takes the one filter grammar, echoes it, and finds by each of its terms what the items say."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from everwhen.postgres.pool import Database
from tests.contracts.test_plans import DEFINE, NOW, TENANT
from tests.contracts.test_plans_of_lists import LISTS, OF_THE_PLATFORM, path_of, sql
from tests.people import app_on, client_of, token_of

WITHIN_ONE_THING = {
    "list_versions", "list_revisions", "list_catch_ups", "list_events", "list_workflow_versions", "list_instances",
    "get_service_task",
}  # fmt: skip
"""What is listed of one thing, in the order in which it came about."""

OF_THE_TASK_SERVICE = {"list_service_tasks"}
"""An API of its own, as its users know it."""

NOT_YET_SAID = {"list_runs", "list_dead_runs"}
"""Whose terms have tests of their own: which of them go together is decided by what an index serves."""

WORKER = {
    "name": "name", "state": "state", "queue": "queues", "task": "tasks", "label": "labels", "host": "host",
    "version": "version", "seen": "seen_at",
}  # fmt: skip

SAYS: dict[str, dict[str, str]] = {
    "list_tenants": {"created": "created_at"},
    "list_members": {"role": "roles", "by": "added_by", "changed": "changed_at"},
    "list_tokens": {"name": "name", "role": "roles", "state": "state", "by": "created_by", "created": "created_at"},
    "list_revocations": {"kind": "kind", "by": "revoked_by", "revoked": "revoked_at"},
    "list_platform_revocations": {"kind": "kind", "by": "revoked_by", "revoked": "revoked_at"},
    "list_tasks": {"tag": "tags", "queue": "queue", "updated": "updated_at"},
    "list_calendars": {"updated": "updated_at"},
    "list_schedules": {"tag": "tags", "state": "state", "task": "task", "workflow": "workflow"},
    "list_dead_letters": {"task": "tasks", "last": "last_at"},
    "list_operations": {"kind": "kind", "state": "state", "by": "requested_by", "created": "created_at"},
    "list_queues": {"tag": "tags", "owner": "owner", "delivery": "delivery", "updated": "updated_at"},
    "list_operation_items": {"state": "state", "reason": "reason_code"},
    "list_pauses": {"queue": "queue", "by": "paused_by", "paused": "paused_at"},
    "list_pause_changes": {"queue": "queue", "action": "action", "by": "changed_by", "changed": "changed_at"},
    "list_workflows": {"tag": "tags", "updated": "updated_at"},
    "list_workers": WORKER,
    "list_shared_workers": WORKER,
    "list_workflow_runs": {"workflow": "workflow", "state": "state", "source": "source", "due": "due_at"},
    "list_findings": {"kind": "kind", "subject": "subject", "tenant": "tenant", "opened": "opened_at"},
    "list_all_findings": {"kind": "kind", "subject": "subject", "tenant": "tenant", "opened": "opened_at"},
    "list_declarations": {"kind": "kind", "owner": "owner"},
    "list_payloads": {"name": "name", "by": "created_by", "created": "created_at"},
    "list_alert_channels": {"kind": "kind", "state": "state", "by": "created_by"},
    "list_alert_deliveries": {
        "state": "state", "channel": "channel", "recipient": "recipient", "created": "created_at",
    },
    "list_alert_subscriptions": {
        "scope": "scope", "target": "target", "kind": "kinds", "channel": "channels", "enabled": "enabled",
    },
}  # fmt: skip
"""Which field of an item each term is about."""


def terms_of(operation: str) -> set[str]:
    """The fields that a list's document names."""
    described = next((each["description"] for each in LISTS[operation][1] if each["name"] == "filter"), "")
    return set(re.findall(r"`(\w+)(?:>=|<|:)`", described)) - {"since", "until"}


@pytest.fixture
async def ask(server, fresh_database):
    """Read a list of a few rows of everything; each row has other names, half of them other states."""
    with psycopg.connect(server.superuser(fresh_database), autocommit=True) as conn:
        conn.execute(DEFINE.format(tenant=TENANT, now=NOW.isoformat()))
        conn.execute("select everwhen.ensure_week('2025-11-25')")
        conn.execute(sql("rows_of_lists_begin.sql"))
        conn.execute(sql("rows_of_lists.sql", first=1, last=6))
        conn.execute(VARY)
    async with await Database.open(server.app(fresh_database)) as database:
        app = app_on(database)
        async with (
            client_of(app, token_of("admin", tenant_id=TENANT)) as own,
            client_of(app, token_of("platform")) as platform,
        ):

            async def asked(operation: str, query: str = "") -> Any:
                client = platform if operation in OF_THE_PLATFORM else own
                return await client.get(path_of(operation) + query)

            yield asked


VARY = """
    update everwhen.schedules set state = 'paused', tags = '{odd}' where name in ('s1', 's3');
    insert into everwhen.tagged select tenant_id, 'schedule', 'odd', name from everwhen.schedules
    where name in ('s1', 's3');
    update everwhen.tasks set queue = 'other', updated_at = updated_at + interval '1 s' where name = 't2';
    update everwhen.members set roles = '{admin,payloads}', added_by = 'y' where subject = 'sso:2';
    update everwhen.service_tokens set revoked_at = now(), created_by = 'y' where name = 'n3';
    update everwhen.service_tokens set expires_at = now() + interval '1 d', roles = '{worker}' where name = 'n4';
    update everwhen.revocations set kind = 'token', revoked_by = 'y' where value = 'v2';
    update everwhen.operations set kind = 'backfill', state = 'running', requested_by = 'y' where id in (
      select id from everwhen.operations order by id limit 1);
    update everwhen.tasks set owner = 'git' where name in ('t1', 't2');
    update everwhen.schedules set owner = 'git' where name = 's2';
    update everwhen.calendars set owner = 'ops' where name = 'c1';
    update everwhen.operation_items set state = 'skipped', reason = 'operation.taken' where seq in (2, 4);
    update everwhen.alert_channels set kind = 'slack', state = 'disabled', created_by = 'y' where name = 'ch2';
    update everwhen.alert_subscriptions set scope = 'task', target = 'report', kinds = '{run.dead,run.expired}',
      is_enabled = false where name = 'su2';
    insert into everwhen.alert_routes values ('{tenant}', 'su2', 'ch1');
    update everwhen.pause_changes set action = 'resumed', changed_by = 'y' where queue = 'q2';
    update everwhen.queues set tags = '{odd}', owner = 'y' where name = 'q2';
    update everwhen.pauses set paused_by = 'y' where queue = 'q2';
    update everwhen.workers set wish = 'cordoned', host = 'h', version = '2' where name = 'w2';
    update everwhen.workers set labels = '{"zone": "a"}', tasks = null, is_stopping = true where name = 'w3';
    update everwhen.workers set last_seen_at = now() - interval '1 h', queues = '{b}' where name = 'w4';
    update everwhen.findings set kind = 'schedule.overdue' where subject = 'x2';
    with latest as (
      select run_id from everwhen.runs where task = 'workflow:flow' order by run_id desc limit 2
    ), others as (
      update everwhen.runs set task = 'workflow:other', source = 'workflow' where run_id in (select run_id from latest))
    delete from everwhen.run_ends where run_id in (select min(run_id::text)::uuid from latest);
    update everwhen.payloads set name = 'p', created_by = 'y'
    where digest = (select min(digest) from everwhen.payloads);
    update everwhen.runs set task = 'other'
    where run_id in (select run_id from everwhen.run_ends where fingerprint = 'f2');
""".replace("{tenant}", str(TENANT))


def test_every_list_has_a_filter_or_is_of_one_thing():
    without = {operation for operation in LISTS if not terms_of(operation)}

    assert without == WITHIN_ONE_THING | OF_THE_TASK_SERVICE
    assert {name: terms_of(name) for name in LISTS if name not in without | NOT_YET_SAID} == {
        name: set(fields) for name, fields in SAYS.items()
    }


async def test_each_term_of_each_list_finds_what_its_items_say(ask):
    for operation, fields in SAYS.items():
        whole = (await ask(operation)).json()["items"]
        assert len(whole) >= 2, operation
        for term, field in fields.items():
            for text, expected in searches(term, field, whole):
                found = await ask(operation, f"filter={quote(text)}")
                assert found.status_code == 200, (operation, text, found.text)
                assert found.json()["items"] == expected, (operation, text)


def searches(term: str, field: str, whole: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """A filter for each value that there is, with the items that it means; of an instant the bounds at its values."""
    if field.endswith("_at"):
        whole = [item for item in whole if item[field]]  # what has no instant is within no bound
        own = [datetime.fromisoformat(item[field]) for item in whole]
        bounds = sorted(set(own))[-2:]
        return [
            *(
                (f"{term}>={at.isoformat()}", [i for i, of in zip(whole, own, strict=True) if of >= at])
                for at in bounds
            ),
            *((f"{term}<{at.isoformat()}", [i for i, of in zip(whole, own, strict=True) if of < at]) for at in bounds),
        ]
    said = [_said(item[field]) for item in whole]
    values = {each for value in said if value for each in (value if isinstance(value, list) else [value])}
    return [
        (f'{term}:"{value}"', [item for item, own in zip(whole, said, strict=True) if own and _has(own, value)])
        for value in sorted(values)
    ]


def _said(value: Any) -> Any:
    """What an item says, as a filter spells it."""
    if isinstance(value, dict):
        return [f"{name}={text}" for name, text in value.items()]
    return ("no", "yes")[value] if isinstance(value, bool) else value


def _has(own: Any, value: str) -> bool:
    return value in own if isinstance(own, list) else value == own


async def test_the_answer_echoes_the_filter_in_its_one_spelling_and_the_next_page_means_the_same(ask):
    page = (await ask("list_operations", "limit=2&filter=since:3650d%20%20kind:redrive")).json()

    kind, _, since = page["filter"].partition(" ")
    assert (kind, since[:9], since[-1]) == ("kind:redrive", "created>=", "Z")
    assert quote(page["filter"], safe="").replace("%20", "+") in page["next"]


async def test_what_a_list_cannot_read_is_refused_in_its_place(ask):
    for operation in set(LISTS) - WITHIN_ONE_THING - OF_THE_TASK_SERVICE:
        answer = await ask(operation, "filter=colour:red")

        assert answer.status_code == 422, operation
        assert (answer.json()["code"], answer.json()["errors"][0]["pointer"]) == ("filter.field", "query:filter")
