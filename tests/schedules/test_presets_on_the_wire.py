"""Presets over HTTP: they complete a schedule with its dialect and policies, and never override what it says."""

import pytest

from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

CRON = {"kind": "cron", "expr": "30 2 * * *"}
GOOD = {"name": "nightly", "task": "report", "trigger": CRON, "timezone": "Europe/Berlin"}
PATH = "/v1/tenants/acme/schedules"
NIGHTLY = f"{PATH}/nightly"


@pytest.fixture
async def client(database):
    tenant = await make_tenant(database, name="acme")
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ann")) as opened:
        yield opened


def rule(schedule):
    return schedule["trigger"]["dialect"], schedule["gap"], schedule["fold"], schedule["preset"]


async def test_a_preset_completes_a_schedule_and_is_told(client):
    made = (await client.post(PATH, json={**GOOD, "preset": "kubernetes"})).json()
    plain = (await client.post(PATH, json={**GOOD, "name": "plain"})).json()
    revision = (await client.get(f"{NIGHTLY}/revisions")).json()["items"][0]

    assert rule(made) == ("kubernetes", "skip", "both", "kubernetes")
    assert rule(plain) == ("vixie", None, None, None)
    assert (await client.get(NIGHTLY)).json() == made
    assert revision["spec"]["preset"] == "kubernetes"


async def test_a_policy_that_is_named_wins_over_the_presets(client):
    made = (await client.post(PATH, json={**GOOD, "preset": "kubernetes", "gap": "shift"})).json()

    assert rule(made) == ("kubernetes", "shift", "both", "kubernetes")


async def test_a_preview_with_a_preset_is_what_the_schedule_will_do(client):
    timing = {"trigger": CRON, "timezone": "Europe/Berlin", "preset": "kubernetes"}
    unsaved = (await client.post(f"{PATH}/preview", json=timing)).json()
    await client.post(PATH, json={**GOOD, "preset": "kubernetes"})
    saved = (await client.get(f"{NIGHTLY}/preview")).json()

    assert (unsaved["gap"], unsaved["fold"]) == (saved["gap"], saved["fold"]) == ("skip", "both")
    assert [each["at"] for each in unsaved["items"]] == [each["at"] for each in saved["items"]]


async def test_a_preset_rereads_the_schedule_that_it_is_given_to(client):
    await client.post(PATH, json={**GOOD, "preset": "kubernetes"})
    changed = (
        await client.patch(NIGHTLY, json={"preset": "eventbridge", "trigger": CRON | {"expr": "30 2 * * ? *"}})
    ).json()
    other = (await client.patch(NIGHTLY, json={"preset": "quartz", "trigger": CRON | {"expr": "0 30 2 * * ?"}})).json()
    same_text = (await client.patch(NIGHTLY, json={"preset": "spring"})).json()
    spring = (await client.patch(NIGHTLY, json={"trigger": CRON, "preset": "airflow"})).json()
    reread = (await client.patch(NIGHTLY, json={"preset": "cronsim"})).json()

    assert rule(changed) == ("eventbridge", "skip", "first", "eventbridge")
    assert rule(other) == ("quartz", "skip", "both", "quartz")
    assert same_text["code"] == "trigger.preset.unknown"
    assert rule(spring) == ("airflow", None, None, "airflow")
    assert (rule(reread), reread["trigger"]["expr"]) == (("cronsim", None, None, "cronsim"), "30 2 * * *")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"timezone": "Asia/Tokyo"}, "kubernetes"),
        ({"priority": 1}, "kubernetes"),
        ({"preset": None}, None),
        ({"gap": "shift"}, None),
        ({"trigger": CRON}, None),
    ],
)
async def test_a_change_of_what_the_preset_completed_takes_its_name_away(client, change, name):
    await client.post(PATH, json={**GOOD, "preset": "kubernetes"})
    changed = (await client.patch(NIGHTLY, json=change)).json()

    assert changed["preset"] == name
    assert changed["fold"] == "both"


async def test_a_schedules_own_body_with_a_preset_can_be_sent_again(client):
    made = (await client.post(PATH, json={**GOOD, "preset": "kubernetes"})).json()
    body = {key: made[key] for key in ("trigger", "timezone", "preset", "gap", "fold")}
    again = await client.post(PATH, json={**body, "name": "copy", "task": "report"})
    changed = await client.patch(NIGHTLY, json=body)

    assert (again.status_code, changed.status_code) == (201, 200)
    assert rule(again.json()) == rule(changed.json()) == rule(made)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"preset": "moon"}, "trigger.preset.unknown"),
        ({"preset": "kubernetes", "trigger": CRON | {"dialect": "vixie"}}, "trigger.preset.dialect"),
    ],
)
async def test_a_wrong_preset_is_refused_where_it_is(client, fields, code):
    for answer in (
        await client.post(PATH, json=GOOD | fields),
        await client.post(f"{PATH}/preview", json={"trigger": CRON} | fields),
    ):
        assert answer.status_code == 422
        assert [(error["pointer"], error["code"]) for error in answer.json()["errors"]] == [("/preset", code)]
