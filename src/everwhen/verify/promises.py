"""Every promise that can be checked: its name, the invariants of docs/operate/verify.md that it stands for, a sentence.

Most are one statement each, so each sees one snapshot, also while the system works. Three are about instants, which SQL
cannot expand: `instants` reads a schedule's answers in one statement and has them compared in Python.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from everwhen.core.edges import ENDS, QUIET, edges
from everwhen.core.quotas import day_of
from everwhen.postgres.pool import Connection
from everwhen.verify import store
from everwhen.verify.model import LIVENESS, Violation

Check = Callable[[Connection, int, datetime], Awaitable[list[Violation]]]
"""Return up to so many violations as of an instant: (connection, limit, now)."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised; without a check it is about instants (see `instants`)."""

    name: str
    invariants: tuple[str, ...]
    sentence: str
    check: Check | None = None


def _plain(statement: Callable[..., Awaitable[list[Violation]]]) -> Check:
    async def check(conn: Connection, limit: int, now: datetime) -> list[Violation]:  # noqa: ARG001  # the same for all
        return await statement(conn, limit=limit)

    return check


async def _plans(conn: Connection, limit: int, now: datetime) -> list[Violation]:  # noqa: ARG001  # as above
    return await store.plans_that_history_does_not_tell(conn, limit=limit, quiet=sorted(QUIET))


async def _edges(conn: Connection, limit: int, now: datetime) -> list[Violation]:  # noqa: ARG001  # as above
    known = [f"{before}>{after}" for before, after in edges()]
    return await store.impossible_edges(conn, limit=limit, quiet=sorted(QUIET), edges=known, ends=sorted(ENDS))


async def _ends(conn: Connection, limit: int, now: datetime) -> list[Violation]:  # noqa: ARG001  # as above
    return await store.events_after_the_end(conn, limit=limit, quiet=sorted(QUIET), ends=sorted(ENDS))


async def _reaped(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.leases_nobody_reaped(conn, limit=limit, before=now - LIVENESS)


async def _expired(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.late_runs_nobody_expired(conn, limit=limit, before=now - LIVENESS)


async def _within_limits(conn: Connection, limit: int, now: datetime) -> list[Violation]:  # noqa: ARG001  # as above
    return await store.more_in_flight_than_allowed(conn, limit=limit, settled_seconds=SETTLED_SECONDS)


async def _within_rates(conn: Connection, limit: int, now: datetime) -> list[Violation]:  # noqa: ARG001  # as above
    return await store.more_begun_than_rates_allow(conn, limit=limit, settled_seconds=SETTLED_SECONDS)


async def _parked(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.runs_parked_for_nothing(conn, limit=limit, before=now - LIVENESS)


async def _sent(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.alerts_nobody_sends(conn, limit=limit, before=now - LIVENESS)


async def _live(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.live_runs(conn, limit=limit, now=now)


SETTLED_SECONDS: Final = 15.0
"""How long after it was changed a limit is known to every claim: longer than anybody waits for a lock."""


async def _sealed(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.audit_events_nobody_sealed(conn, limit=limit, before=now - LIVENESS)


async def _counted(conn: Connection, limit: int, now: datetime) -> list[Violation]:
    return await store.days_that_miscount(conn, limit=limit, first=day_of(now - timedelta(days=1)))


MISSING: Final = "instants_without_an_answer"
UNINTENDED: Final = "runs_nobody_intended"
MISCOUNTED: Final = "spans_that_miscount"
COUNTED: Final = "days_that_miscount"

PROMISES: Final = (
    Promise(MISSING, ("I1", "I7"), "Every instant that a schedule intended has a run or lies in a span."),
    Promise(UNINTENDED, ("I3",), "Every scheduled run stands for an instant that its schedule intended."),
    Promise(MISCOUNTED, ("I1", "I7"), "A span counts the instants that it covers."),
    Promise(
        "instants_answered_twice",
        ("I1", "I2"),
        "An instant has one answer: no span covers another, nor a run.",
        _plain(store.instants_answered_twice),
    ),
    Promise(
        "occurrences_with_several_runs",
        ("I2",),
        "An occurrence has one run.",
        _plain(store.occurrences_with_several_runs),
    ),
    Promise("claims_before_due", ("I4",), "No run is handed out before it is due.", _plain(store.claims_before_due)),
    Promise(
        "runs_behind_the_watermark",
        ("I5",),
        "No run lies beyond the instant until which its schedule is decided, but what is known to be answered there.",
        _plain(store.runs_behind_the_watermark),
    ),
    Promise("runs_of_a_pause", ("I6",), "No instant of a pause was planned to run.", _plain(store.runs_of_a_pause)),
    Promise(
        "catch_up_that_does_not_add_up",
        ("I7",),
        "What was missed is what has become of it: runs, verdicts and spans are as many as were counted.",
        _plain(store.catch_up_that_does_not_add_up),
    ),
    Promise(
        "catch_up_beyond_its_rule",
        ("I7",),
        "Of what was missed no more runs than its rule says, and what was coalesced has a run that stands for it.",
        _plain(store.catch_up_beyond_its_rule),
    ),
    Promise(
        "arrears_that_overlap",
        ("I2", "I5"),
        "An instant belongs to one stretch of arrears, behind the watermark.",
        _plain(store.arrears_that_overlap),
    ),
    Promise(
        "more_running_than_allowed",
        ("I8",),
        "A gate lets no more runs of a schedule in than its overlap policy allows at once, those it adopted counted.",
        _plain(store.more_running_than_allowed),
    ),
    Promise(
        "slots_that_do_not_fit",
        ("I8",),
        "What a gate let in or adopted has a slot until it ends, and nothing else has one.",
        _plain(store.slots_that_do_not_fit),
    ),
    Promise(
        "attempts_that_history_does_not_tell",
        ("I9", "I31"),
        "An attempt is closed in one transaction with its event.",
        _plain(store.attempts_that_history_does_not_tell),
    ),
    Promise(
        "ends_that_history_does_not_tell",
        ("I9", "I31"),
        "A run ends in one transaction with its event.",
        _plain(store.ends_that_history_does_not_tell),
    ),
    Promise(
        "plans_that_history_does_not_tell",
        ("I9", "I31"),
        "A run is planned in one transaction with its event.",
        _plans,
    ),
    Promise(
        "claims_that_history_does_not_tell",
        ("I9", "I31"),
        "A run is claimed in one transaction with its event, and never without one.",
        _plain(store.claims_that_history_does_not_tell),
    ),
    Promise(
        "successes_without_a_winner",
        ("I11",),
        "A run that succeeded has one attempt that did, and no other run has one.",
        _plain(store.successes_without_a_winner),
    ),
    Promise(
        "tokens_that_do_not_grow",
        ("I13",),
        "Each attempt's token is larger than the one before.",
        _plain(store.tokens_that_do_not_grow),
    ),
    Promise("tokens_used_twice", ("I13",), "A token stands for one lease of one run.", _plain(store.tokens_used_twice)),
    Promise(
        "overlapping_leases",
        ("I14",),
        "No two leases of one run were valid at once.",
        _plain(store.overlapping_leases),
    ),
    Promise(
        "refusals_of_a_held_lease",
        ("I15",),
        "A report is refused as stale only when its lease had been closed.",
        _plain(store.refusals_of_a_held_lease),
    ),
    Promise("attempts_with_gaps", ("I17",), "Attempts are numbered 1 to n.", _plain(store.attempts_with_gaps)),
    Promise(
        "attempts_without_a_cause",
        ("I17",),
        "Another attempt follows only one that was lost, failed or given back.",
        _plain(store.attempts_without_a_cause),
    ),
    Promise("leases_nobody_reaped", ("I18",), "A lease that ran out is reaped within five minutes.", _reaped),
    Promise("late_runs_nobody_expired", ("I18",), "A run past its start deadline ends within five minutes.", _expired),
    Promise("impossible_edges", ("I19",), "Only decisions of the table of edges follow each other.", _edges),
    Promise("events_after_the_end", ("I20",), "Nothing moves a run that has ended.", _ends),
    Promise(
        "times_out_of_order",
        ("I21",),
        "By the database's clock nothing ends before it began.",
        _plain(store.times_out_of_order),
    ),
    Promise(
        "claims_after_a_cancel",
        ("I23",),
        "No attempt begins after a cancel was asked for.",
        _plain(store.claims_after_a_cancel),
    ),
    Promise(
        "runs_in_several_places",
        ("I30",),
        "A run waits, or is held, or is leased, or has ended: one of the four.",
        _plain(store.runs_in_several_places),
    ),
    Promise("runs_in_no_place", ("I30",), "No run vanishes.", _plain(store.runs_in_no_place)),
    Promise(
        "states_that_history_does_not_tell",
        ("I30",),
        "A run's state is the fold of its history.",
        _plain(store.states_that_history_does_not_tell),
    ),
    Promise(
        "failures_that_history_does_not_tell",
        ("I30",),
        "A run carries as many failures as its attempts had.",
        _plain(store.failures_that_history_does_not_tell),
    ),
    Promise(
        "schedules_that_revisions_do_not_tell",
        ("I30",),
        "A schedule is its last revision, and its revisions are numbered 1 to n.",
        _plain(store.schedules_that_revisions_do_not_tell),
    ),
    Promise(
        "tags_that_differ",
        ("I30",),
        "What has a tag is found by it, and nothing else is.",
        _plain(store.tags_that_differ),
    ),
    Promise(
        "redrives_without_a_dead_origin",
        ("I32",),
        "A redrive is made from a run that is there and was dead.",
        _plain(store.redrives_without_a_dead_origin),
    ),
    Promise(
        "letters_that_miscount",
        ("I35",),
        "A dead letter counts the runs that were made from it.",
        _plain(store.letters_that_miscount),
    ),
    Promise(
        "operations_that_miscount",
        ("I35",),
        "An operation's counters are those of its items, and each item has one run.",
        _plain(store.operations_that_miscount),
    ),
    Promise(
        "node_runs_without_a_node",
        ("W1",),
        "A released node has one run, and no run of a node is without its node.",
        _plain(store.node_runs_without_a_node),
    ),
    Promise(
        "nodes_that_differ_from_their_runs",
        ("W2",),
        "A node ends with its run, and as that has ended.",
        _plain(store.nodes_that_differ_from_their_runs),
    ),
    Promise(
        "tallies_that_miscount",
        ("W3",),
        "A node has counted each of its upstreams once, when it ended.",
        _plain(store.tallies_that_miscount),
    ),
    Promise(
        "nodes_decided_too_early",
        ("W4",),
        "No node is decided before its trigger rule can be.",
        _plain(store.nodes_decided_too_early),
    ),
    Promise(
        "nodes_nobody_decided",
        ("W4",),
        "A node is decided with the end of its last upstream.",
        _plain(store.nodes_nobody_decided),
    ),
    Promise(
        "workflows_that_miscount",
        ("W5",),
        "A workflow's run knows how many of its nodes have ended.",
        _plain(store.workflows_that_miscount),
    ),
    Promise(
        "workflows_ended_otherwise",
        ("W6",),
        "A workflow's run ends when all its nodes have, and not before.",
        _plain(store.workflows_ended_otherwise),
    ),
    Promise(
        "alerts_that_miscount",
        ("I28",),
        "A message counts what its receiver is told, each occasion once.",
        _plain(store.alerts_that_miscount),
    ),
    Promise(
        "alerts_without_an_outcome",
        ("I28",),
        "An alert is delivered, or dead with its last error, and each try of it is written down.",
        _plain(store.alerts_without_an_outcome),
    ),
    Promise("alerts_nobody_sends", ("I28",), "What happened is told: no signal and no alert stands still.", _sent),
    Promise(
        "leases_that_count_for_nothing",
        ("L1",),
        "Whatever is in flight of a limited task says what it counts for.",
        _plain(store.leases_that_count_for_nothing),
    ),
    Promise(
        "more_in_flight_than_allowed",
        ("L1",),
        "No claim goes beyond the limit of a task, a key, a queue or a tenant.",
        _within_limits,
    ),
    Promise(
        "more_begun_than_rates_allow",
        ("L3",),
        "In no stretch of time begin more runs than the rate's burst and what comes back in it.",
        _within_rates,
    ),
    Promise("runs_parked_for_nothing", ("L2",), "No run stays parked while there is room for it.", _parked),
    Promise(
        COUNTED,
        ("I35",),
        "Each run was counted against its tenant's limit of a day, once.",
        _counted,
    ),
    Promise(
        "audit_links_that_do_not_hold",
        ("I29",),
        "Each link of the audit has the hash of its event, behind the link before.",
        _plain(store.audit_links_that_do_not_hold),
    ),
    Promise(
        "audit_chains_that_miscount",
        ("I29",),
        "The links of a chain are numbered 1 to n, and its head is the last.",
        _plain(store.audit_chains_that_miscount),
    ),
    Promise(
        "audit_events_without_a_place",
        ("I29", "I30"),
        "An event of the audit has its link, or waits for it: one of the two.",
        _plain(store.audit_events_without_a_place),
    ),
    Promise("audit_events_nobody_sealed", ("I18",), "An event of the audit has its link within five minutes.", _sealed),
    Promise(
        "revisions_that_the_audit_does_not_tell",
        ("I31",),
        "A schedule's revision by somebody who is in the audit is told there, in its transaction.",
        _plain(store.revisions_that_the_audit_does_not_tell),
    ),
    Promise("orphans", ("I32",), "No row is about a run that is not there.", _plain(store.orphans)),
)
"""In the order in which they are printed."""

QUIESCENT: Final = Promise(
    "live_runs", ("I22",), "After quiescence every run has ended or is due in the future.", _live
)
"""Holds only when everything has come to rest, so it is checked when that is said."""
