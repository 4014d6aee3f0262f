"""Minting tokens where the key is, and what the doctor says of them."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen import clock
from everwhen.cli import main
from everwhen.http.auth import Authenticator
from everwhen.postgres.pool import Database
from everwhen.sealing.ring import new_entry, read_ring
from everwhen.sealing.service import Sealer
from everwhen.tenants.service import find_tenant
from tests.people import SECRET

TENANT_ID = "01a22915-06ff-70da-a75e-79f816daceb5"


@pytest.fixture
def mint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, exit_code=0, **env):
        result = CliRunner().invoke(main, ["token", *arguments], env=env)
        assert result.exit_code == exit_code, result.output
        return result.stdout.strip()

    return run


def meaning(token):
    return asyncio.run(Authenticator(SECRET).authenticate(f"Bearer {token}", now=clock.process_now()))


def test_a_token_is_minted_for_a_tenant_by_its_id(mint):
    token = mint("--tenant", TENANT_ID, "--role", "worker", "--queue", "a", "--ttl", "1", EVERWHEN_JWT_SECRET=SECRET)

    assert str(meaning(token).tenant_id) == TENANT_ID
    assert (meaning(token).roles, meaning(token).queues) == ({"worker"}, {"a"})


def test_the_platforms_token_names_no_tenant(mint):
    principal = meaning(mint("--platform", EVERWHEN_JWT_SECRET=SECRET))

    assert principal.tenant_id is None
    assert principal.roles == {"platform", "admin"}


def test_the_key_and_the_tenant_of_up_are_found_in_its_folder(mint):
    Path(".everwhen").mkdir()
    Path(".everwhen/jwt.secret").write_text(f"{SECRET}\n")
    local = mint("--tenant", TENANT_ID)
    Path(".everwhen/client.json").write_text(json.dumps({"url": "http://x", "token": local, "tenant": "demo"}))

    assert str(meaning(mint()).tenant_id) == TENANT_ID


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        ((), {}),
        ((), {"EVERWHEN_JWT_SECRET": SECRET}),
        (("--platform", "--role", "admin"), {"EVERWHEN_JWT_SECRET": SECRET}),
        (("--tenant", TENANT_ID, "--role", "platform"), {"EVERWHEN_JWT_SECRET": SECRET}),
        (("--tenant", TENANT_ID, "--ttl", "25"), {"EVERWHEN_JWT_SECRET": SECRET}),
    ],
)
def test_what_cannot_be_minted_is_refused(mint, arguments, env):
    assert mint(*arguments, exit_code=2, **env) == ""


def test_a_tenants_name_is_looked_up_at_the_server(shell):
    result = CliRunner().invoke(
        main, ["token", "--tenant", "acme", "--url", shell.url], env={"EVERWHEN_JWT_SECRET": SECRET}
    )
    unknown = CliRunner().invoke(
        main, ["token", "--tenant", "nobody", "--url", shell.url], env={"EVERWHEN_JWT_SECRET": SECRET}
    )

    assert meaning(result.stdout.strip()).tenant_id is not None
    assert unknown.exit_code == 3


def test_the_doctor_finds_a_healthy_server(shell):
    found = {finding["check"]: finding for finding in shell.json("doctor")["items"]}

    assert {name: finding["verdict"] for name, finding in found.items()} == {
        "server": "ok",
        "clock": "ok",
        "token": "ok",
        "time zones": "ok",
        "findings": "ok",
    }


@pytest.mark.parametrize(("who", "detail"), [("worker", "lacks a role"), ("platform", "accepted")])
def test_the_doctor_looks_at_the_token(shell, who, detail):
    result = shell("doctor", who=who, exit_code=0 if who == "platform" else 1)

    assert detail in result.stdout


def test_the_doctor_says_that_no_server_answers(shell):
    assert "does not answer" in shell("doctor", "--url", "http://127.0.0.1:1", exit_code=1).stdout


def test_the_doctor_looks_into_a_database_whose_address_it_knows(shell, server, work_database, empty_database):
    def ask(name, exit_code):
        env = {"EVERWHEN_DATABASE_URL": server.app(name), "EVERWHEN_URL": shell.url,
               "EVERWHEN_TOKEN": shell.tokens["admin"], "EVERWHEN_TENANT": "acme"}  # fmt: skip
        result = CliRunner().invoke(main, ["doctor"], env=env)
        assert result.exit_code == exit_code, result.output
        return result.stdout

    assert "its schema fits" in ask(work_database, 0)
    assert "everwhen migrate" in ask(empty_database, 1)


def test_the_doctor_says_which_sealing_key_is_missing(shell, server, work_database):
    ours, theirs = new_entry("ours"), new_entry("theirs")

    def ask(keys: str | None, exit_code: int) -> dict[str, str]:
        env = {"EVERWHEN_DATABASE_URL": server.app(work_database), "EVERWHEN_URL": shell.url,
               "EVERWHEN_TOKEN": shell.tokens["admin"], "EVERWHEN_TENANT": "acme"}  # fmt: skip
        result = CliRunner().invoke(main, ["doctor", "-o", "json"], env={**env, "EVERWHEN_SEALING_KEYS": keys})
        assert result.exit_code == exit_code, result.output
        return next(each for each in json.loads(result.stdout)["items"] if each["check"] == "sealing keys")

    async def seal() -> None:
        async with await Database.open(server.app(work_database)) as db:
            tenant = await find_tenant(db, name="acme", bound_to=None)
            async with db.tenant(tenant.id) as conn:
                await Sealer(read_ring(theirs)).seal(conn, tenant.id, {"a": "secret"})

    assert ask(None, 0)["verdict"] == "warn"
    assert ask("nonsense", 1)["verdict"] == "fail"
    assert ask(ours, 0)["verdict"] == "ok"
    asyncio.run(seal())
    assert "need the key theirs" in ask(ours, 1)["detail"]
    assert ask(f"{ours},{theirs}", 0)["verdict"] == "ok"
