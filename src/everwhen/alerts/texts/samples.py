"""Messages made up for previews and checks: one for each kind, a digest, and what they look like with little known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from everwhen.alerts.message import AlertKind, Message, Occasion
from everwhen.alerts.texts.parts import ANY, DIGEST, parse_kind
from everwhen.core.reasons import Reason
from everwhen.core.sentences import sentence_of
from everwhen.core.tellings import remedy_of

NOMINAL: Final = datetime(2026, 11, 30, 1, 30, tzinfo=UTC)
ZONE: Final = "Europe/Berlin"
BASE: Final = "https://everwhen.example/t/acme"

_RUN: Final = UUID("0193a6d1-2f40-8c21-9a4e-3c5b7d9e1f20")
_ERROR: Final = """SMTPAuthenticationError: 535 5.7.8 authentication failed: credentials <expired> & "rotated"
  File "reports/deliver.py", line 41, in deliver
    server.login(user, password)"""

_REASONS: Final = {
    AlertKind.RUN_ATTEMPT_FAILED: Reason.ATTEMPT_FAILED,
    AlertKind.RUN_DEAD: Reason.RETRY_EXHAUSTED,
    AlertKind.RUN_EXPIRED: Reason.START_DEADLINE,
    AlertKind.RUN_LATE: Reason.WORKER_SLOTS_FULL,
    AlertKind.RUN_MISSED: Reason.SCHEDULER_DOWN,
    AlertKind.RUN_SKIPPED: Reason.OVERLAP_PREVIOUS_RUNNING,
    AlertKind.RUN_CANCELLED: Reason.CANCEL_REQUESTED,
    AlertKind.WORKFLOW_FAILED: Reason.WORKFLOW_NODE_FAILED,
    AlertKind.SCHEDULE_OVERDUE: Reason.SCHEDULER_DOWN,
    AlertKind.QUEUE_UNATTENDED: Reason.WORKER_NONE_LIVE,
    AlertKind.QUEUE_WAITING: Reason.WORKER_SLOTS_FULL,
}
_FAILED: Final = (AlertKind.RUN_ATTEMPT_FAILED, AlertKind.RUN_DEAD, AlertKind.WORKFLOW_FAILED)
_IN_A_ROW: Final = {AlertKind.RUN_RECOVERED: 3, AlertKind.SCHEDULE_PAUSED: 5, AlertKind.RUN_DEAD: 3}


def sample(kind: str) -> Message:
    """Return a message of a kind, of `digest`, or of `any` kind, as previews show it; raise InvalidInput."""
    if parse_kind(kind) == DIGEST:
        return _digest()
    return _single(_occasion(AlertKind.RUN_DEAD if kind == ANY else AlertKind(kind)))


def samples_of(kind: str) -> tuple[Message, ...]:
    """Return what a template of this kind is tried with: much known, and little."""
    full = sample(kind)
    kinds = list(AlertKind) if kind == ANY else [full.shown[0].kind]
    if kind == DIGEST:
        return full, replace(full, subscriptions=(), shown=tuple(map(_bare, full.shown)), total=len(full.shown))
    known = [_occasion(each) for each in kinds]
    return tuple(replace(full, shown=(occasion,)) for occasion in (*known, *map(_bare, known)))


def _single(occasion: Occasion) -> Message:
    return Message(
        delivery_id=UUID("0193a6d1-99aa-7bbb-8ccc-ddddeeeeffff"),
        tenant="acme",
        channel="ops-mail",
        recipient="ops@acme.example",
        subscriptions=("night-watch",),
        shown=(occasion,),
        total=1,
        unsubscribe_link="https://everwhen.example/unsubscribe/4f1d",
    )


def _digest() -> Message:
    kinds = (AlertKind.RUN_DEAD, AlertKind.RUN_DEAD, AlertKind.RUN_LATE, AlertKind.RUN_MISSED, AlertKind.RUN_RECOVERED)
    shown = tuple(_numbered(_occasion(kinds[number % len(kinds)]), number) for number in range(20))
    return replace(
        _single(shown[0]),
        shown=shown,
        total=432,
        counts=(
            (AlertKind.RUN_DEAD, 390),
            (AlertKind.RUN_LATE, 29),
            (AlertKind.RUN_MISSED, 12),
            (AlertKind.RUN_RECOVERED, 1),
        ),
        window_from=NOMINAL + timedelta(minutes=4),
        window_to=NOMINAL + timedelta(minutes=5),
    )


def _numbered(occasion: Occasion, number: int) -> Occasion:
    names = ("nightly-report", "ledger-sync", "fx-rates", "vat-recalc", "mail-digest")
    return replace(occasion, subject=f"{names[number % len(names)]}-{number + 1:02}", at=occasion.at + number * _SECOND)


_SECOND: Final = timedelta(seconds=1)


def _occasion(kind: AlertKind) -> Occasion:
    reason = _REASONS.get(kind)
    common: dict[str, Any] = {
        "occasion_id": UUID("0193a6d1-aaaa-8bbb-8ccc-000000000001"),
        "kind": kind,
        "at": NOMINAL + timedelta(minutes=4, seconds=12),
        "reason": reason,
        "sentence": sentence_of(reason) or "",
        "remedy": remedy_of(reason or ""),
        "tags": ("finance", "nightly"),
        "zone": ZONE,
        "in_a_row": _IN_A_ROW.get(kind),
    }
    match kind:
        case AlertKind.QUEUE_UNATTENDED | AlertKind.QUEUE_WAITING:
            count = 12 if kind is AlertKind.QUEUE_WAITING else 1
            return Occasion(**common, subject="reports", queue="reports", count=count, link=f"{BASE}/queues/reports")
        case AlertKind.CHANNEL_TEST:
            return Occasion(**common, subject="ops-mail", link=f"{BASE}/channels/ops-mail")
        case AlertKind.SCHEDULE_PAUSED | AlertKind.SCHEDULE_OVERDUE:
            name = "nightly-report"
            return Occasion(**common, subject=name, schedule=name, link=f"{BASE}/schedules/{name}")
        case _:
            return _of_run(kind, common)


def _of_run(kind: AlertKind, common: dict[str, Any]) -> Occasion:
    is_workflow = kind in {AlertKind.WORKFLOW_FAILED, AlertKind.WORKFLOW_SUCCEEDED}
    is_failed = kind in _FAILED
    return Occasion(
        **common,
        subject="nightly-report",
        schedule="nightly-report",
        task=None if is_workflow else "make-report",
        workflow="nightly-report" if is_workflow else None,
        queue=None if is_workflow else "reports",
        run_id=_RUN,
        attempt=None if is_workflow else 3 if kind is AlertKind.RUN_DEAD else 1,
        attempts=None if is_workflow else 3,
        nominal_at=NOMINAL,
        due_at=NOMINAL,
        error=_ERROR if is_failed else None,
        fingerprint="a91f03c7d2b4" if is_failed else None,
        link=f"{BASE}/runs/{_RUN}",
    )


def _bare(occasion: Occasion) -> Occasion:
    """Return what is known of it at the least."""
    return Occasion(occasion_id=occasion.occasion_id, kind=occasion.kind, at=occasion.at, subject=occasion.subject)
