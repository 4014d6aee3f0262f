"""Sessions of the console: a cookie in exchange for a token, and nothing changed without the second proof."""

import re

import psycopg
import pytest

from everwhen.http.sessions import COOKIE
from tests.factories import make_tenant
from tests.people import app_on, client_of, token_of

TASKS = "/v1/tenants/acme/tasks"


@pytest.fixture
async def app(database):
    return app_on(database)


@pytest.fixture
async def bearer(app, database):
    tenant = await make_tenant(database, name="acme")
    async with client_of(app, token_of("admin", tenant_id=tenant.id, subject="ada")) as client:
        yield client


async def begun(bearer) -> tuple[dict[str, str], str]:
    """The headers of a browser that has begun a session, and its CSRF token."""
    answer = await bearer.post("/v1/session")
    assert answer.status_code == 201
    [secret] = re.findall(rf"^{COOKIE}=([\w-]{{43}}); ", answer.headers["set-cookie"])
    assert secret not in answer.text
    return {"Cookie": f"other=1; {COOKIE}={secret}"}, answer.json()["csrf_token"]


async def test_the_cookie_is_out_of_the_reach_of_scripts_and_other_sites(bearer):
    cookie = (await bearer.post("/v1/session")).headers["set-cookie"]

    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert cookie.startswith("__Host-")


async def test_a_session_reads_by_its_cookie_and_changes_with_the_second_proof(app, bearer):
    cookie, csrf = await begun(bearer)
    proof = {"X-CSRF-Token": csrf}
    async with client_of(app) as browser:
        assert (await browser.get(TASKS, headers=cookie)).status_code == 200
        me = (await browser.get("/v1/me", headers=cookie)).json()
        assert (me["subject"], me["kind"]) == ("ada", "session")
        assert (await browser.get("/v1/session", headers=cookie)).json()["csrf_token"] == csrf

        refused = [
            {},
            {"X-CSRF-Token": ""},
            {"X-CSRF-Token": csrf[:-1]},
            {"X-CSRF-Token": "0" * len(csrf)},
            proof | {"Sec-Fetch-Site": "cross-site"},
            proof | {"Sec-Fetch-Site": "same-site"},
            proof | {"Sec-Fetch-Site": "none"},
        ]
        for headers in refused:
            for method, path in (("POST", TASKS), ("PATCH", f"{TASKS}/x"), ("PUT", TASKS), ("DELETE", "/v1/session")):
                answer = await browser.request(method, path, headers=cookie | headers, json={"name": "x"})
                assert (answer.status_code, answer.json()["code"]) == (403, "auth.csrf")
        for index, headers in enumerate((proof, proof | {"Sec-Fetch-Site": "same-origin"})):
            made = await browser.post(TASKS, headers=cookie | headers, json={"name": f"t{index}"})
            assert made.status_code == 201


async def test_a_session_that_was_ended_is_over(app, bearer):
    cookie, csrf = await begun(bearer)
    async with client_of(app) as browser:
        ended = await browser.delete("/v1/session", headers=cookie | {"X-CSRF-Token": csrf})
        assert ended.status_code == 204
        assert "Max-Age=0" in ended.headers["set-cookie"]
        assert (await browser.get(TASKS, headers=cookie)).status_code == 401


@pytest.fixture
def superuser(server, work_database):
    with psycopg.connect(server.superuser(work_database), autocommit=True) as conn:
        yield conn


@pytest.mark.parametrize("change", ["expires_at = now()", "seen_at = now() - interval '31 minutes'"])
async def test_a_session_ends_by_itself(app, bearer, superuser, change):
    cookie, _ = await begun(bearer)
    superuser.execute(f"update everwhen.sessions set {change}")
    async with client_of(app) as browser:
        assert (await browser.get(TASKS, headers=cookie)).status_code == 401
    await begun(bearer)
    assert superuser.execute("select count(*) from everwhen.sessions where expires_at < now()").fetchone()[0] == 0


async def test_a_session_ends_with_the_token_that_it_began_with(app, bearer):
    cookie, _ = await begun(bearer)
    await bearer.post("/v1/tenants/acme/revocations", json={"subject": "ada", "reason": "lost"})
    async with client_of(app_on(app.state.plane.database)) as browser:  # another copy
        assert (await browser.get(TASKS, headers=cookie)).status_code == 401


@pytest.mark.parametrize(
    "cookie",
    ["", f"{COOKIE}=", f"{COOKIE}=x", f"{COOKIE}={'A' * 43}", "everwhen=x", f"{COOKIE}={'A' * 43}; {COOKIE}=b"],
)
async def test_what_is_no_session_is_refused_like_any_credential(app, bearer, cookie):
    async with client_of(app) as browser:
        answer = await browser.get(TASKS, headers={"Cookie": cookie})
        assert (answer.status_code, answer.json()["code"]) == (401, "auth.required")


async def test_a_bearer_token_needs_no_proof_and_a_bad_one_is_not_saved_by_a_cookie(app, bearer):
    cookie, _ = await begun(bearer)
    assert (await bearer.post(TASKS, headers=cookie, json={"name": "x"})).status_code == 201
    assert (await bearer.get(TASKS, headers=cookie | {"Authorization": "Bearer x"})).status_code == 401
    assert (await bearer.get("/v1/session")).status_code == 404


async def test_only_a_persons_token_begins_a_session(app, bearer):
    made = await bearer.post("/v1/tenants/acme/tokens", json={"name": "x", "roles": ["admin"]})
    async with client_of(app, made.json()["secret"]) as program:
        assert (await program.post("/v1/session")).status_code == 403
