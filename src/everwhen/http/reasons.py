"""A reason on the wire: an open enumeration, since a newer server may have stored a code unknown to this one."""

from typing import Annotated

from pydantic import Field

from everwhen.core.reasons import Reason

ReasonCode = Annotated[
    Reason | str, Field(description="A code of the closed registry, `GET /v1/reasons`; a newer release may know more.")
]
ReasonSentence = Annotated[
    str | None, Field(description="The reason as a sentence for people; null without a reason that is known here.")
]
