"""A gate, its line, and what it has let in."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from everwhen.core.overlap import ActiveRun, Gate, HeldRun, OnFailure, Overlap, OverlapPolicy
from everwhen.core.reasons import Reason


class GateKey(NamedTuple):
    """Whose gate. Its order is the order in which gates are locked."""

    tenant_id: UUID
    schedule_uid: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """A gate as it was locked."""

    tenant_id: UUID
    schedule_uid: UUID
    policy: str
    max_running: int | None
    max_buffered: int | None
    on_failure: str
    is_paused: bool
    held_up_by: UUID | None
    decided_at: datetime

    @property
    def key(self) -> GateKey:
        """Whose gate it is."""
        return GateKey(self.tenant_id, self.schedule_uid)

    def gate(self) -> Gate:
        """Return what a decision needs to know of it."""
        overlap = Overlap(
            policy=OverlapPolicy(self.policy),
            max_running=self.max_running,
            max_buffered=self.max_buffered,
            on_failure=OnFailure(self.on_failure),
        )
        return Gate(overlap=overlap, is_paused=self.is_paused, held_up_by=self.held_up_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A run in the line of a gate; `is_over` when it was its total deadline, not its start deadline, that passed."""

    tenant_id: UUID
    schedule_uid: UUID
    run_id: UUID
    due_at: datetime
    look_at: datetime | None
    expires_at: datetime | None
    is_planned: bool
    is_patient: bool
    origin_run_id: UUID | None
    reason: str | None
    is_over: bool | None

    @property
    def key(self) -> GateKey:
        """Whose line it is in."""
        return GateKey(self.tenant_id, self.schedule_uid)

    def run(self) -> HeldRun:
        """Return what a decision needs to know of it."""
        return HeldRun(
            run_id=self.run_id,
            due_at=self.due_at,
            expires_at=self.expires_at,
            deadline=Reason.DEADLINE_TOTAL if self.is_over else Reason.START_DEADLINE,
            is_planned=self.is_planned,
            is_patient=self.is_patient,
            origin_run_id=self.origin_run_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A run that a gate has let in and that has not ended."""

    tenant_id: UUID
    schedule_uid: UUID
    run_id: UUID
    is_stopping: bool

    @property
    def key(self) -> GateKey:
        """Whose slot it takes."""
        return GateKey(self.tenant_id, self.schedule_uid)

    def run(self) -> ActiveRun:
        """Return what a decision needs to know of it."""
        return ActiveRun(run_id=self.run_id, is_stopping=self.is_stopping)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A run in some line at which the gatekeeper has to look."""

    tenant_id: UUID
    schedule_uid: UUID
    run_id: UUID

    @property
    def key(self) -> GateKey:
        """Whose line it is in."""
        return GateKey(self.tenant_id, self.schedule_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetIn:
    """A run that has its place in the line of a queue now."""

    tenant_id: UUID
    run_id: UUID
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """Which run."""

    tenant_id: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLease:
    """A lease, locked, that is to be revoked."""

    tenant_id: UUID
    run_id: UUID
    lease_token: int
    failures: int
    claimed_at: datetime
