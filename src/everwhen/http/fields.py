"""Types of fields that several wire models share. A number is a number: `"5"` and `true` are none."""

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, Strict

from everwhen.core.tags import MOST_TAGS, TAG_PATTERN, canonical_tags
from everwhen.http.access import NAME_PATTERN

MOST_PAYLOAD_BYTES: Final = 65_536
MOST_SECONDS: Final = 31 * 86_400
OWNER_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$"

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def within_a_payload(value: Any) -> Any:
    """Refuse a value that is larger than what is stored."""
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MOST_PAYLOAD_BYTES:
        raise ValueError(f"the value has {size} bytes as JSON; at most {MOST_PAYLOAD_BYTES} are stored")
    return value


def _instant_text(value: object) -> object:
    if isinstance(value, str) and not _INSTANT.fullmatch(value):
        raise ValueError("an instant is like 2026-11-30T02:30:00+01:00, with its offset")
    if not isinstance(value, str | datetime):
        raise ValueError("an instant is a text like 2026-11-30T02:30:00+01:00")  # noqa: TRY004  # pydantic's protocol
    return value


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the instant is beyond the calendar") from error


def printable(value: str) -> str:
    """Return a text as it is; raise ValueError when it cannot be shown."""
    if not value.isprintable():
        raise ValueError("the text contains control characters")
    return value


Name = Annotated[str, Field(pattern=NAME_PATTERN, description="Letters, digits, `.`, `_` and `-`; at most 200.")]
Payload = Annotated[JsonValue, AfterValidator(within_a_payload)]
Priority = Annotated[int, Strict(), Field(ge=0, le=9, description="9 goes first, 0 last.")]
Tags = Annotated[
    tuple[Annotated[str, Field(pattern=TAG_PATTERN)], ...],
    Field(max_length=MOST_TAGS, description="Words to find it by: letters, digits and `. _ - : /`; at most 63 each."),
    AfterValidator(canonical_tags),
]
Owner = Annotated[
    str, Field(pattern=OWNER_PATTERN, description="Letters, digits and `. _ : / @ -`, such as `acme/ops`; at most 200.")
]
Seconds = Annotated[float, Strict(), Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
PositiveSeconds = Annotated[float, Strict(), Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant_text), AfterValidator(_utc)]
Utc = Annotated[datetime, AfterValidator(_utc)]
"""An instant that goes out: UTC, whatever zone the database's session has."""
Sentence = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(printable)]
Why = Annotated[str | None, Query(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$", description="Why.")]
"""Of what has no body: why it is done."""


class Wire(BaseModel):
    """The base of request models: what is not known is refused, so a misspelt field cannot be ignored."""

    model_config = ConfigDict(extra="forbid")
