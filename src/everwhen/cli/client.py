"""The command line's way to the API: where it is, one call, and what each failure means for the exit code."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from everwhen.cli.contexts import Profile, choose, chosen, load, named_on_command_line, token_of

if TYPE_CHECKING:
    import httpx2

DEFAULT_URL: Final = "http://127.0.0.1:8484"
CLIENT_FILE: Final = Path(".everwhen") / "client.json"
TIMEOUT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = (0.2, 0.5, 1.0)

USAGE, NOT_FOUND, DENIED, CONFLICT, UNAVAILABLE, STILL_WAITING, UNSUCCESSFUL, INTERRUPTED = 2, 3, 4, 5, 6, 7, 10, 130
"""Exit codes; docs/reference/cli.md says what each means."""

_EXIT_CODES: Final = {401: DENIED, 403: DENIED, 404: NOT_FOUND, 409: CONFLICT, 412: CONFLICT, 429: UNAVAILABLE}
_TARGET: Final = "everwhen.cli.target"
_REPEATABLE: Final = frozenset({"GET", "HEAD"})


class CallFailed(Exception):  # noqa: N818  # an answer, not an accident
    """The API refused, or could not be reached."""

    def __init__(self, problem: dict[str, Any], *, exit_code: int) -> None:
        super().__init__(str(problem.get("detail", "the request failed")))
        self.problem = problem
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which server, as whom, and which tenant.

    `context` is where that was found. In a `protected` one, what destroys needs the tenant's name on the command line,
    which `is_named` says is there.
    """

    url: str
    token: str | None
    tenant: str | None
    context: str | None = None
    protected: bool = False
    is_named: bool = False


class Api:
    """One server, one token. Reads are repeated when the server is away; writes only under an idempotency key."""

    def __init__(self, target: Target) -> None:
        import httpx2

        self.target = target
        headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
        self._client: httpx2.Client = httpx2.Client(base_url=target.url, headers=headers, timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def tenant_path(self, *parts: str) -> str:
        """Return the path of something in the tenant; end with what is missing when no tenant is known."""
        if self.target.tenant is None:
            raise click.UsageError("name a tenant with --tenant or EVERWHEN_TENANT")
        return "/".join(["/v1/tenants", *(quote(part, safe="@:+") for part in (self.target.tenant, *parts))])

    def change(self, method: str, path: str, *, force: bool, body: Any = None, **params: Any) -> Any:
        """Change what is there now: read its tag and send it along; with `force` change it whatever it is by then."""
        match = "*" if force else self._tag_of(path)
        return self.call(method, path, body=body, match=match, **params)

    def put(self, path: str, *, body: Any) -> Any:
        """Make what is not there, or replace it, whatever it is: what applying a file does."""
        try:
            return self.call("PUT", path, body=body, match="*")
        except CallFailed as error:
            if error.exit_code != NOT_FOUND:
                raise
        return self.call("PUT", path, body=body, absent=True)

    def _tag_of(self, path: str) -> str:
        answer = self.send("GET", path)
        if not answer.is_success:
            raise failure_of(answer)
        return answer.headers["ETag"]

    def call(  # what a request says
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        key: str | None = None,
        match: str | None = None,
        absent: bool = False,
        **params: Any,
    ) -> Any:
        """Return the answer's JSON; raise CallFailed. `match` is the tag of what is changed, or nothing is there."""
        said = {"Idempotency-Key": key, "If-Match": match, "If-None-Match": "*" if absent else None}
        headers = {name: value for name, value in said.items() if value is not None}
        given = {name: value for name, value in params.items() if value is not None}
        waits = RETRY_SECONDS if method in _REPEATABLE or key is not None else ()
        for wait in (*waits, None):
            try:
                return self._once(method, path, body=body, headers=headers, params=given)
            except CallFailed as error:
                if wait is None or error.exit_code != UNAVAILABLE:
                    raise
                time.sleep(wait)
        raise AssertionError("the last round returns or raises")

    def _once(self, method: str, path: str, *, body: Any, headers: dict[str, str], params: dict[str, Any]) -> Any:
        answer = self.send(method, path, body=body, headers=headers, params=params)
        if answer.is_success:
            return answer.json() if answer.content else None
        raise failure_of(answer)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> httpx2.Response:
        """Return the answer, whatever its status; raise CallFailed when there is none."""
        with self._reached():
            # A path from an answer's `next` has its query in it; an empty mapping would drop that.
            return self._client.request(method, path, json=body, headers=headers, params=params or None)

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        content: Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        **params: str,
    ) -> Generator[httpx2.Response]:
        """Send, and receive, what is too large to be kept; raise CallFailed when the server does not answer."""
        with (
            self._reached(),
            self._client.stream(
                method,
                path,
                content=content,
                headers=headers,
                params=(query or {}) | params or None,
                timeout=timeout,
            ) as answer,
        ):
            yield answer

    @contextlib.contextmanager
    def _reached(self) -> Generator[None]:
        import httpx2

        try:
            yield
        except httpx2.TransportError as error:
            detail = f"{self.target.url} does not answer ({type(error).__name__}): is `everwhen up` running here?"
            raise CallFailed({"detail": detail, "retryable": True}, exit_code=UNAVAILABLE) from error
        except httpx2.InvalidURL as error:
            raise CallFailed({"detail": f"{self.target.url} is no URL: {error}"}, exit_code=USAGE) from error


class PlainClient:
    """One server, one token, and the answers as they are, whatever their status."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def post(self, path: str, json: Any) -> httpx2.Response:
        """Send one request; end in one line when the server does not answer."""
        with one_line_failures("table"):
            return self._api.send("POST", path, body=json)


def open_client() -> PlainClient:
    """Connect as the environment, or this folder, says; the connection closes with the command."""
    api = Api(find_target())
    click.get_current_context().call_on_close(api.close)
    return PlainClient(api)


def find_target(*, url: str | None = None, tenant: str | None = None) -> Target:
    """Options beat the environment, which beats the context, and that what `everwhen up` left in this folder.

    A context that is named with `-c` is an option itself. Raises UsageError where none of several contexts is meant.
    """
    environment: Mapping[str, str] = {} if named_on_command_line() else os.environ
    address = url or environment.get("EVERWHEN_URL") or None
    local = read_client_file()
    contexts = load()
    name = chosen(contexts, is_local=bool(local), is_needed=address is None)
    if name is None:
        found = _local_target(local, address)
    else:
        found = _target_of(name, contexts.get(name), address, has_token=bool(environment.get("EVERWHEN_TOKEN")))
    found = replace(
        found,
        token=environment.get("EVERWHEN_TOKEN") or found.token,
        tenant=tenant or environment.get("EVERWHEN_TENANT") or found.tenant,
        is_named=tenant is not None,
    )
    if (running := click.get_current_context(silent=True)) is not None:
        running.find_root().meta[_TARGET] = found
    return found


def current_target() -> Target | None:
    """Return where the command at hand goes to; None before it has found that."""
    running = click.get_current_context(silent=True)
    return None if running is None else running.find_root().meta.get(_TARGET)


def _local_target(local: dict[str, str], address: str | None) -> Target:
    url = (address or local.get("url") or DEFAULT_URL).rstrip("/")
    return Target(url=url, token=local.get("token"), tenant=local.get("tenant"))


def _target_of(name: str, profile: Profile, address: str | None, *, has_token: bool) -> Target:
    """Return a context's target. To another address than its own neither its token nor its tenant goes along."""
    if address is not None and address.rstrip("/") != profile.url:
        return Target(url=address.rstrip("/"), token=None, tenant=None, context=name, protected=profile.protected)
    token = None if has_token else token_of(name, profile)
    return Target(url=profile.url, token=token, tenant=profile.tenant, context=name, protected=profile.protected)


def read_client_file() -> dict[str, str]:
    """Return what `everwhen up` wrote here; nothing where it did not."""
    try:
        found = json.loads(CLIENT_FILE.read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def with_api(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command its connection as `api` and its `output` format, and end it in one line when a call fails."""

    @click.option("-t", "--tenant", help="The tenant's name. [env: EVERWHEN_TENANT]")
    @click.option("-c", "--context", help="The context to go to. [env: EVERWHEN_CONTEXT]")
    @click.option("--url", help="The server's address. [env: EVERWHEN_URL]")
    @click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "ndjson", "name"]),
        default="table",
        show_default=True,
        help="How to print.",
    )
    @functools.wraps(function)
    def command(*, tenant: str | None, context: str | None, url: str | None, output: str, **options: Any) -> None:
        choose(context)
        with one_line_failures(output):
            api = Api(find_target(url=url, tenant=tenant))
            try:
                function(api=api, output=output, **options)
            finally:
                api.close()

    return command


def force_option(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command that changes something `--force`."""
    return click.option("--force", is_flag=True, help="Change it even if somebody else has changed it meanwhile.")(
        function
    )


@contextlib.contextmanager
def one_line_failures(output: str) -> Generator[None]:
    """End with the failure's exit code, and one line, or the problem itself where JSON was asked for."""
    try:
        yield
    except CallFailed as error:
        click.echo(json.dumps(error.problem) if output in {"json", "ndjson"} else _line(error.problem), err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def failure_of(answer: httpx2.Response) -> CallFailed:
    """Return what an unsuccessful answer means."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {"detail": f"{answer.request.url} answered {answer.status_code} without a problem", "status": 0}
    fallback = UNAVAILABLE if answer.status_code >= 500 and problem.get("retryable", True) else 1
    exit_code = _EXIT_CODES.get(answer.status_code, USAGE if 400 <= answer.status_code < 500 else fallback)
    return CallFailed(problem, exit_code=exit_code)


def _line(problem: dict[str, Any]) -> str:
    where = ", ".join(sorted({error["pointer"] for error in problem.get("errors", ()) if error.get("pointer")}))
    detail = " ".join(str(problem.get("detail", "the request failed")).split())
    told = [part for part in (problem.get("code"), where, problem.get("request_id")) if part]
    return f"everwhen: {detail}" + (f"  ({' · '.join(told)})" if told else "")
