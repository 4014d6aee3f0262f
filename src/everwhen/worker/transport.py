"""How messages reach the server: one small protocol, and HTTP as its first implementation.

`claim` and `complete` are awaited on the event loop. `heartbeat` blocks and is called from the lease thread only, on a
connection of its own, so that nothing on the loop can delay it.
"""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeVar

import httpx2
import msgspec

from everwhen.worker.errors import RequestRefused, ServerAway, Unauthorised
from everwhen.worker.protocol import (
    Announcement,
    Beat,
    ClaimedRun,
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    CompleteResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    Leave,
    LogAnswer,
    MailboxesRequest,
    MailboxesResponse,
    Problem,
    Standing,
)
from everwhen.worker.settings import Settings

CONNECT_SECONDS = 5.0
COMPLETE_SECONDS = 15.0
LOG_SECONDS = 15.0
LEAST_HEARTBEAT_SECONDS = 1.0
PRESENCE_SECONDS = 5.0
DOWNLOAD_SECONDS = 60.0
"""How long a download may stand still."""

MOST_QUOTED_CHARACTERS = 300

_OK = 200
_COME_BACK = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNAUTHORISED = frozenset({401, 403})

T = TypeVar("T")


class Transport(Protocol):
    """Carries the three messages of a worker; raises ServerAway, RequestRefused or Unauthorised, nothing else."""

    async def claim(self, request: ClaimRequest) -> ClaimResponse:
        """Wait for work; cancelling the call ends the wait."""
        ...

    async def complete(self, request: CompleteRequest) -> CompleteResponse:
        """Report outcomes."""
        ...

    async def mailboxes(self, request: MailboxesRequest) -> MailboxesResponse:
        """Ask where a broker keeps what is announced."""
        ...

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Renew leases; blocks, and runs on the lease thread."""
        ...

    def download(self, run: ClaimedRun, digest: str, write: Callable[[bytes], object]) -> None:
        """Fetch a payload of a run; blocks, and runs on a task's thread."""
        ...

    def announce(self, said: Announcement) -> Standing:
        """Say who works here; blocks, and runs on the presence thread."""
        ...

    def beat(self, said: Beat) -> Standing:
        """Say that this worker lives; blocks, and runs on the presence thread."""
        ...

    def leave(self, said: Leave) -> Standing:
        """Say that this worker has stopped; blocks, and runs on the presence thread."""
        ...

    def send_log(self, run: ClaimedRun, piece: int, data: bytes) -> LogAnswer:
        """Send a piece of a run's log; blocks, and runs on the thread that sends logs."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class HttpTransport:
    """The worker API of the server over HTTP."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the clients; nothing is sent yet."""
        self._claim_timeout = httpx2.Timeout(
            settings.poll_seconds + max(2.0, settings.lease_seconds / 6), connect=CONNECT_SECONDS
        )
        self._complete_timeout = httpx2.Timeout(COMPLETE_SECONDS, connect=CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {settings.token}", "Content-Type": "application/json"}
        beat = max(LEAST_HEARTBEAT_SECONDS, settings.beat_seconds / 2)
        limits = httpx2.Limits(max_connections=settings.fetchers + 2, max_keepalive_connections=settings.fetchers + 2)
        self._base = settings.url + "/v1/worker/"
        self._client = httpx2.AsyncClient(headers=headers, limits=limits)
        self._beat_client = httpx2.Client(headers=headers, timeout=httpx2.Timeout(beat))
        self._presence_client = httpx2.Client(headers=headers, timeout=httpx2.Timeout(PRESENCE_SECONDS))
        self._download_client = httpx2.Client(headers=headers, timeout=httpx2.Timeout(DOWNLOAD_SECONDS))
        self._log_client = httpx2.Client(
            headers={**headers, "Content-Type": "application/octet-stream"}, timeout=httpx2.Timeout(LOG_SECONDS)
        )
        self._encoder = msgspec.json.Encoder()

    async def claim(self, request: ClaimRequest) -> ClaimResponse:
        """Long poll for runs."""
        return await self._post("claim", request, ClaimResponse, self._claim_timeout)

    async def complete(self, request: CompleteRequest) -> CompleteResponse:
        """Report outcomes."""
        return await self._post("complete", request, CompleteResponse, self._complete_timeout)

    async def mailboxes(self, request: MailboxesRequest) -> MailboxesResponse:
        """Ask where a broker keeps what is announced."""
        return await self._post("mailboxes", request, MailboxesResponse, self._complete_timeout)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Renew leases, on the calling thread."""
        return self._post_blocking(self._beat_client, "heartbeat", request, HeartbeatResponse)

    def announce(self, said: Announcement) -> Standing:
        """Say who works here, on the calling thread."""
        return self._post_blocking(self._presence_client, "announce", said, Standing)

    def beat(self, said: Beat) -> Standing:
        """Say that this worker lives, on the calling thread."""
        return self._post_blocking(self._presence_client, "beat", said, Standing)

    def leave(self, said: Leave) -> Standing:
        """Say that this worker has stopped, on the calling thread."""
        return self._post_blocking(self._presence_client, "leave", said, Standing)

    def download(self, run: ClaimedRun, digest: str, write: Callable[[bytes], object]) -> None:
        """Fetch a payload, on the calling thread."""
        url = f"{self._base}payloads/{run.tenant_id}/{run.run_id}/{digest}"
        try:
            with self._download_client.stream("GET", url, headers={"Lease-Token": run.lease_token}) as response:
                if response.status_code != _OK:
                    response.read()
                    read(response, Problem)
                for chunk in response.iter_bytes():
                    write(chunk)
        except httpx2.HTTPError as error:
            raise _away(error) from error

    def send_log(self, run: ClaimedRun, piece: int, data: bytes) -> LogAnswer:
        """Send a piece of a log, on the calling thread."""
        url = f"{self._base}logs/{run.tenant_id}/{run.run_id}/{piece}"
        try:
            response = self._log_client.put(url, content=data, headers={"Lease-Token": run.lease_token})
        except httpx2.HTTPError as error:
            raise _away(error) from error
        return read(response, LogAnswer)

    async def close(self) -> None:
        """Close the clients."""
        self._log_client.close()
        self._beat_client.close()
        self._presence_client.close()
        self._download_client.close()
        await self._client.aclose()

    def _post_blocking(self, client: httpx2.Client, path: str, request: msgspec.Struct, answer: type[T]) -> T:
        body = msgspec.json.encode(request)  # not the loop's encoder: this is another thread
        try:
            response = client.post(self._base + path, content=body)
        except (httpx2.HTTPError, RuntimeError) as error:  # RuntimeError: the client was closed, the worker has ended
            raise _away(error) from error
        return read(response, answer)

    async def _post(self, path: str, request: msgspec.Struct, answer: type[T], limits: httpx2.Timeout) -> T:
        body = self._encoder.encode(request)
        try:
            response = await self._client.post(self._base + path, content=body, timeout=limits)
        except httpx2.HTTPError as error:
            raise _away(error) from error
        return read(response, answer)


def read(response: httpx2.Response, answer: type[T]) -> T:
    """Return the decoded answer of a 200, or raise what its status means."""
    status = response.status_code
    if status == _OK:
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.MsgspecError as error:
            raise ServerAway(f"{response.url} sent an answer that this worker cannot read: {error}") from error
    problem = _problem(response)
    message = f"{response.url} answered {status} {problem.detail or problem.title}".rstrip()
    if problem.request_id:
        message += f" (request {problem.request_id})"
    if status in _UNAUTHORISED:
        raise Unauthorised(message)
    if status in _COME_BACK:
        raise ServerAway(message, retry_after=retry_after_seconds(response.headers))
    raise RequestRefused(message, status=status, code=problem.code)


def retry_after_seconds(headers: httpx2.Headers) -> float | None:
    """Return Retry-After in seconds; a date counts from the server's own Date, so no clock is compared with another."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        return max(0.0, float(text)) if text[0].isdigit() else _between(headers.get("date", ""), text)
    except ValueError:
        return None


def _between(start: str, end: str) -> float:
    return max(0.0, (parsedate_to_datetime(end) - parsedate_to_datetime(start)).total_seconds())


def _away(error: Exception) -> ServerAway:
    return ServerAway(f"{type(error).__name__}: {error}".rstrip(": "))


def _problem(response: httpx2.Response) -> Problem:
    try:
        return msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        return Problem(title=response.text[:MOST_QUOTED_CHARACTERS])
