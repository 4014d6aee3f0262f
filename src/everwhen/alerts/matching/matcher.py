"""Matching: takes what happened and gathers what is to be told of it.

    signals ──> facts, and the ends before them ──> core.alerting ──> occasions ──> messages that gather

One transaction takes signals of some tenants (SKIP LOCKED, one matching for a tenant at a time, so that its signals are
matched in order), reads, decides, and writes who is told of what. The signals go with it.

Invariants

1. A signal is gone exactly when what follows from it is written.
2. A receiver is told of an occasion once, by the key of `alert_told`, whatever is matched again.
3. Nothing of one tenant reaches another's channel: rules, channels and receivers are looked up under the tenant of the
   signal, and every key begins with it.

A rule that cannot be read, or a signal whose run is gone, is left out with a line in the log, and stops nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from everwhen import failpoints
from everwhen.alerts.matching import store
from everwhen.alerts.matching.gathering import Telling, gather
from everwhen.alerts.matching.model import PastEnd, RuleRow, Signal, Turn
from everwhen.alerts.matching.telling import MOST_ERROR, Read, happening_of, occasion_of, schedule_uid_of
from everwhen.core.alert_kinds import SUBSCRIBABLE, AlertKind
from everwhen.core.alerting import BAD, FILTER, GOOD, LOOK_BACK, End, Rule, Scope, match
from everwhen.core.filters import Filter, FilterError, parse
from everwhen.postgres.pool import Connection, Database

TENANTS: Final = 50
"""How many tenants one step matches for."""

SIGNALS: Final = 200
"""How many signals of each."""

WALK: Final = 200
"""How many runs one looks back through for the ends before a run."""

log = structlog.get_logger("everwhen.alerts")


async def match_signals(database: Database, *, public_url: str) -> tuple[int, bool]:
    """Match one batch; return how many signals were taken, and whether there are more."""
    async with database.system() as conn:
        turns = await store.take_turns(conn, limit=TENANTS)
        if not turns:
            return 0, False
        tenant_ids = [turn.tenant_id for turn in turns]
        signals = await store.take_signals(conn, tenant_ids=tenant_ids, limit=SIGNALS)
        signals.sort(key=lambda signal: signal.signal_id)
        rules = await _read_rules(conn, tenant_ids, now=conn.now)
        read = await read_about(conn, signals)
        tellings = tell(signals, rules, read, turns, public_url=public_url)
        await gather(conn, tellings, now=conn.now)
        await store.end_turns(conn, tenant_ids=tenant_ids, now=conn.now)
        failpoints.hit("matching.before_commit")
    failpoints.hit("matching.after_commit")
    return len(signals), len(turns) == TENANTS or len(signals) >= SIGNALS


Rules = dict[UUID, list[tuple[Rule, Sequence[str]]]]
"""By tenant: the rules, each with its channels."""


async def _read_rules(conn: Connection, tenant_ids: Sequence[UUID], *, now: datetime) -> Rules:
    rules: Rules = {}
    for row in await store.list_rules(conn, tenant_ids=tenant_ids):
        if (rule := rule_of(row, now=now)) is not None:
            rules.setdefault(row.tenant_id, []).append((rule, row.channels))
    return rules


def rule_of(row: RuleRow, *, now: datetime) -> Rule | None:
    """Read a subscription; None when this release cannot."""
    try:
        asked = parse(row.filter, FILTER, now=now) if row.filter else Filter()
    except FilterError as error:
        log.warning("alert.rule_unreadable", tenant_id=str(row.tenant_id), subscription=row.name, error=str(error))
        return None
    return Rule(
        name=row.name,
        scope=Scope(row.scope),
        target=row.target,
        kinds=frozenset(AlertKind(kind) for kind in row.kinds if kind in SUBSCRIBABLE),
        filter=asked,
        after=row.after_failures,
        pierces=row.pierces,
    )


async def read_about(conn: Connection, signals: Sequence[Signal]) -> Read:
    """Read what these signals are about."""
    of_runs = [signal for signal in signals if signal.run_id is not None]
    runs = await store.read_runs(
        conn,
        tenant_ids=[signal.tenant_id for signal in of_runs],
        run_ids=[signal.run_id for signal in of_runs if signal.run_id],
        attempts=[signal.attempt for signal in of_runs],
        most_error=MOST_ERROR,
    )
    found = {(run.tenant_id, run.run_id): run for run in runs}
    uids = sorted({(signal.tenant_id, uid) for signal in signals if (uid := schedule_uid_of(signal)) is not None})
    schedules = await store.read_schedules(
        conn, tenant_ids=[tenant_id for tenant_id, _ in uids], uids=[uid for _, uid in uids]
    )
    counted = {(each.tenant_id, each.run_id) for each in of_runs if each.kind in _COUNTED and each.run_id}
    ended = [found[key] for key in sorted(counted & found.keys())]
    scheduled = [run for run in ended if run.schedule_uid is not None]
    others = [run for run in ended if run.schedule_uid is None]
    past = await store.read_past(
        conn,
        tenant_ids=[run.tenant_id for run in scheduled],
        run_ids=[run.run_id for run in scheduled],
        schedule_uids=[run.schedule_uid for run in scheduled if run.schedule_uid],
        walk=WALK,
        limit=LOOK_BACK,
    )
    past += await store.read_past_of_tasks(
        conn,
        tenant_ids=[run.tenant_id for run in others],
        run_ids=[run.run_id for run in others],
        tasks=[run.task for run in others],
        walk=WALK,
        limit=LOOK_BACK,
    )
    return Read(runs=found, past=_by_run(past), schedules={(each.tenant_id, each.uid): each for each in schedules})


_COUNTED: Final = frozenset({f"run.{state}" for state in {GOOD, *BAD}})
"""The ends that count in a row."""


def _by_run(past: Iterable[PastEnd]) -> dict[tuple[UUID, UUID], list[End]]:
    found: dict[tuple[UUID, UUID], list[End]] = {}
    for end in past:
        key = end.tenant_id, end.before_run_id
        found.setdefault(key, []).append(End(end.run_id, end.state, end.finished_at))
    return found


def tell(
    signals: Iterable[Signal], rules: Rules, read: Read, turns: Iterable[Turn], *, public_url: str
) -> list[Telling]:
    """Decide which channel is to tell of what, each occasion once."""
    names = {turn.tenant_id: turn.name for turn in turns}
    tellings: dict[tuple[UUID, str, UUID], Telling] = {}
    for signal in signals:
        try:
            happening = happening_of(signal, read)
        except (ValueError, KeyError, TypeError) as error:  # one signal that cannot be read stops nobody else's
            log.warning("alert.signal_unreadable", tenant_id=str(signal.tenant_id), kind=signal.kind, error=str(error))
            continue
        if happening is None:  # what it is about is gone
            continue
        base = f"{public_url}/v1/tenants/{names[signal.tenant_id]}"
        mine = rules.get(signal.tenant_id, [])
        channels = {rule.name: channels for rule, channels in mine}
        for found in match(happening, [rule for rule, _ in mine]):
            occasion = occasion_of(happening, found, signal, read, base=base)
            for channel in channels[found.rule]:
                key = signal.tenant_id, channel, found.occasion_id
                told = tellings.get(key)
                before = told.subscriptions if told else frozenset[str]()
                tellings[key] = Telling(
                    tenant_id=signal.tenant_id,
                    channel=channel,
                    occasion=occasion,
                    subscriptions=before | {found.rule},
                    pierces=found.pierces or (told.pierces if told else False),
                )
    return list(tellings.values())
