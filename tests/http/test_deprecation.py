"""What goes away says so in each of its answers and in the document, and nothing else does."""

from datetime import date

import pytest
from fastapi import APIRouter, Request
from pydantic import BaseModel

from everwhen.errors import Conflict
from everwhen.http.access import Anybody
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.bodies import ControlRoute
from everwhen.http.deprecation import deprecated, since
from everwhen.http.plane import ControlPlane
from everwhen.tenants.service import find_tenant
from tests.people import SECRET, client_of, token_of

PAGE = "https://docs.example/deprecation"
GOING = deprecated(since=date(2026, 12, 1), sunset=date(2027, 12, 1), page=PAGE)
router = APIRouter(route_class=ControlRoute)


class Said(BaseModel):
    """What a toy says."""

    word: str


@router.get("/v1/old")
@GOING
@since("0.1")
async def read_old(*, request: Request, principal: Anybody) -> Said:
    """Say something old."""
    if "fail" in request.query_params:
        raise Conflict("It does not want to.")
    return Said(word="old")


@router.get("/v1/new")
async def read_new(*, principal: Anybody) -> Said:
    """Say something new."""
    return Said(word="new")


@pytest.fixture
def app(database):
    plane = ControlPlane(database=database, authenticator=Authenticator(SECRET), find_tenant=find_tenant)
    return create_app(plane, routers=[router])


@pytest.mark.parametrize(("query", "status"), [("", 200), ("?fail=1", 409)])
async def test_whatever_it_answers_it_says_that_it_goes(app, query, status):
    async with client_of(app, token_of("platform")) as client:
        answer = await client.get(f"/v1/old{query}")

    assert answer.status_code == status
    assert answer.headers["deprecation"] == "@1796083200"
    assert answer.headers["sunset"] == "Wed, 01 Dec 2027 00:00:00 GMT"
    assert answer.headers["link"] == f'<{PAGE}>; rel="deprecation", <{PAGE}>; rel="sunset"'


async def test_what_stays_says_nothing(app):
    async with client_of(app, token_of("platform")) as client:
        answer = await client.get("/v1/new")

    assert (answer.status_code, "deprecation" in answer.headers, "sunset" in answer.headers) == (200, False, False)


def test_the_document_says_so_too(app):
    paths = app.openapi()["paths"]

    old = paths["/v1/old"]["get"]
    assert (old["deprecated"], old["x-sunset"], old["x-since"]) == (True, "2027-12-01", "0.1")
    assert old["x-deprecated-since"] == "2026-12-01"
    assert not {"deprecated", "x-sunset", "x-since"} & set(paths["/v1/new"]["get"])


def test_nothing_can_go_before_it_is_deprecated():
    with pytest.raises(ValueError, match="cannot go"):
        deprecated(since=date(2027, 1, 1), sunset=date(2027, 1, 1), page=PAGE)
