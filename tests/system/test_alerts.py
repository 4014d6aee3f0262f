"""Ten thousand events, while each receiver is down for a while and notifiers are killed at random: none is lost.

    ALERT_EVENTS=2000 ALERT_SEED=7 pytest tests/system/test_alerts.py     fewer, or the same again

Runs end as a worker reports them, in ten tenants, each with a channel of every kind; four more channels go to receivers
that never take anything. Three notifier processes share the work, and one is killed every few seconds. Judged by the
receivers, which keep what they took and when, against the database:

    every event × channel    was told once, by a message that was delivered, or is dead with its last error
    delivered                its receiver took it
    taken more than once     each time but the last, its notifier was killed before it wrote that down, or the receiver
                             cut the connection before it had answered
"""

import asyncio
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random  # noqa: TID251  # a run of the test is drawn by its seed, which a failure names
from typing import Any, Final
from uuid import UUID

import pytest

from everwhen import clock
from everwhen.alerts import service, subscribing
from everwhen.alerts.assembling import make_kit
from everwhen.alerts.model import ChannelDraft, SubscriptionDraft
from everwhen.alerts.service import AlertsDesk, Kit
from everwhen.config import Settings
from everwhen.core.alert_kinds import AlertKind
from everwhen.core.alerting import occasion_id
from everwhen.dispatch.service import Claim, Dispatch
from everwhen.outside import make_channels
from everwhen.postgres.pool import Database
from everwhen.sealing.ring import new_entry, read_ring
from everwhen.sealing.service import Sealer
from everwhen.tenants.model import Tenant
from everwhen.verify.service import verify
from everwhen.worker.protocol import RunError
from tests.alerts.certificates import authority
from tests.alerts.servers import HANG, HttpsReceiver
from tests.dispatch.scene import LINE, fill, report_on
from tests.factories import NEVER_AGAIN, WORKER, make_task, make_tenant
from tests.hunting import dump_of, found
from tests.system.fleet import SECRET, Fleet, running_fleet, wait_until
from tests.system.receivers import KEY, PASSWORD, Chat, Hook, Post, Receivers
from tests.system.zygote import Zygote

pytestmark = pytest.mark.system

EVENTS: Final = int(os.environ.get("ALERT_EVENTS", "10000"))
SEED: Final = os.environ.get("ALERT_SEED", "")
TENANTS: Final = 10
NOTIFIERS: Final = 3
SECONDS: Final = max(20.0, EVENTS / 150)
"""How long it takes for everything to happen; each receiver is down for an eighth of it, one after another."""

KILL_EVERY: Final = (1.5, 4.0)
TROUBLE_EVERY: Final = 0.3
PATIENCE: Final = 240.0
ORDINARY: Final = ("hook", "chat", "mail")
HOSTILE: Final = ("nobody-there", "never-now", "wrong-password", "black-hole")
"""Of the first tenants, one each: 550, 451 for ever, 535, and a receiver that takes requests and answers none."""

BOOM: Final = RunError(type="Boom", message="it broke")
OTHER_KEY: Final = "whsec_" + "Y2FuYXJ5LW9mLXRoZS1zeXN0ZW0tdGVzdC0y"
WRONG_PASSWORD: Final = "canary-wrong/password"  # nobody's


@dataclass
class Killed:
    """A notifier that was killed, by the name that it gave to its tries."""

    name: str
    at: datetime


@dataclass
class Scene:
    """The fleet, its receivers, and what was done to them."""

    fleet: Fleet
    receivers: Receivers
    rng: Random
    environment: dict[str, str]
    kit: Kit
    tenants: list[Tenant] = field(default_factory=list[Tenant])
    killed: list[Killed] = field(default_factory=list[Killed])
    happened: list[UUID] = field(default_factory=list[UUID])

    def channels_of(self, number: int) -> tuple[str, ...]:
        return ORDINARY + HOSTILE[number : number + 1]


@contextmanager
def running_scene(seed: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        stack.enter_context(receivers := _Open())
        zygote = Zygote()
        stack.callback(zygote.close)
        fleet = stack.enter_context(running_fleet(zygote))
        ports = [each.port for each in (receivers.found.hook, receivers.found.chat, receivers.found.black_hole)]
        environment = {
            "sealing_keys": new_entry("test"),
            "egress_allow": "127.0.0.0/8,::1/128",
            "egress_ports": ",".join(map(str, ports)),
            "egress_mail_ports": str(receivers.found.post.port),
            "egress_ca_file": str(authority().file),
            "egress_per_tenant": "16",
            "slack_hosts": "localhost",
            "alert_retry_seconds": "60",
            "alert_retry_first_seconds": "0.5",
            "alert_retry_most_seconds": "4",
            "alert_lease_seconds": "12",
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(f"EVERWHEN_{name.upper()}", value)
            kinds = make_channels(Settings(jwt_secret=SECRET))  # pyright: ignore[reportCallIssue]
        kit = make_kit(kinds, Sealer(read_ring(environment["sealing_keys"])), secret=SECRET)
        variables = {f"EVERWHEN_{name.upper()}": value for name, value in environment.items()}
        yield Scene(fleet, receivers.found, Random(seed), variables, kit)


class _Open(ExitStack):
    """The receivers, listening."""

    def __init__(self) -> None:
        super().__init__()
        black_hole = HttpsReceiver()
        black_hole.ordinary = HANG
        self.found = Receivers(Hook(), Chat(), Post(), black_hole)
        for each in (*self.found.all, black_hole):
            self.enter_context(each)


async def define(scene: Scene, db: Database) -> None:
    """Tenants with a task, channels and a subscription to all of them."""
    for number in range(TENANTS):
        tenant = await make_tenant(db, name=f"tenant-{number}")
        await make_task(db, tenant, queue=LINE, retry=NEVER_AGAIN)
        scene.tenants.append(tenant)
        desk = AlertsDesk(database=db, kit=scene.kit)
        for name in scene.channels_of(number):
            draft = _draft(scene, name)
            await service.create_channel(desk, tenant_id=tenant.id, name=name, draft=draft, by="system-test")
        wish = SubscriptionDraft(kinds=frozenset({AlertKind.RUN_DEAD}), channels=scene.channels_of(number))
        await subscribing.create_subscription(db, tenant_id=tenant.id, name="dead", draft=wish, by="system-test")
        await fill(db, tenant, count=EVENTS // TENANTS)
    scene.fleet.sql.execute("update everwhen.alert_outlets set verified_at = now()")  # as if all had worked once


def _draft(scene: Scene, name: str) -> ChannelDraft:
    receivers, window = scene.receivers, 5.0 if name in HOSTILE else 0.0
    if name == "chat":
        return ChannelDraft(kind="slack", configuration={}, secrets={"url": receivers.chat.url}, window_seconds=window)
    if name in {"hook", "black-hole"}:
        url = receivers.hook.url if name == "hook" else receivers.black_hole.url
        secrets = {"secret": OTHER_KEY, "secret_previous": KEY}  # it rotates: the receiver knows the old one
        return ChannelDraft(kind="webhook", configuration={"url": url}, secrets=secrets, window_seconds=window)
    to = {"nobody-there": "550@example.org", "never-now": "451@example.org"}.get(name, "ops@example.org")
    configuration = {
        "host": "localhost",
        "port": receivers.post.port,
        "username": "user",
        "from": "everwhen@example.com",
        "to": [to],
    }
    password = WRONG_PASSWORD if name == "wrong-password" else PASSWORD
    return ChannelDraft(
        kind="email", configuration=configuration, secrets={"password": password}, window_seconds=window
    )


async def let_it_happen(scene: Scene, db: Database) -> None:
    """Runs fail, as a worker reports them, a few of each tenant at a time."""
    dispatch = Dispatch(db, jitter=clock.jitter)
    a_time, began = 10, time.monotonic()
    rounds = EVENTS // TENANTS // a_time
    for number in range(rounds):
        for tenant in scene.tenants:
            claim = Claim(
                tenant_id=tenant.id, queues=(LINE,), tasks=None, worker=WORKER, limit=a_time, lease_seconds=60.0
            )
            leases = (await dispatch.claim(claim)).leases
            reports = [report_on(lease, "failed", error=BOOM) for lease in leases]
            answers = await dispatch.complete(tenant.id, WORKER, reports)
            scene.happened += [lease.run_id for lease, answer in zip(leases, answers, strict=True) if answer.accepted]
        await asyncio.sleep(max(0.0, began + SECONDS * (number + 1) / rounds - time.monotonic()))


async def _whole(scene: Scene) -> None:
    async with await Database.open(scene.fleet.server.app_conninfo) as db:
        await let_it_happen(scene, db)


def rage(scene: Scene) -> None:
    """Kill notifiers, take receivers down one after another and trouble them, until everything has happened."""
    happening = ThreadPoolExecutor(1).submit(lambda: asyncio.run(_whole(scene)))
    running = [scene.fleet.serve("notifier", environment=scene.environment) for _ in range(NOTIFIERS)]
    began = time.monotonic()
    downs = [
        (began + SECONDS * (0.15 + 0.25 * number), began + SECONDS * (0.275 + 0.25 * number), receiver)
        for number, receiver in enumerate(scene.receivers.all)
    ]
    kill_at = trouble_at = began
    while not happening.done():
        time.sleep(0.05)
        now = time.monotonic()
        for down_at, up_at, receiver in downs:
            if down_at <= now < up_at and receiver.is_up:
                receiver.down()
            elif now >= up_at and not receiver.is_up:
                receiver.up()
        if now >= trouble_at:
            scene.receivers.disturb(scene.rng)
            trouble_at = now + TROUBLE_EVERY
        if now >= kill_at and now > began + 2:
            number = scene.rng.randrange(NOTIFIERS)
            scene.killed.append(Killed(_name_of(running[number].pid), clock.process_now()))
            scene.fleet.kill(running[number])
            running[number] = scene.fleet.serve("notifier", environment=scene.environment)
            kill_at = now + scene.rng.uniform(*KILL_EVERY)
    for receiver in scene.receivers.all:
        receiver.up()
    happening.result()


def _name_of(pid: int) -> str:
    return f"{os.uname().nodename}-{pid}"


def is_over(scene: Scene) -> bool:
    open_ones = "select count(*) from everwhen.alert_deliveries where look_at is not null"
    return scene.fleet.count("alert_signals") == 0 and scene.fleet.fetch(open_ones) == [(0,)]


def test_no_alert_is_lost_though_receivers_are_down_and_notifiers_are_killed(capsys: pytest.CaptureFixture[str]):
    seed = SEED or clock.new_secret()
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)  # the mail server's library tells of each cut connection
    with running_scene(seed) as scene:

        async def prepare() -> None:
            async with await Database.open(scene.fleet.server.app_conninfo) as db:
                await define(scene, db)

        asyncio.run(prepare())
        rage(scene)
        assert len(scene.happened) == EVENTS
        wait_until(lambda: is_over(scene), seconds=PATIENCE, what=f"every alert has ended (seed {seed})")
        judge = Judge(scene)
        figures = judge.figures()
        with capsys.disabled():
            sys.stdout.write(f"\nseed {seed}\n{json.dumps(figures, indent=1)}\n")

        assert judge.told_otherwise() == [], f"seed {seed}"
        assert judge.without_an_outcome() == [], f"seed {seed}"
        assert judge.lost() == [], f"seed {seed}"
        assert judge.unexplained == [], f"seed {seed}"
        assert judge.miscounted() == [], f"seed {seed}"
        assert figures["dead"].keys() >= {"nobody-there", "never-now", "wrong-password", "black-hole"}
        assert {"550", "451", "535"} <= figures["answered badly"]["mail"].keys()
        assert {"429", "500"} <= figures["answered badly"]["chat"].keys()
        assert asyncio.run(_broken_promises(scene)) == {}
        assert_that_no_secret_got_out(scene)


async def _broken_promises(scene: Scene) -> dict[str, Any]:
    async with await Database.open(scene.fleet.server.app_conninfo) as db:
        return await verify(db)


def assert_that_no_secret_got_out(scene: Scene) -> None:
    """Not into the database, and not into what the processes said."""
    secrets = [KEY, OTHER_KEY, PASSWORD, WRONG_PASSWORD, scene.receivers.chat.url, SECRET]
    secrets += [key.removeprefix("whsec_") for key in (KEY, OTHER_KEY)]
    dump = dump_of(scene.fleet.server.superuser_conninfo)
    logs = "".join(path.read_text(errors="replace") for path in Path(scene.fleet.folder).glob("*.log"))

    assert "everwhen.alert_tries" in dump  # what is looked through is what was meant
    assert "alert." in logs
    assert found(dump + logs, secrets) == []


@dataclass(frozen=True)
class Try:
    """A try of a delivery, as the database has it."""

    began_at: datetime
    outcome: str
    notifier: str
    response: str


class Judge:
    """Compares what the receivers took with what the database says."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.fetch = scene, scene.fleet.fetch
        self.taken = {
            "hook": scene.receivers.hook.taken,
            "chat": scene.receivers.chat.taken,
            "mail": scene.receivers.post.taken,
        }
        self.tries: dict[UUID, list[Try]] = {}
        for delivery, *rest in self.fetch(
            "select delivery_id, began_at, outcome, notifier, coalesce(response, '') from everwhen.alert_tries"
            " order by delivery_id, try"
        ):
            self.tries.setdefault(delivery, []).append(Try(*rest))
        self.explained, self.unexplained = self._repetitions()

    def told_otherwise(self) -> list[Any]:
        """What was told that did not happen, or happened and was not told, or was told twice: by channel."""
        wanted = Counter[tuple[UUID, str, UUID]]()
        ends = dict(self.fetch("select run_id, finished_at from everwhen.run_ends"))
        tenant_of = dict(self.fetch("select run_id, tenant_id from everwhen.runs"))
        numbers = {tenant.id: number for number, tenant in enumerate(self.scene.tenants)}
        for run_id in self.scene.happened:
            tenant = tenant_of[run_id]
            occasion = occasion_id(tenant, AlertKind.RUN_DEAD, str(run_id), at=ends[run_id])
            for channel in self.scene.channels_of(numbers[tenant]):
                wanted[tenant, channel, occasion] += 1
        told = Counter(self.fetch("select tenant_id, channel, occasion_id from everwhen.alert_told"))
        return [*(wanted - told).items(), *(told - wanted).items()]

    def without_an_outcome(self) -> list[Any]:
        """Messages that are neither delivered nor dead with the last error."""
        return self.fetch(
            "select delivery_id, state, response from everwhen.alert_deliveries"
            " where state not in ('delivered', 'dead') or coalesce(response, '') = ''"
        )

    def lost(self) -> list[UUID]:
        """What is delivered, as the database says, and its receiver never took."""
        delivered = self.fetch("select delivery_id from everwhen.alert_deliveries where state = 'delivered'")
        return [delivery for (delivery,) in delivered if delivery not in self._all_taken()]

    def miscounted(self) -> list[Any]:
        """Messages that told another number than they stand for, and occasions that nobody was to hear of."""
        totals = dict(self.fetch("select delivery_id, total from everwhen.alert_deliveries where channel = 'hook'"))
        known = {str(occasion) for (occasion,) in self.fetch("select occasion_id from everwhen.alert_told")}
        hook = self.taken["hook"]
        wrong: list[Any] = [each for each in hook.totals.items() if each[1] != {totals[each[0]]}]
        return wrong + sorted(hook.occasions - known)

    def _all_taken(self) -> dict[UUID, list[datetime]]:
        return {delivery: at for taken in self.taken.values() for delivery, at in taken.at.items()}

    def _repetitions(self) -> tuple[Counter[str], list[Any]]:
        """Explain what was taken more than once: by the try in which it was taken, and what became of that try."""
        explained, unexplained = Counter[str](), list[Any]()
        for delivery, times in self._all_taken().items():
            if len(times) < 2:
                continue
            tries = self.tries.get(delivery, [])
            found = [(at, _try_at(tries, at)) for at in sorted(times)]
            whys = [(at, None if mine is None else self._why(mine)) for at, mine in found]
            whys.remove(next((each for each in whys if each[1] == ""), whys[-1]))  # once it was to be taken
            for at, why in whys:
                if not why:  # nothing says why, or twice in one try that did count
                    unexplained.append((delivery, at, tries))
                else:
                    explained[why] += 1
        return explained, unexplained

    def _why(self, mine: Try) -> str | None:
        """Why this try did not count although the receiver had taken it; "": it did count; None: nothing says why."""
        if mine.outcome == "delivered":
            return ""
        if mine.outcome == "failed":
            return "the receiver cut the connection or was too slow before it had answered"
        died = [killed for killed in self.scene.killed if killed.name == mine.notifier]
        if mine.outcome == "abandoned" and died and mine.began_at <= died[0].at + timedelta(seconds=1):
            return f"killed {died[0].name.rpartition('-')[2]} at {died[0].at:%H:%M:%S.%f}"
        return None

    def figures(self) -> dict[str, Any]:
        states = self.fetch(
            "select channel, state, count(*), sum(total)::int from everwhen.alert_deliveries group by 1, 2"
        )
        kills = {why: count for why, count in self.explained.items() if why.startswith("killed")}
        errors = self.fetch(
            "select channel, left(response, 60), count(*)::int from everwhen.alert_deliveries where state = 'dead'"
            " group by 1, 2 order by 3 desc"
        )
        dead: dict[str, list[str]] = {}
        for channel, response, count in errors:
            dead.setdefault(channel, []).append(f"{count} × {response}")
        outcomes = Counter(each.outcome for tries in self.tries.values() for each in tries)
        return {
            "events": len(self.scene.happened),
            "events x channels": self.scene.fleet.count("alert_told"),
            "delivered": {c: {"messages": m, "events": e} for c, state, m, e in states if state == "delivered"},
            "dead": {c: {"messages": m, "events": e} for c, state, m, e in states if state == "dead"},
            "lost": len(self.lost()),
            "tries": dict(outcomes),
            "kills": len(self.scene.killed),
            "taken more than once": sum(len(at) - 1 for at in self._all_taken().values()),
            "by a kill": sum(kills.values()),
            "by a cut or slow answer": sum(self.explained.values()) - sum(kills.values()),
            "unexplained": len(self.unexplained),
            "each kill": kills,
            "answered badly": {name: dict(taken.badly) for name, taken in self.taken.items()},
            "last errors": {channel: told[:4] for channel, told in dead.items()},
        }


def _try_at(tries: list[Try], at: datetime) -> Try | None:
    """The try that was under way then."""
    for mine, following in pairwise([*tries, None]):
        if mine is not None and mine.began_at <= at and (following is None or at < following.began_at):
            return mine
    return None
