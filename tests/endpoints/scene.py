"""A tenant with a queue whose fleet is an endpoint, and the caller that serves it."""

import base64
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from everwhen.dispatch.service import Dispatch
from everwhen.dispatch.tokens import LeaseTokens
from everwhen.endpoints import calling, service
from everwhen.endpoints.caller import Caller
from everwhen.endpoints.model import Endpoint, EndpointDraft
from everwhen.endpoints.service import EndpointsDesk
from everwhen.postgres.pool import Database
from everwhen.revisions import ANY, NONE
from tests.alerts.scene import PlainSealer
from tests.dispatch.scene import Line, database_now, make_line, rows
from tests.egress.guarded import egress

SECRET, OLD_SECRET = ("whsec_" + base64.b64encode(letter * 24).decode() for letter in (b"n", b"o"))
TOKENS = LeaseTokens("a secret of tests, of 32 bytes at least")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The line of a tenant at a queue with an endpoint."""

    db: Database
    line: Line
    desk: EndpointsDesk
    caller: Caller

    async def turn(self, *, count: int = 1) -> None:
        """Let the caller look, and wait until what it began has ended and is written."""
        for _ in range(count):
            await self.caller.tick(await database_now(self.db))
            await self.caller.calls.settle()

    async def endpoint(self) -> Endpoint:
        return await service.get_endpoint(self.db, tenant_id=self.line.tenant.id, queue="line")

    async def change(self, **changes: Any) -> Endpoint:
        draft = EndpointDraft(**changes)
        made, _ = await service.put_endpoint(
            self.desk, tenant_id=self.line.tenant.id, queue="line", draft=draft, by="tester", expected=ANY
        )
        return made

    async def ends(self) -> list[tuple[str, ...]]:
        """The ends of runs: (state, reason)."""
        return await rows(self.db, "select state, reason from everwhen.run_ends order by run_id")

    async def outcomes(self) -> list[str]:
        return [row[0] for row in await rows(self.db, "select outcome from everwhen.attempts order by run_id, attempt")]

    async def errors(self) -> list[dict]:
        found = await rows(self.db, "select error::text from everwhen.attempts where error is not null")
        return [json.loads(text) for (text,) in found]

    async def rest_is_over(self) -> None:
        """Let time pass until the endpoint's rest is over."""
        async with self.db.system() as conn:
            await conn.execute("update everwhen.endpoint_states set rests_until = now() - interval '1 ms'")


def make_caller(db: Database, *, jitter: float = 0.0, **policy: Any) -> Caller:
    outside = calling.Outside(egress=egress(per_tenant=64, **policy), tokens=TOKENS, jitter=lambda: jitter)
    calls = calling.Calls(database=db, dispatch=Dispatch(db, jitter=lambda: 0.0), outside=outside)
    return Caller(database=db, sealer=PlainSealer(), calls=calls)


async def make_scene(db: Database, *, url: str, task: dict[str, Any] | None = None, **endpoint: Any) -> Scene:
    line = await make_line(db, **(task or {}))
    caller = make_caller(db)
    desk = EndpointsDesk(database=db, sealer=PlainSealer(), policy=caller.calls.outside.egress.policy)
    draft = EndpointDraft(url=url, **({"secrets": {"secret": SECRET}} | endpoint))
    await service.put_endpoint(desk, tenant_id=line.tenant.id, queue="line", draft=draft, by="tester", expected=NONE)
    return Scene(db=db, line=line, desk=desk, caller=caller)


SECOND = timedelta(seconds=1)
