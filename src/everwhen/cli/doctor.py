"""`everwhen doctor`: is everything here that is needed, and do the parts agree?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from everwhen.cli.client import Target, find_target

if TYPE_CHECKING:
    import httpx2

    from everwhen.audit.model import Standing
    from everwhen.config import Settings

MOST_SKEW_SECONDS: Final = 2.0
MOST_SEAL_SECONDS: Final = 60.0
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: ok, warn or fail, what was found, and what to do about it."""

    check: str
    verdict: str
    detail: str
    fix: str = ""


@click.command(short_help="Check this machine, the server and the database.")
@click.option("--url", help="The server's address. [env: EVERWHEN_URL]")
@click.option("-t", "--tenant", help="The tenant's name. [env: EVERWHEN_TENANT]")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print.")
def doctor(url: str | None, tenant: str | None, output: str) -> None:
    """Check the server, the token, clocks, the time zone database and the schema; exit code 1 if anything fails."""
    target = find_target(url=url, tenant=tenant)
    findings = [*_server(target), _zones(), *_database(), *_brokers()]
    if output == "json":
        document = {"apiVersion": "everwhen/v1", "kind": "FindingList", "items": [asdict(f) for f in findings]}
        click.echo(json.dumps(document | {"next": None}, indent=2))
    else:
        for found in findings:
            verdict = click.style(found.verdict.ljust(4), fg=_COLOURS[found.verdict])
            click.echo(f"{verdict}  {found.check}: {found.detail}" + (f"  → {found.fix}" if found.fix else ""))
    sys.exit(1 if any(found.verdict == "fail" for found in findings) else 0)


def _server(target: Target) -> list[Finding]:
    import httpx2

    from everwhen import clock

    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    try:
        with httpx2.Client(base_url=target.url, headers=headers, timeout=5.0) as client:
            asked_at = clock.process_now()
            ready = client.get("/healthz/ready")
            skew = _skew(ready, (clock.process_now() - asked_at) / 2 + asked_at)
            return [_readiness(target, ready), *skew, _token(target, client), *_amiss(target, client)]
    except httpx2.HTTPError as error:
        detail = f"{target.url} does not answer ({type(error).__name__})"
        return [Finding(check="server", verdict="fail", detail=detail, fix="everwhen up")]


def _readiness(target: Target, ready: httpx2.Response) -> Finding:
    if ready.is_success:
        return Finding(check="server", verdict="ok", detail=f"{target.url} is ready")
    detail = f"{target.url} runs, but is not ready: status {ready.status_code}"
    return Finding(check="server", verdict="fail", detail=detail, fix="look at its database")


def _skew(ready: httpx2.Response, here: datetime) -> list[Finding]:
    """Compare the database's clock, the one that decides, with this machine's."""
    if not ready.is_success:
        return []
    seconds = (datetime.fromisoformat(ready.json()["now"]) - here).total_seconds()
    verdict = "ok" if abs(seconds) <= MOST_SKEW_SECONDS else "warn"
    fix = "" if verdict == "ok" else "synchronise this machine's clock"
    return [Finding(check="clock", verdict=verdict, detail=f"the database is {seconds:+.2f} s from here", fix=fix)]


def _token(target: Target, client: httpx2.Client) -> Finding:
    if target.token is None:
        return Finding(check="token", verdict="warn", detail="none here", fix="set EVERWHEN_TOKEN")
    path = "/v1/openapi.json" if target.tenant is None else f"/v1/tenants/{target.tenant}"
    status = client.get(path).status_code
    if status == 200:
        return Finding(check="token", verdict="ok", detail=f"accepted, tenant {target.tenant or 'none'}")
    meaning = {401: "not accepted", 403: "lacks a role that may read", 404: f"not for a tenant {target.tenant}"}
    detail = meaning.get(status, f"unclear: status {status}")
    return Finding(check="token", verdict="fail", detail=detail, fix="everwhen token")


def _amiss(target: Target, client: httpx2.Client) -> list[Finding]:
    """Say what the sentinel has noticed, where the token may see it."""
    if target.token is None or target.tenant is None:
        return []
    answer = client.get(f"/v1/tenants/{target.tenant}/findings", params={"limit": 200})
    if not answer.is_success:
        return []
    kinds = sorted({finding["kind"] for finding in answer.json()["items"]})
    if not kinds:
        return [Finding(check="findings", verdict="ok", detail="nothing is amiss")]
    return [Finding(check="findings", verdict="warn", detail=", ".join(kinds), fix="everwhen findings")]


def _zones() -> Finding:
    import tzdata

    return Finding(check="time zones", verdict="ok", detail=f"tzdata {tzdata.IANA_VERSION}")


def _database() -> list[Finding]:
    """Look at the database itself, where its address is known."""
    from everwhen.config import load
    from everwhen.errors import ConfigurationError

    try:
        settings = load()
    except ConfigurationError as error:
        return [Finding(check="settings", verdict="fail", detail=str(error))]
    if settings.database_url is None:
        return []
    conninfo = settings.database_url.get_secret_value()
    schema = _schema(conninfo)
    keys = None if settings.sealing_keys is None else settings.sealing_keys.get_secret_value()
    return [schema, *([_sealing(conninfo, keys), *_audit(conninfo, settings)] if schema.verdict == "ok" else [])]


def _brokers() -> list[Finding]:
    """Look at the brokers that are set here."""
    from everwhen.cli.brokers import find_of_brokers
    from everwhen.config import load
    from everwhen.errors import ConfigurationError

    try:
        settings = load()
    except ConfigurationError:
        return []  # told already
    return [Finding(**found._asdict()) for found in find_of_brokers(settings)]


def _sealing(conninfo: str, keys: str | None) -> Finding:
    """Compare the sealing keys that are set here with those that tenants' keys are wrapped by."""
    import asyncio

    from everwhen.errors import ConfigurationError
    from everwhen.sealing.ring import read_ring

    check = "sealing keys"
    try:
        known = set[str]() if keys is None else set(read_ring(keys).keys)
    except ConfigurationError as error:
        return Finding(check=check, verdict="fail", detail=str(error), fix="everwhen key new")
    wrapped = asyncio.run(_wrapped_by(conninfo))
    if lost := sorted(set(wrapped) - known):
        detail = f"{sum(wrapped[name] for name in lost)} tenants' secrets need the key {', '.join(lost)}, not set here"
        return Finding(check=check, verdict="fail", detail=detail, fix="add it to EVERWHEN_SEALING_KEYS")
    if keys is None:
        detail = "none is set: channels of alerts cannot keep secrets"
        return Finding(check=check, verdict="warn", detail=detail, fix="everwhen key new")
    return Finding(check=check, verdict="ok", detail=f"every secret can be opened ({len(known)} set here)")


def _audit(conninfo: str, settings: Settings) -> list[Finding]:
    """Say how far the audit is sealed and noted outside, and whether that is outside at all."""
    import asyncio

    check = "audit"
    standing, unsealed_seconds = asyncio.run(_standing(conninfo))
    if standing.broken:
        detail = f"{standing.broken} chains do not follow from what was noted of them: somebody has changed the audit"
        return [Finding(check=check, verdict="fail", detail=detail, fix="everwhen audit verify")]
    if unsealed_seconds > MOST_SEAL_SECONDS:
        detail = f"events have no link since {unsealed_seconds:.0f} s"
        return [Finding(check=check, verdict="warn", detail=detail, fix="run the role sealer")]
    url = settings.audit_anchor_url
    if url is None and settings.audit_anchor_webhook is None:
        detail = "sealed, and noted nowhere outside: a chain that is hashed anew as a whole would look sound"
        return [Finding(check=check, verdict="warn", detail=detail, fix="set EVERWHEN_AUDIT_ANCHOR_URL")]
    if url is not None and _is_within(url, settings.payload_url, settings.data_dir):
        detail = f"{url} lies where the payloads or the database do: who has these can change it"
        return [Finding(check=check, verdict="warn", detail=detail, fix="give anchors a bucket of their own")]
    noted = "nothing yet" if standing.noted_at is None else f"last at {standing.noted_at:%Y-%m-%d %H:%M:%SZ}"
    verdict = "ok" if standing.noted_at is not None or not standing.chains else "warn"
    fix = "" if verdict == "ok" else "run the role notary"
    detail = f"sealed; {standing.chains} chains, {standing.unanchored} with something not noted outside, {noted}"
    return [Finding(check=check, verdict=verdict, detail=detail, fix=fix)]


def _is_within(url: str, payload_url: str | None, data_dir: Path | None) -> bool:
    from everwhen.postgres.host import default_data_dir

    if "://" in url:
        return payload_url is not None and f"{url.rstrip('/')}/".startswith(f"{payload_url.rstrip('/')}/")
    folder = Path(url).absolute()
    others = [data_dir or default_data_dir(Path.cwd())]
    if payload_url is not None and "://" not in payload_url:
        others.append(Path(payload_url))
    return any(folder.is_relative_to(other.absolute()) for other in others)


async def _standing(conninfo: str) -> tuple[Standing, float]:
    from everwhen.audit.backlog import read_standing
    from everwhen.postgres.pool import Database, PoolLimits

    limits = PoolLimits(min_size=1, max_size=1, borrow_seconds=5.0)
    async with await Database.open(conninfo, limits=limits) as database, database.system() as conn:
        return await read_standing(conn)


async def _wrapped_by(conninfo: str) -> dict[str, int]:
    from everwhen.postgres.pool import Database, PoolLimits
    from everwhen.sealing.service import count_keys

    limits = PoolLimits(min_size=1, max_size=1, borrow_seconds=5.0)
    async with await Database.open(conninfo, limits=limits) as database:
        return {count.wrapped_by: count.tenant_keys for count in await count_keys(database)}


def _schema(conninfo: str) -> Finding:
    import asyncio

    import psycopg

    from everwhen.postgres.errors import MigrationError, UnsafeRoleError

    try:
        asyncio.run(_assert_usable(conninfo))
    except psycopg.OperationalError as error:
        return Finding(check="database", verdict="fail", detail=" ".join(str(error).split())[:200])
    except (MigrationError, UnsafeRoleError) as error:
        return Finding(check="database", verdict="fail", detail=str(error))
    except psycopg.Error as error:
        detail = f"the login may not read the schema: {' '.join(str(error).split())[:200]}"
        return Finding(check="database", verdict="fail", detail=detail, fix="everwhen migrate")
    return Finding(check="database", verdict="ok", detail="reachable, and its schema fits")


async def _assert_usable(conninfo: str) -> None:
    """Connect as a server would."""
    from everwhen.postgres.migrate import assert_compatible
    from everwhen.postgres.pool import Database, PoolLimits

    limits = PoolLimits(min_size=1, max_size=1, borrow_seconds=5.0)
    async with await Database.open(conninfo, limits=limits) as database, database.system() as conn:
        await assert_compatible(conn)
