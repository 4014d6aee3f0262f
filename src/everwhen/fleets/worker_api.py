"""What a worker says of itself: announce, beat, leave. Claim, heartbeat and complete need none of it."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from everwhen.core.fleets import BEAT, MOST_NAMES, MOST_SLOTS, Wish
from everwhen.core.targets import RESERVED
from everwhen.errors import Forbidden, InvalidInput
from everwhen.fleets import model, service
from everwhen.http.access import PermittedRoute
from everwhen.http.edge import principal_of
from everwhen.http.messages import check_amounts, check_labels, check_name, check_word, message_response, read_message
from everwhen.http.principal import Principal
from everwhen.http.roles import Permission
from everwhen.postgres.pool import Database
from everwhen.worker.protocol import Announcement, Beat, Leave, Standing

MOST_BYTES: Final = 1 << 19
MOST_QUEUES: Final = 64
MOST_TASKS: Final = 1_000
MOST_HELD: Final = 1_000_000
MOST_PID: Final = (1 << 31) - 1

Handler = Callable[[Request, Principal], Awaitable[msgspec.Struct]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetApi:
    """The three routes. A worker of the platform needs a token that names its queues, as for a claim."""

    database: Database

    def routes(self) -> list[PermittedRoute]:
        """Return the routes to add to the application."""
        handlers: dict[str, Handler] = {"announce": self.announce, "beat": self.beat, "leave": self.leave}
        return [
            PermittedRoute(
                f"/v1/worker/{name}",
                _endpoint(handler),
                permission=Permission.WORK,
                methods=["POST"],
                name=f"worker.{name}",
            )
            for name, handler in handlers.items()
        ]

    async def announce(self, request: Request, principal: Principal) -> Standing:
        """Note who works, and say how it is wanted."""
        said = await read_message(request, Announcement, most_bytes=MOST_BYTES)
        _check(said, principal)
        announced = model.Announced(
            instance=said.instance,
            name=said.worker,
            sdk=said.sdk,
            version=said.version,
            host=said.host,
            pid=said.pid,
            slots=said.slots,
            tasks=said.tasks,
            queues=list(dict.fromkeys(said.queues)),
            labels=said.labels,
            resources=said.resources,
        )
        return _standing(await service.announce(self.database, tenant_id=principal.tenant_id, said=announced))

    async def beat(self, request: Request, principal: Principal) -> Standing:
        """Note that a worker lives, and say how it is wanted."""
        said = await read_message(request, Beat, most_bytes=MOST_BYTES)
        if not 0 <= said.held <= MOST_HELD:
            raise InvalidInput.at("/held", f"held lies between 0 and {MOST_HELD}")
        check_amounts(said.in_use, "/in_use")
        beat = model.Beat(
            instance=said.instance,
            held=said.held,
            in_use=said.in_use,
            heard=Wish(said.heard),
            is_stopping=said.stopping,
        )
        return _standing(await service.beat(self.database, tenant_id=principal.tenant_id, said=beat))

    async def leave(self, request: Request, principal: Principal) -> Standing:
        """Forget a worker that has stopped."""
        said = await read_message(request, Leave, most_bytes=MOST_BYTES)
        await service.leave(self.database, tenant_id=principal.tenant_id, instance=said.instance)
        return _standing(None)


def _check(said: Announcement, principal: Principal) -> None:
    check_name(said.worker, "/worker")
    if not 1 <= said.slots <= MOST_SLOTS:
        raise InvalidInput.at("/slots", f"slots lie between 1 and {MOST_SLOTS}")
    if said.pid is not None and not 1 <= said.pid <= MOST_PID:
        raise InvalidInput.at("/pid", "a process id is a number above 0")
    for pointer, word in (("/sdk", said.sdk), ("/version", said.version), ("/host", said.host)):
        if word is not None:
            check_word(word, pointer)
    check_labels(said.labels, "/labels")
    check_amounts(said.resources, "/resources")
    _check_names(said)
    _check_queues(said, principal)


def _check_names(said: Announcement) -> None:
    tasks = said.tasks or []
    if not 1 <= len(said.queues) <= MOST_QUEUES:
        raise InvalidInput.at("/queues", f"name between 1 and {MOST_QUEUES} queues")
    if len(tasks) > MOST_TASKS:
        raise InvalidInput.at("/tasks", f"name at most {MOST_TASKS} tasks")
    for pointer, names in (("/queues", said.queues), ("/tasks", tasks)):
        for name in names:
            check_name(name, pointer)
    if sum(map(len, said.queues)) + sum(map(len, tasks)) > MOST_NAMES:
        raise InvalidInput.at("/tasks", f"the names have more than {MOST_NAMES} characters together")


def _check_queues(said: Announcement, principal: Principal) -> None:
    if any(name.startswith(RESERVED) for name in said.queues):
        raise InvalidInput.at("/queues", "a queue of the server's own; no worker may claim from it")
    if principal.tenant_id is None and principal.queues is None:
        raise Forbidden("a worker of the platform needs a token that names its queues")
    if principal.queues is not None and (foreign := set(said.queues) - set(principal.queues)):
        raise Forbidden(f"the token does not allow the queue {min(foreign)}")


def _endpoint(handler: Handler) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def endpoint(request: Request) -> Response:
        return message_response(await handler(request, principal_of(request)))

    return endpoint


def _standing(found: model.Standing | None) -> Standing:
    if found is None:
        return Standing(known=False, beat_seconds=BEAT.total_seconds())
    return Standing(
        known=True,
        worker_id=found.worker_id,
        wish=Wish(found.wish).value,
        exits=found.exits,
        beat_seconds=BEAT.total_seconds(),
    )
