"""Findings, punctuality and metrics over HTTP, and on the command line."""

from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from everwhen import metrics
from everwhen.dispatch.reaper import Reaper
from everwhen.roles import Loop, Tick, run
from everwhen.sentinel.sentinel import Sentinel
from tests.dispatch.scene import LINE, make_line, report_on
from tests.factories import make_schedule
from tests.people import app_on, client_of, token_of

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def line(database):
    return await make_line(database)


@pytest.fixture
async def amiss(database, line):
    """Two lines wait, and a schedule is overdue."""
    await line.fill(1)
    await make_schedule(database, line.tenant, trigger={"kind": "every", "every": "PT1S"})
    await Sentinel(database=database).tick(await line.now() + 5 * MINUTE)
    return line


async def test_what_is_amiss_is_listed_with_a_sentence_and_a_remedy_and_in_pages(database, amiss):
    path = f"/v1/tenants/{amiss.tenant.name}/findings?limit=1"
    async with client_of(app_on(database), token_of("viewer", tenant_id=amiss.tenant.id)) as client:
        first = (await client.get(path)).json()
        second = (await client.get(first["next"])).json()

    found = {item["kind"]: item for item in (*first["items"], *second["items"])}
    assert set(found) == {"line.unattended", "schedule.overdue"}
    assert second["next"] is None
    assert found["line.unattended"]["subject"] == LINE
    assert found["line.unattended"]["remedy"] == "Start a worker for it."
    assert found["schedule.overdue"]["detail"]["schedule_uid"]


async def test_what_is_over_is_listed_when_asked_for(database, line):
    await line.fill(1)
    now = await line.now() + 5 * MINUTE
    await Sentinel(database=database).tick(now)
    await line.claim(lease_seconds=3000.0)
    await Sentinel(database=database).tick(now + MINUTE)
    path = f"/v1/tenants/{line.tenant.name}/findings"
    async with client_of(app_on(database), token_of("viewer", tenant_id=line.tenant.id)) as client:
        assert (await client.get(path)).json()["items"] == []
        (over,) = (await client.get(path, params={"state": "all"})).json()["items"]

    assert over["closed_at"] is not None


async def test_the_platform_sees_every_tenants_and_a_tenant_does_not(database, amiss):
    app = app_on(database)
    async with client_of(app, token_of("platform")) as client:
        assert len((await client.get("/v1/findings")).json()["items"]) == 2
    async with client_of(app, token_of("admin", tenant_id=amiss.tenant.id)) as client:
        assert (await client.get("/v1/findings")).status_code == 403


async def test_an_objective_is_set_by_an_editor_within_its_bounds(database, amiss):
    path = f"/v1/tenants/{amiss.tenant.name}/schedules/nightly/punctuality"
    app = app_on(database)
    async with client_of(app, token_of("editor", tenant_id=amiss.tenant.id)) as client:
        assert (await client.get(path)).json()["objective_seconds"] == 30.0
        answer = await client.put(path, json={"objective_seconds": 2.5})
        assert (answer.status_code, answer.json()["objective_seconds"]) == (200, 2.5)
        for wrong in (0, -1, 86_401, "soon", None):
            assert (await client.put(path, json={"objective_seconds": wrong})).status_code == 422
    async with client_of(app, token_of("viewer", tenant_id=amiss.tenant.id)) as client:
        assert (await client.put(path, json={"objective_seconds": 1})).status_code == 403


def value(text: str, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return 0.0


async def scrape(database, **headers):
    async with client_of(app_on(database), token_of("platform")) as client:
        return await client.get("/metrics", headers=headers)


async def test_metrics_need_a_token_of_the_platform(database, line):
    app = app_on(database)
    async with client_of(app) as client:
        assert (await client.get("/metrics")).status_code == 401
    async with client_of(app, token_of("admin", tenant_id=line.tenant.id)) as client:
        assert (await client.get("/metrics")).status_code == 403


async def test_metrics_are_text_for_prometheus_or_openmetrics(database):
    plain = await scrape(database)
    open_metrics = await scrape(database, Accept="application/openmetrics-text; version=1.0.0")

    assert plain.headers["content-type"].startswith("text/plain")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


async def test_lags_and_findings_are_the_databases(database, amiss):
    text = (await scrape(database)).text

    assert value(text, "everwhen_findings_open", kind="line.unattended") == 1
    assert value(text, "everwhen_findings_open", kind="leases.unreaped") == 0
    assert value(text, "everwhen_oldest_wait_seconds") > 0
    await amiss.claim()
    await amiss.rows("update everwhen.watermarks set next_at = now() - interval '90 s' returning 1")
    text = (await scrape(database)).text
    assert value(text, "everwhen_oldest_wait_seconds") == 0
    assert value(text, "everwhen_planning_lag_seconds") >= 90


async def test_what_is_dispatched_is_counted_after_it_is_committed(database, line):
    before = (await scrape(database)).text
    await line.fill(4)
    done, failed, stale, _ = await line.claim(limit=4)
    await line.complete(report_on(done), report_on(failed, "failed", retryable=False))
    await line.complete(report_on(stale, lease_token="1"))
    await Reaper(database=database, jitter=lambda: 0.0).tick(done.lease_until)
    after = (await scrape(database)).text

    def grown(name, **labels):
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("everwhen_runs_claimed_total") == 4
    assert grown("everwhen_attempts_closed_total", outcome="succeeded") == 1
    assert grown("everwhen_attempts_closed_total", outcome="failed") == 1
    assert grown("everwhen_attempts_closed_total", outcome="lost") == 2
    assert grown("everwhen_runs_ended_total", state="succeeded") == 1
    assert grown("everwhen_runs_ended_total", state="dead") == 1
    assert grown("everwhen_reports_refused_total") == 1


async def test_no_label_names_a_tenant_a_schedule_or_a_run(database, amiss):
    text = (await scrape(database)).text
    labels = {name for family in text_string_to_metric_families(text) for s in family.samples for name in s.labels}

    assert labels <= {"role", "outcome", "state", "kind", "bucket", "broker", "meaning", "reason", "le"}


async def test_ticks_of_a_role_are_counted_with_their_errors(database, line):
    import asyncio

    stop, outcomes = asyncio.Event(), iter([OSError("away"), 3, 2])

    class Counting:
        name = "counting"
        interval = timedelta(0)

        async def tick(self, now):
            outcome = next(outcomes)
            if isinstance(outcome, Exception):
                raise outcome
            if outcome == 2:
                stop.set()
            return Tick(done=outcome, more=True)

    async def nap(seconds):
        await asyncio.sleep(0)

    await run(Counting(), Loop(clock=line.now, wait_for_wakeup=nap, stop=stop))
    text = metrics.render("")[0].decode()

    assert value(text, "everwhen_role_ticks_total", role="counting") == 2
    assert value(text, "everwhen_role_work_total", role="counting") == 5
    assert value(text, "everwhen_role_errors_total", role="counting") == 1
    assert value(text, "everwhen_role_tick_seconds_count", role="counting") == 3
