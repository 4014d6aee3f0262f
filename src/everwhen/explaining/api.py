"""Reasons and explanations over HTTP."""

# the tenant in the path is read by the dependency that grants access

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Category, Reason, Severity
from everwhen.core.sentences import anchor_of, fields_of
from everwhen.explaining import service
from everwhen.explaining.wire import ExplanationOut, explanation_out
from everwhen.http.access import Anybody, Reader
from everwhen.http.bodies import ControlRoute
from everwhen.http.payloads import payloads_shown

router = APIRouter(route_class=ControlRoute, tags=["reasons"])


RunRef = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9._@:+-]{1,280}$",
        description="A run's id, or `schedule@time`: by the schedule's clock, or with an offset.",
    ),
]


class ReasonOut(BaseModel):
    """One code of the registry."""

    code: Reason
    category: Category
    severity: Severity
    sentence: str
    telling: str | None = Field(description="The sentence with numbers and names; its fields stand in braces.")
    fields: list[str] = Field(description="The facts that the telling needs.")
    remedy: str | None
    docs: str


class ReasonsOut(BaseModel):
    """The whole registry; it is closed, so it needs no pages."""

    items: list[ReasonOut]


@router.get("/v1/reasons")
async def list_reasons(*, access: Anybody) -> ReasonsOut:  # noqa: ARG001  # says who may
    """List every reason that a run may have, with its category, severity, sentence and remedy."""
    return _REGISTRY


@router.get("/v1/tenants/{tenant}/runs/{run}/explain")
async def explain_run(*, tenant: str, run: RunRef, access: Reader) -> ExplanationOut:
    """Say why a run started when it did, or why there is none at that instant."""
    told = await service.explain(
        access.database, tenant_id=access.tenant_id, tenant=tenant, ref=run, with_errors=payloads_shown()
    )
    return explanation_out(told)


def _reason_out(reason: Reason) -> ReasonOut:
    meaning = MEANINGS[reason]
    return ReasonOut(
        code=reason,
        category=meaning.category,
        severity=meaning.severity,
        sentence=meaning.sentence,
        telling=meaning.telling or None,
        fields=sorted(fields_of(meaning.telling)),
        remedy=meaning.remedy or None,
        docs=anchor_of(reason),
    )


_REGISTRY = ReasonsOut(items=[_reason_out(reason) for reason in Reason])
