"""A tenant's templates over HTTP, and the message that is written with them."""

import psycopg
import pytest

from everwhen.alerts.texts import Part, sample, source_of
from everwhen.alerts.texts.parts import KINDS
from everwhen.alerts.texts.service import Scribe
from tests.factories import make_tenant
from tests.people import app_on, client_of, token_of

PATH = "/v1/tenants/acme/alert-templates"
OWN = "[{{ tenant }}] {{ occasion.name }} is {{ occasion.word }}"


@pytest.fixture
async def tenant(database):
    return await make_tenant(database, name="acme")


@pytest.fixture
async def client(database, tenant):
    async with client_of(app_on(database), token_of("admin", tenant_id=tenant.id, subject="ada")) as opened:
        yield opened


async def test_a_template_is_kept_read_listed_and_deleted(client):
    before = (await client.get(f"{PATH}/run.dead/subject")).json()
    put = await client.put(f"{PATH}/run.dead/subject", json={"source": OWN})
    await client.put(f"{PATH}/digest/text", json={"source": "{{ total }}"})
    again = await client.put(f"{PATH}/run.dead/subject", json={"source": OWN + "!"})
    listed = (await client.get(PATH)).json()["items"]
    deleted = await client.delete(f"{PATH}/run.dead/subject")
    missing = await client.delete(f"{PATH}/run.dead/subject")

    assert before == {
        "kind": "run.dead",
        "part": "subject",
        "source": source_of("run.dead", Part.SUBJECT),
        "is_built_in": True,
        "revision": 0,
        "updated_by": None,
        "updated_at": None,
    }
    assert (put.status_code, put.json()["source"], put.json()["updated_by"]) == (200, OWN, "ada")
    assert again.json()["source"] == OWN + "!"
    assert [(item["kind"], item["part"], item["bytes"]) for item in listed] == [
        ("digest", "text", len("{{ total }}")),
        ("run.dead", "subject", len(OWN) + 1),
    ]
    assert deleted.status_code == 204
    assert (missing.status_code, missing.json()["code"]) == (404, "alert_template.unknown")
    assert (await client.get(f"{PATH}/run.dead/subject")).json()["is_built_in"] is True


async def test_a_template_that_could_not_be_used_is_refused_with_its_line(client):
    answer = await client.put(f"{PATH}/run.dead/text", json={"source": "one\n{{ misspelt }}"})

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/source"
    assert error["code"] == "alert_template.invalid"
    assert "line 2: there is no `misspelt`" in error["detail"]
    assert (await client.get(PATH)).json()["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{PATH}/run.unknown/text", 422),
        ("DELETE", f"{PATH}/run.unknown/text", 422),
        ("GET", f"{PATH}/run.dead/body", 422),
    ],
)
async def test_a_kind_or_part_that_there_is_not(client, method, path, status):
    assert (await client.request(method, path)).status_code == status


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_can_be_previewed(client, kind):
    made = (await client.post(f"{PATH}/preview", json={"kind": kind})).json()

    assert made["subject"]
    assert made["blocks"][0]["type"] == "header"
    assert made["payload"]["version"] == 1


async def test_a_preview_takes_what_is_tried_before_what_is_kept(client):
    await client.put(f"{PATH}/run.dead/subject", json={"source": OWN})
    await client.put(f"{PATH}/any/text", json={"source": "kept"})
    kept = (await client.post(f"{PATH}/preview", json={"kind": "run.dead"})).json()
    tried = (await client.post(f"{PATH}/preview", json={"kind": "run.dead", "templates": {"subject": "tried"}})).json()
    wrong = await client.post(f"{PATH}/preview", json={"kind": "run.dead", "templates": {"html": "<p>"}})

    assert kept["subject"] == "[acme] nightly-report is dead"
    assert (tried["subject"], tried["text"].split("\n")[0]) == ("tried", "kept")
    assert wrong.json()["errors"][0]["pointer"] == "/templates/html"


async def test_a_message_is_written_with_the_templates_of_its_tenant_alone(database, tenant, client):
    other = await make_tenant(database, name="other")
    await client.put(f"{PATH}/run.dead/subject", json={"source": OWN})

    assert (await Scribe(database).write(tenant.id, sample("run.dead"))).subject == "[acme] nightly-report is dead"
    assert (await Scribe(database).write(other.id, sample("run.dead"))).subject.startswith("nightly-report: dead")
    assert (await Scribe(database).write(tenant.id, sample("digest"))).subject.startswith("390 runs dead")


async def test_a_stored_template_that_no_longer_fits_loses_no_alert(database, tenant, server, work_database):
    with psycopg.connect(server.superuser(work_database)) as conn:
        conn.execute(
            "insert into everwhen.alert_templates values (%s, 'run.dead', 'subject', '{{ gone }}', 'ada', now())",
            [tenant.id],
        )

    rendered = await Scribe(database).write(tenant.id, sample("run.dead"))

    assert rendered.subject.startswith("nightly-report: dead")
    assert "line 1: there is no `gone`" in rendered.text
