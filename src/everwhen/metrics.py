"""What this process counts, and how it is told to Prometheus.

Everything counted here is this process's own, since it began; whoever collects adds processes up. No label names a
tenant, a schedule or a run: their number is not bounded, and 5,000 series cost a tenth of a second a scrape. What is in
the database (lags, open findings) is asked for when somebody collects, and is the same from each process.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

REGISTRY: Final = CollectorRegistry(auto_describe=True)

TICKS: Final = Counter("everwhen_role_ticks", "Ticks of a role that ended well.", ["role"], registry=REGISTRY)
WORK: Final = Counter("everwhen_role_work", "Units of work that a role has committed.", ["role"], registry=REGISTRY)
ERRORS: Final = Counter(
    "everwhen_role_errors", "Ticks of a role that the database's absence ended.", ["role"], registry=REGISTRY
)
TICK_SECONDS: Final = Histogram(
    "everwhen_role_tick_seconds",
    "How long ticks took.",
    ["role"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    registry=REGISTRY,
)
CLAIMED: Final = Counter("everwhen_runs_claimed", "Runs handed to workers.", registry=REGISTRY)
CLOSED: Final = Counter("everwhen_attempts_closed", "Attempts that were closed.", ["outcome"], registry=REGISTRY)
ENDED: Final = Counter("everwhen_runs_ended", "Runs that ended after they were in line.", ["state"], registry=REGISTRY)
REFUSED: Final = Counter("everwhen_reports_refused", "Reports that were refused as stale.", registry=REGISTRY)

RATE_EXCEEDED: Final = Counter(
    "everwhen_rate_exceeded", "Requests that were refused because a bucket was empty.", ["bucket"], registry=REGISTRY
)
RATE_DRAWS: Final = Counter(
    "everwhen_rate_draws", "Times that this copy of the API drew from its buckets.", ["outcome"], registry=REGISTRY
)

NOTICES: Final = Counter(
    "everwhen_notices",
    "Notices sent to a broker, by whether it took them.",
    ["broker", "outcome"],
    registry=REGISTRY,
)
NOTICES_AGAIN: Final = Counter(
    "everwhen_notices_again",
    "Notices that were sent once more because nobody had taken the run.",
    ["broker"],
    registry=REGISTRY,
)
NAMED: Final = Counter(
    "everwhen_runs_named", "Runs that claims have named, by what became of each.", ["outcome"], registry=REGISTRY
)
BROKER_UP: Final = Gauge(
    "everwhen_broker_up", "Whether this relay reaches the broker: 1 or 0.", ["broker"], registry=REGISTRY
)

STREAMS: Final = Gauge("everwhen_streams_open", "Streams of events that this copy of the API holds.", registry=REGISTRY)
STREAMS_ENDED: Final = Counter(
    "everwhen_streams_ended", "Streams of events that have ended, by why.", ["reason"], registry=REGISTRY
)

PLANNING_LAG: Final = Gauge(
    "everwhen_planning_lag_seconds",
    "How long the schedule that waits longest has waited to be planned.",
    registry=REGISTRY,
)
OLDEST_WAIT: Final = Gauge(
    "everwhen_oldest_wait_seconds",
    "How long the due run that waits longest has waited for a worker.",
    registry=REGISTRY,
)
FINDINGS: Final = Gauge("everwhen_findings_open", "Findings that are open.", ["kind"], registry=REGISTRY)

ENDPOINT_CALLS: Final = Counter(
    "everwhen_endpoint_calls", "Runs posted to endpoints, by what the answer meant.", ["meaning"], registry=REGISTRY
)
ENDPOINT_SECONDS: Final = Histogram(
    "everwhen_endpoint_call_seconds",
    "How long an endpoint took to answer.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
    registry=REGISTRY,
)
ALERT_TRIES: Final = Counter(
    "everwhen_alert_tries", "Tries to deliver an alert that have ended.", ["kind", "outcome"], registry=REGISTRY
)
ALERT_SECONDS: Final = Histogram(
    "everwhen_alert_try_seconds",
    "How long a try to deliver an alert took, from its lease to its end.",
    ["kind"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    registry=REGISTRY,
)
EGRESS: Final = Counter(
    "everwhen_egress", "Requests for tenants to HTTP receivers, by how they ended.", ["outcome"], registry=REGISTRY
)
ALERTS_DEAD: Final = Counter(
    "everwhen_alerts_dead", "Alerts that were given up, with their last error.", registry=REGISTRY
)
ALERTS_PENDING: Final = Gauge("everwhen_alerts_pending", "Alerts that wait to be sent.", registry=REGISTRY)
ALERTS_OLDEST: Final = Gauge(
    "everwhen_alerts_oldest_seconds", "How long the alert that is due for longest has been due.", registry=REGISTRY
)

AUDIT_UNSEALED: Final = Gauge("everwhen_audit_unsealed", "Audit events that have no link yet.", registry=REGISTRY)
AUDIT_LAG: Final = Gauge(
    "everwhen_audit_seal_lag_seconds", "How long the oldest audit event without a link has had none.", registry=REGISTRY
)
AUDIT_NOTES: Final = Counter(
    "everwhen_audit_notes_total",
    "Tries to note where chains end, outside of the database.",
    ["outcome"],
    registry=REGISTRY,
)
AUDIT_UNANCHORED: Final = Gauge(
    "everwhen_audit_unanchored_chains", "Chains with an end that is noted nowhere outside.", registry=REGISTRY
)
AUDIT_BROKEN: Final = Gauge(
    "everwhen_audit_broken_chains", "Chains that do not follow from what was noted of them.", registry=REGISTRY
)

ProcessCollector(registry=REGISTRY)


def show(
    *, now: datetime, next_look_at: datetime | None, oldest_due_at: datetime | None, findings: Mapping[str, int]
) -> None:
    """Take over what the database said, as of its `now`."""
    PLANNING_LAG.set(_seconds(now, next_look_at))
    OLDEST_WAIT.set(_seconds(now, oldest_due_at))
    for kind, count in findings.items():
        FINDINGS.labels(kind).set(count)


def render(accept: str) -> tuple[bytes, str]:
    """Return all metrics and their media type: OpenMetrics where the `Accept` header asks for it, else plain text."""
    encoder, content_type = choose_encoder(accept)
    return encoder(REGISTRY), content_type


def _seconds(now: datetime, since: datetime | None) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
