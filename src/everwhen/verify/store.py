"""One function for each statement of `queries.sql`; the names are the statements'."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from everwhen.postgres.fetch import fetch_all, fetch_one, fetch_optional
from everwhen.postgres.sql import load
from everwhen.verify.model import Answers, SampledSchedule, Violation

_SQL = load("everwhen.verify")

Conn = AsyncConnection[Any]


async def _broken(conn: Conn, name: str, limit: int, **parameters: Any) -> list[Violation]:
    return await fetch_all(conn, _SQL[name], {"limit": limit, **parameters}, Violation)


async def occurrences_with_several_runs(conn: Conn, *, limit: int) -> list[Violation]:
    """Return intentions that have more than one run."""
    return await _broken(conn, "occurrences_with_several_runs", limit)


async def runs_in_several_places(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that wait, are leased or have ended more than once over."""
    return await _broken(conn, "runs_in_several_places", limit)


async def runs_in_no_place(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that vanished."""
    return await _broken(conn, "runs_in_no_place", limit)


async def overlapping_leases(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that were claimed before the last was closed."""
    return await _broken(conn, "overlapping_leases", limit)


async def tokens_that_do_not_grow(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts whose fencing token is not larger than the last one."""
    return await _broken(conn, "tokens_that_do_not_grow", limit)


async def attempts_with_gaps(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs whose attempts are not numbered 1 to n."""
    return await _broken(conn, "attempts_with_gaps", limit)


async def claims_before_due(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that were claimed before their run was due."""
    return await _broken(conn, "claims_before_due", limit)


async def successes_without_a_winner(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs whose success and whose attempts disagree."""
    return await _broken(conn, "successes_without_a_winner", limit)


async def states_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that are not where their last event says."""
    return await _broken(conn, "states_that_history_does_not_tell", limit)


async def claims_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts and recorded claims that differ."""
    return await _broken(conn, "claims_that_history_does_not_tell", limit)


async def attempts_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts whose end no event tells."""
    return await _broken(conn, "attempts_that_history_does_not_tell", limit)


async def ends_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return ends that their event tells otherwise."""
    return await _broken(conn, "ends_that_history_does_not_tell", limit)


async def failures_that_history_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return live runs whose failures and whose attempts differ."""
    return await _broken(conn, "failures_that_history_does_not_tell", limit)


async def claims_after_a_cancel(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that were claimed although a cancel had been asked for."""
    return await _broken(conn, "claims_after_a_cancel", limit)


async def attempts_without_a_cause(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that follow one which needed no other."""
    return await _broken(conn, "attempts_without_a_cause", limit)


async def times_out_of_order(conn: Conn, *, limit: int) -> list[Violation]:
    """Return attempts that ended before they began."""
    return await _broken(conn, "times_out_of_order", limit)


async def tokens_used_twice(conn: Conn, *, limit: int) -> list[Violation]:
    """Return fencing tokens that stand for several leases."""
    return await _broken(conn, "tokens_used_twice", limit)


async def refusals_of_a_held_lease(conn: Conn, *, limit: int) -> list[Violation]:
    """Return reports refused as stale that were not."""
    return await _broken(conn, "refusals_of_a_held_lease", limit)


async def runs_of_a_pause(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that were planned within a pause."""
    return await _broken(conn, "runs_of_a_pause", limit)


async def instants_answered_twice(conn: Conn, *, limit: int) -> list[Violation]:
    """Return spans that cover what has another answer."""
    return await _broken(conn, "instants_answered_twice", limit)


async def schedules_that_revisions_do_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return schedules that are not their last revision."""
    return await _broken(conn, "schedules_that_revisions_do_not_tell", limit)


async def orphans(conn: Conn, *, limit: int) -> list[Violation]:
    """Return rows of runs that are not there."""
    return await _broken(conn, "orphans", limit)


async def runs_behind_the_watermark(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs beyond the instant until which their schedule is decided."""
    return await _broken(conn, "runs_behind_the_watermark", limit)


async def plans_that_history_does_not_tell(conn: Conn, *, limit: int, quiet: Sequence[str]) -> list[Violation]:
    """Return runs that were planned at another instant than their event says."""
    return await _broken(conn, "plans_that_history_does_not_tell", limit, quiet=list(quiet))


async def impossible_edges(
    conn: Conn, *, limit: int, quiet: Sequence[str], edges: Sequence[str], ends: Sequence[str]
) -> list[Violation]:
    """Return events that cannot follow the one before; `edges` are written as `before>after`."""
    parameters = {"quiet": list(quiet), "edges": list(edges), "ends": list(ends)}
    return await _broken(conn, "impossible_edges", limit, **parameters)


async def events_after_the_end(conn: Conn, *, limit: int, quiet: Sequence[str], ends: Sequence[str]) -> list[Violation]:
    """Return events that moved a run which had ended."""
    return await _broken(conn, "events_after_the_end", limit, quiet=list(quiet), ends=list(ends))


async def tags_that_differ(conn: Conn, *, limit: int) -> list[Violation]:
    """Return what has a tag and is not found by it, or the other way round."""
    return await _broken(conn, "tags_that_differ", limit)


async def leases_nobody_reaped(conn: Conn, *, limit: int, before: datetime) -> list[Violation]:
    """Return leases that ran out before then and are still there."""
    return await _broken(conn, "leases_nobody_reaped", limit, before=before)


async def leases_that_count_for_nothing(conn: Conn, *, limit: int) -> list[Violation]:
    """Return leases of limited tasks that do not say what they count for."""
    return await _broken(conn, "leases_that_count_for_nothing", limit)


async def more_in_flight_than_allowed(conn: Conn, *, limit: int, settled_seconds: float) -> list[Violation]:
    """Return leases beyond a limit of theirs, claimed so long after it was changed last."""
    return await _broken(conn, "more_in_flight_than_allowed", limit, settled_seconds=settled_seconds)


async def more_begun_than_rates_allow(conn: Conn, *, limit: int, settled_seconds: float) -> list[Violation]:
    """Return claims that came too soon, so long after their rate was changed last."""
    return await _broken(conn, "more_begun_than_rates_allow", limit, settled_seconds=settled_seconds)


async def runs_parked_for_nothing(conn: Conn, *, limit: int, before: datetime) -> list[Violation]:
    """Return runs that are parked since before then beside room, or that nobody looks for."""
    return await _broken(conn, "runs_parked_for_nothing", limit, before=before)


async def late_runs_nobody_expired(conn: Conn, *, limit: int, before: datetime) -> list[Violation]:
    """Return runs whose start deadline was before then and that still wait."""
    return await _broken(conn, "late_runs_nobody_expired", limit, before=before)


async def live_runs(conn: Conn, *, limit: int, now: datetime) -> list[Violation]:
    """Return runs that are due or under way."""
    return await _broken(conn, "live_runs", limit, now=now)


async def node_runs_without_a_node(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs of nodes, and nodes, that are without the other."""
    return await _broken(conn, "node_runs_without_a_node", limit)


async def nodes_that_differ_from_their_runs(conn: Conn, *, limit: int) -> list[Violation]:
    """Return nodes that say otherwise than their runs."""
    return await _broken(conn, "nodes_that_differ_from_their_runs", limit)


async def tallies_that_miscount(conn: Conn, *, limit: int) -> list[Violation]:
    """Return nodes whose counts are not how their upstreams ended."""
    return await _broken(conn, "tallies_that_miscount", limit)


async def nodes_decided_too_early(conn: Conn, *, limit: int) -> list[Violation]:
    """Return nodes that were decided while upstreams were open."""
    return await _broken(conn, "nodes_decided_too_early", limit)


async def nodes_nobody_decided(conn: Conn, *, limit: int) -> list[Violation]:
    """Return nodes that are blocked by nothing."""
    return await _broken(conn, "nodes_nobody_decided", limit)


async def workflows_that_miscount(conn: Conn, *, limit: int) -> list[Violation]:
    """Return workflows' runs whose counts are not those of their nodes."""
    return await _broken(conn, "workflows_that_miscount", limit)


async def workflows_ended_otherwise(conn: Conn, *, limit: int) -> list[Violation]:
    """Return workflows' runs that ended too early, or not at all."""
    return await _broken(conn, "workflows_ended_otherwise", limit)


async def newest_instant(conn: Conn) -> datetime | None:
    """Return when the data were last written, None when there are none."""
    return await fetch_one(conn, _SQL["newest_instant"], {}, datetime)


async def sample_schedules(conn: Conn, *, seed: str, sample: int | None) -> list[SampledSchedule]:
    """Return that many schedules, drawn by the seed, or all."""
    return await fetch_all(conn, _SQL["sample_schedules"], {"seed": seed, "sample": sample}, SampledSchedule)


async def read_answers(conn: Conn, *, tenant_id: UUID, uid: UUID, after: datetime) -> Answers | None:
    """Return what became of a schedule's instants after then; None when it is gone."""
    parameters = {"tenant_id": tenant_id, "uid": uid, "after": after}
    return await fetch_optional(conn, _SQL["read_answers"], parameters, Answers)


async def redrives_without_a_dead_origin(conn: Conn, *, limit: int) -> list[Violation]:
    """Return redrives that were not made from a dead run."""
    return await _broken(conn, "redrives_without_a_dead_origin", limit)


async def letters_that_miscount(conn: Conn, *, limit: int) -> list[Violation]:
    """Return dead letters that do not count the runs that were made from them."""
    return await _broken(conn, "letters_that_miscount", limit)


async def operations_that_miscount(conn: Conn, *, limit: int) -> list[Violation]:
    """Return operations whose counters, items and runs differ."""
    return await _broken(conn, "operations_that_miscount", limit)


async def catch_up_that_does_not_add_up(conn: Conn, *, limit: int) -> list[Violation]:
    """Return arrears that have counted other than what is recorded."""
    return await _broken(conn, "catch_up_that_does_not_add_up", limit)


async def catch_up_beyond_its_rule(conn: Conn, *, limit: int) -> list[Violation]:
    """Return arrears of which more runs than their rule says, or that were coalesced for nobody."""
    return await _broken(conn, "catch_up_beyond_its_rule", limit)


async def arrears_that_overlap(conn: Conn, *, limit: int) -> list[Violation]:
    """Return arrears that share a stretch with others, or reach beyond their watermark."""
    return await _broken(conn, "arrears_that_overlap", limit)


async def more_running_than_allowed(conn: Conn, *, limit: int) -> list[Violation]:
    """Return runs that were let in while too many of their schedule had not ended."""
    return await _broken(conn, "more_running_than_allowed", limit)


async def slots_that_do_not_fit(conn: Conn, *, limit: int) -> list[Violation]:
    """Return slots without a live run, and live runs that were let in without a slot."""
    return await _broken(conn, "slots_that_do_not_fit", limit)


async def alerts_that_miscount(conn: Conn, *, limit: int) -> list[Violation]:
    """Return messages whose counts differ from what was told."""
    return await _broken(conn, "alerts_that_miscount", limit)


async def alerts_without_an_outcome(conn: Conn, *, limit: int) -> list[Violation]:
    """Return deliveries that are not where their last try left them."""
    return await _broken(conn, "alerts_without_an_outcome", limit)


async def alerts_nobody_sends(conn: Conn, *, limit: int, before: datetime) -> list[Violation]:
    """Return messages and signals that had to be looked at before then."""
    params = {"limit": limit, "before": before}
    return await fetch_all(conn, _SQL["alerts_nobody_sends"], params, Violation)


async def audit_links_that_do_not_hold(conn: Conn, *, limit: int) -> list[Violation]:
    """Return links of the audit whose hash is another one, or whose event is gone."""
    return await _broken(conn, "audit_links_that_do_not_hold", limit)


async def audit_chains_that_miscount(conn: Conn, *, limit: int) -> list[Violation]:
    """Return chains with gaps, or a head elsewhere than at their end."""
    return await _broken(conn, "audit_chains_that_miscount", limit)


async def audit_events_without_a_place(conn: Conn, *, limit: int) -> list[Violation]:
    """Return events that have no link and wait for none, or have both, or are gone."""
    return await _broken(conn, "audit_events_without_a_place", limit)


async def revisions_that_the_audit_does_not_tell(conn: Conn, *, limit: int) -> list[Violation]:
    """Return revisions of schedules that the audit should tell, and does not."""
    return await _broken(conn, "revisions_that_the_audit_does_not_tell", limit)


async def audit_events_nobody_sealed(conn: Conn, *, limit: int, before: datetime) -> list[Violation]:
    """Return events of the audit that were told before then, and have no link."""
    params = {"limit": limit, "before": before}
    return await fetch_all(conn, _SQL["audit_events_nobody_sealed"], params, Violation)


async def days_that_miscount(conn: Conn, *, limit: int, first: date) -> list[Violation]:
    """Return days from the first on with other runs than were counted."""
    params = {"limit": limit, "first": first}
    return await fetch_all(conn, _SQL["days_that_miscount"], params, Violation)
