"""What a release would do, asked of the server: its own release against an archive, calendars included."""

import base64
import json

import httpx2
import pytest

from everwhen.core.zones import tz_version
from everwhen.postgres.pool import Database
from everwhen.schedules import tz_review
from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of
from tests.tzif import BERLIN_FILE, archive

DAILY = {"trigger": {"kind": "cron", "expr": "0 9 * * *"}, "timezone": "Europe/Berlin", "task": "report"}


@pytest.fixture
async def client(database: Database):
    tenant = await make_tenant(database)
    await make_task(database, tenant)
    async with client_of(app_on(database), token_of("editor", tenant_id=tenant.id)) as made:
        made.base_url = httpx2.URL(f"http://everwhen.test/v1/tenants/{tenant.name}/")
        yield made


async def create(client: httpx2.AsyncClient, name: str, **changes: object) -> None:
    answer = await client.post("schedules", json={"name": name, **DAILY, **changes})
    assert answer.status_code == 201, answer.text


async def review(client: httpx2.AsyncClient, **body: object) -> httpx2.Response:
    return await client.post("tz/review", json={"archive": archive(), "days": 365, **body})


async def test_it_says_which_release_is_in_use(client):
    assert (await client.get("tz")).json() == {"release": tz_version(), "planned_with": []}
    await create(client, "daily")
    assert (await client.get("tz")).json()["planned_with"] == [{"release": tz_version(), "schedules": 1}]


async def test_a_review_lists_what_moves_and_counts_calendars(client):
    await client.post("calendars", json={"name": "work", "definition": {"week": ["mon", "tue", "wed", "thu", "fri"]}})
    await create(client, "daily")
    await create(client, "elsewhere", timezone="Asia/Tokyo")
    await create(client, "workdays", calendars={"open": ["work"]})
    found = (await review(client)).json()
    moved = {each["name"]: each for each in found["affected"]}

    assert (found["old"], found["new"], found["looked"]) == (tz_version(), "2030c", 3)
    assert (found["following"], found["complete"]) == (None, True)
    # Tokyo is not in the archive, so what becomes of it cannot be told.
    assert "trigger.timezone.unknown" in moved["elsewhere"]["error"]
    assert 200 < moved["daily"]["moved"] < 230
    assert 140 < moved["workdays"]["moved"] < moved["daily"]["moved"] - 50
    assert len(moved["daily"]["moves"]) == 20
    assert {move["old_local"][11:] for move in moved["daily"]["moves"]} == {"09:00:00+02:00"}


async def test_a_review_is_cut_and_goes_on(client, monkeypatch):
    monkeypatch.setattr(tz_review, "MOST_WALKED", 2)
    names = [f"s{number}" for number in range(5)]
    for name in names:
        await create(client, name)
    found = [(await review(client)).json()]
    while found[-1]["following"]:
        found.append((await review(client, after=found[-1]["following"])).json())

    assert [each["looked"] for each in found] == [2, 2, 1]
    assert sorted(moved["name"] for each in found for moved in each["affected"]) == names


BROKEN = b"TZif2" + b"\xff" * 200


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("no base64!", 422),
        (base64.b64encode(b"no zip").decode(), 422),
        (base64.b64encode(b"PK\x05\x06" + bytes(18)).decode(), 422),
        (archive({f"x/{number}": b"" for number in range(5_001)}), 422),
        (archive({"tzdata/zoneinfo/UTC": b"TZif" + bytes(50_000_000)}), 200),
        (archive({BERLIN_FILE: BROKEN}), 200),
        ("A" * 1_000_001, 422),
    ],
    ids=["text", "no zip", "empty zip", "many files", "bomb", "broken zone", "long"],
)
async def test_a_hostile_archive_is_refused_or_contained(client, text, status):
    await create(client, "daily")
    answer = await review(client, archive=text)

    assert answer.status_code == status, answer.text[:300]
    if status != 200:
        assert json.loads(answer.text)["code"]


async def test_a_zone_that_cannot_be_read_is_named_and_stops_nobody(client):
    await create(client, "daily")
    [found] = (await review(client, archive=archive({BERLIN_FILE: BROKEN}))).json()["affected"]
    assert found["error"].startswith("trigger.timezone.unreadable")


async def test_a_viewer_may_not_ask_for_work(client, database):
    tenant = await make_tenant(database)
    async with client_of(app_on(database), token_of("viewer", tenant_id=tenant.id)) as viewer:
        answer = await viewer.post(f"/v1/tenants/{tenant.name}/tz/review", json={"archive": archive()})
    assert answer.status_code == 403
