"""What `everwhen doctor` finds of brokers: whether each lets this machine in, and what NATS does with its disk."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from everwhen.config import Settings
    from everwhen.dispatch.brokers.protocol import Broker

MONITOR_SECONDS: Final = 5.0


class BrokerFinding(NamedTuple):
    """One check: ok, warn or fail, what was found, and what to do about it."""

    check: str
    verdict: str
    detail: str
    fix: str = ""


def find_of_brokers(settings: "Settings") -> Iterator[BrokerFinding]:
    """Look at each broker that is set."""
    from everwhen.dispatch.brokers.composition import make_brokers
    from everwhen.errors import ConfigurationError

    try:
        makers = make_brokers(settings)
    except ConfigurationError as error:
        yield BrokerFinding("brokers", "fail", str(error), "install the extra, or unset the broker")
        return
    for kind, make in makers.items():
        why = asyncio.run(_reach(make()))
        if why is None:
            yield BrokerFinding(f"broker {kind}", "ok", "it lets us in")
        else:
            yield BrokerFinding(f"broker {kind}", "fail", why, f"see to it, or correct {kind}_url")
    if "nats" in makers:
        yield _sync(settings.nats_monitor_url)


async def _reach(broker: "Broker") -> str | None:
    """Return why a broker cannot be reached; None when it can."""
    from everwhen.worker.brokers.inbox import BrokerAway

    try:
        await broker.connect()
    except BrokerAway as error:
        return str(error)
    finally:
        await broker.close()
    return None


def _sync(monitor_url: str | None) -> BrokerFinding:
    """Say when a NATS server writes to its disk what it has acknowledged."""
    import httpx2

    check, fix = "broker nats, disk", "sync_interval: always, in the server's jetstream block"
    if monitor_url is None:
        return BrokerFinding(check, "warn", "unknown: no client can see it", "set nats_monitor_url")
    try:
        answer = httpx2.get(f"{monitor_url.rstrip('/')}/jsz", params={"config": "true"}, timeout=MONITOR_SECONDS)
        found = answer.raise_for_status().json()["config"]
    except (httpx2.HTTPError, ValueError, KeyError) as error:
        return BrokerFinding(check, "warn", f"{monitor_url} does not say ({type(error).__name__})", fix)
    if found.get("sync_always"):
        return BrokerFinding(check, "ok", "what is acknowledged is on disk")
    seconds = found.get("sync_interval", 0) / 1e9
    return BrokerFinding(check, "fail", f"what is acknowledged may be on no disk for {seconds:g} s", fix)
