"""What the roles of a process are made of, opened once: the database, what listens, what seals, the ways out."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from everwhen import clock
from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.config import Settings
from everwhen.core.zones import use_tzdata_only
from everwhen.dispatch.brokers.composition import make_brokers
from everwhen.dispatch.brokers.kinds import BrokerMaker
from everwhen.dispatch.lines import Lines
from everwhen.dispatch.service import Dispatch
from everwhen.egress.client import Egress
from everwhen.outside import make_calling_egress, make_channels
from everwhen.overlap import service as overlap
from everwhen.payloads.depot import Depot
from everwhen.payloads.receiving import PayloadLimits
from everwhen.payloads.service import Payloads
from everwhen.postgres.host import default_data_dir
from everwhen.postgres.migrate import assert_compatible
from everwhen.postgres.pool import Connection, Database, PoolLimits, SetClock
from everwhen.postgres.wakeups import Wakeups, line_topic, notify
from everwhen.runs.ends import OnEnded, follow_with
from everwhen.schedules import streaks
from everwhen.sealing.ring import read_ring
from everwhen.sealing.service import Sealer
from everwhen.streaming.hub import Hub
from everwhen.workflows.life import NodeFollower

PAYLOADS: Final = "payloads"
"""The folder of payloads in the data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the roles are made of."""

    settings: Settings
    database: Database
    wakeups: Wakeups
    dispatch: Dispatch
    lines: Lines
    payloads: Payloads
    on_ended: OnEnded
    sealer: Sealer
    channels: Mapping[str, ChannelKind]
    egress: Egress
    brokers: Mapping[str, BrokerMaker]
    streams: Hub


@asynccontextmanager
async def open_services(
    settings: Settings, conninfo: str, *, set_clock: SetClock | None = None
) -> AsyncGenerator[Services]:
    """Connect, and refuse a database whose schema or login does not fit. Only tests set the clock."""
    use_tzdata_only()
    limits = PoolLimits(min_size=min(2, settings.pool_size), max_size=settings.pool_size)
    async with await Database.open(conninfo, limits=limits, set_clock=set_clock) as database:
        async with database.system() as conn:
            await assert_compatible(conn)
        wakeups = Wakeups(conninfo)
        on_ended = followers()
        dispatch = Dispatch(database, jitter=clock.jitter, on_ended=on_ended)
        yield Services(
            settings=settings,
            database=database,
            wakeups=wakeups,
            dispatch=dispatch,
            lines=Lines(dispatch, wakeups),
            payloads=open_payloads(settings, database),
            on_ended=on_ended,
            sealer=Sealer(read_ring(settings.sealing_keys.get_secret_value()) if settings.sealing_keys else None),
            channels=make_channels(settings),
            egress=make_calling_egress(settings),
            brokers=make_brokers(settings),
            streams=Hub(database),
        )


def open_payloads(settings: Settings, database: Database) -> Payloads:
    """Open the store of payloads; raise ConfigurationError when its address makes no sense."""
    location = settings.payload_url or (settings.data_dir or default_data_dir(Path.cwd())) / PAYLOADS
    limits = PayloadLimits(
        payload_bytes=settings.payload_bytes_max,
        tenant_bytes=settings.payload_tenant_bytes_max,
        uploads=settings.payload_uploads_max,
    )
    return Payloads.on(database, Depot.at(location), limits)


def followers() -> OnEnded:
    """Join what follows the end of a run. A gate that lets the next run in may turn others away: these ends go on."""
    others = follow_with(streaks.follow, NodeFollower(on_ready=wake_line))
    return follow_with(overlap.follow(then=others), others)


async def wake_line(conn: Connection, tenant_id: UUID, queue: str) -> None:
    """Wake whoever serves a queue."""
    await notify(conn, [line_topic(tenant_id, queue)])
