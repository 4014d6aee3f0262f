"""What payloads look like on the wire."""

import re
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import BaseModel, Field

from everwhen.core.payloads import DIGEST_PATTERN, reference_to
from everwhen.http.fields import Utc
from everwhen.payloads.model import Payload

MOST_NAME: Final = 200
MOST_MEDIA_TYPE: Final = 200
BINARY: Final[dict[str, Any]] = {"type": "string", "format": "binary"}

Digest = Annotated[str, Path(pattern=DIGEST_PATTERN, description="`sha256:` and 64 hexadecimal digits.")]
Expected = Annotated[
    str | None, Query(alias="digest", pattern=DIGEST_PATTERN, description="What the digest of the content has to be.")
]
FileName = Annotated[
    str | None, Query(max_length=MOST_NAME, pattern=r"^[^\x00-\x1f\x7f]+$", description="A name for people.")
]

_MEDIA_TYPE: Final = re.compile(r"[\x20-\x7e]{1,200}")


class PayloadOut(BaseModel):
    """A payload. `reference` is what stands for it in the input of a run or a schedule."""

    digest: str
    size_bytes: int
    name: str | None
    media_type: str | None = Field(description="As its uploader said; it is always sent as a download.")
    reference: dict[str, str]
    is_lasting: bool = Field(description="False: it goes by itself when nothing refers to it any more.")
    created_by: str
    created_at: Utc


def payload_out(payload: Payload) -> PayloadOut:
    """Return it as it goes out."""
    return PayloadOut(
        digest=payload.digest,
        size_bytes=payload.size_bytes,
        name=payload.name,
        media_type=payload.media_type,
        reference=reference_to(payload.digest),
        is_lasting=payload.look_at is None,
        created_by=payload.created_by,
        created_at=payload.created_at,
    )


def kept_name(name: str | None) -> str | None:
    """Return a file's name as it is kept: the last part of a path, printable; None when nothing is left of it."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable())[:MOST_NAME] or None


def kept_media_type(text: str | None) -> str | None:
    """Return a media type as it is kept; None when it is none."""
    return text if text is not None and _MEDIA_TYPE.fullmatch(text) else None


def download_headers(payload: Payload) -> dict[str, str]:
    """Return the headers of an answer with a payload's content: whatever it is, no browser is to run it."""
    return {
        "Content-Length": str(payload.size_bytes),
        "Content-Disposition": f'attachment; filename="{payload.digest.removeprefix("sha256:")}"',
        "ETag": f'"{payload.digest}"',
    }
