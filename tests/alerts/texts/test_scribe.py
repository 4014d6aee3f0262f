"""Writing a message holds up nobody: not the loop, and no other tenant."""

import asyncio
import threading
from dataclasses import replace

import pytest

from everwhen.alerts.message import Message, Rendered
from everwhen.alerts.texts import service
from everwhen.alerts.texts.samples import sample
from everwhen.alerts.texts.service import THREADS, Scribe
from tests.factories import make_tenant


class Slow:
    """Writes a message for as long as nobody lets it go, of the tenant `slow` only."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()

    def __call__(self, message: Message, **_: object) -> Rendered:
        if message.tenant == "slow":
            self.begun.release()
            assert self.let_go.wait(60)
        return Rendered(subject=message.tenant, text="", html="")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(service, "render", made)
    return made


def of(name: str) -> Message:
    return replace(sample("run.dead"), tenant=name)


async def test_a_message_that_takes_long_to_write_holds_up_neither_the_loop_nor_another_tenant(database, slow):
    mine, other = await make_tenant(database), await make_tenant(database)
    scribe = Scribe(database)
    async with asyncio.TaskGroup() as tasks:
        held = [tasks.create_task(scribe.write(mine.id, of("slow"))) for _ in range(THREADS + 1)]
        assert await asyncio.to_thread(slow.begun.acquire, timeout=60)

        assert (await scribe.write(other.id, of("quick"))).subject == "quick"
        assert not any(each.done() for each in held)
        assert not slow.begun.acquire(blocking=False)  # one of a tenant's messages is written at a time
        slow.let_go.set()

    assert [each.result().subject for each in held] == ["slow"] * (THREADS + 1)
