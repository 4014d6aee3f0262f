"""Cursors: opaque, bound to their list, refused when touched."""

from uuid import UUID

import pytest

from everwhen.errors import InvalidInput
from everwhen.http.pages import make_cursor, read_cursor, read_id, read_number, seal
from tests.factories import make_task, make_tenant
from tests.people import app_on, client_of, token_of

KEYS = ["a", "nightly-report", "x" * 200, "01a22915-06ff-70da-a75e-79f816daceb5", "7"]


@pytest.mark.parametrize("key", KEYS)
def test_a_cursor_leads_back_to_its_key(key):
    assert read_cursor(make_cursor(key, of="runs"), of="runs") == key


def test_no_cursor_means_the_beginning():
    assert read_cursor(None, of="runs") is None
    assert read_number(None, of="events") == 0
    assert read_id(None, of="runs", default=UUID(int=9)) == UUID(int=9)


def test_a_cursor_of_another_list_is_refused():
    with pytest.raises(InvalidInput) as refused:
        read_cursor(make_cursor("a", of="tasks"), of="schedules")

    assert refused.value.code == "page.cursor"


@pytest.mark.parametrize("cursor", ["", "a", "!!!!", "AAAAAAAAAAAA", "é", make_cursor("a\x00b", of="runs")])
def test_what_is_no_cursor_is_refused(cursor):
    with pytest.raises(InvalidInput):
        read_cursor(cursor, of="runs")


@pytest.mark.parametrize("key", KEYS)
def test_a_cursor_is_refused_after_any_change_of_one_character(key):
    cursor = make_cursor(key, of="runs")
    for index, character in enumerate(cursor):
        changed = cursor[:index] + ("A" if character != "A" else "B") + cursor[index + 1 :]
        with pytest.raises(InvalidInput):
            read_cursor(changed, of="runs")


@pytest.mark.parametrize("key", ["-1", "1e3", "٣", "9" * 19, "x"])
def test_a_cursor_that_should_be_a_number_and_is_none_is_refused(key):
    with pytest.raises(InvalidInput):
        read_number(make_cursor(key, of="events"), of="events")


def test_a_cursor_that_should_be_an_id_and_is_none_is_refused():
    with pytest.raises(InvalidInput):
        read_id(make_cursor("x", of="runs"), of="runs", default=UUID(int=0))


# Sealed --------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def app(database):
    for name in ("acme", "other"):
        tenant = await make_tenant(database, name=name)
        for number in range(3):
            await make_task(database, tenant, name=f"t{number}")
    return app_on(database)


@pytest.fixture
async def client(app):
    async with client_of(app, token_of("platform", "admin")) as opened:
        yield opened


async def first_page(client):
    page = (await client.get("/v1/tenants/acme/tasks?limit=1")).json()
    return page["next"], page["next"].partition("cursor=")[2]


async def test_a_cursor_leads_to_the_next_page_of_any_size(client):
    following, cursor = await first_page(client)

    assert [task["name"] for task in (await client.get(following)).json()["items"]] == ["t1"]
    longer = await client.get(f"/v1/tenants/acme/tasks?limit=9&cursor={cursor}")
    assert [task["name"] for task in longer.json()["items"]] == ["t1", "t2"]


@pytest.mark.parametrize(
    "elsewhere",
    ["/v1/tenants/other/tasks?", "/v1/tenants/acme/schedules?", "/v1/tenants/acme/tasks?state=x&",
     "/v1/tenants/acme/tasks?cursor=AAAA&"],
)  # fmt: skip
async def test_a_cursor_of_another_tenant_list_or_filter_is_refused(client, elsewhere):
    _, cursor = await first_page(client)
    answer = await client.get(f"{elsewhere}cursor={cursor}")

    assert (answer.status_code, answer.json()["code"]) == (422, "page.cursor")


async def test_a_cursor_that_was_made_up_or_touched_is_refused(client):
    _, cursor = await first_page(client)
    path = "/v1/tenants/acme/tasks"
    made_up = [make_cursor("t1", of="tasks"), seal(make_cursor("t1", of="tasks"), path, [], key=b"guessed")]
    touched = [cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(len(cursor))]

    for wrong in (*made_up, *touched, cursor[:-1], cursor + "A", "", "é", "!" * 9):
        answer = await client.get(path, params={"cursor": wrong})
        assert (answer.status_code, answer.json()["code"]) == (422, "page.cursor"), wrong


async def test_copies_of_one_installation_read_each_others_cursors_and_no_others(app, client, database):
    following, _ = await first_page(client)
    async with client_of(app_on(database), token_of("platform", "admin")) as stranger:
        assert (await stranger.get(following)).status_code == 422
