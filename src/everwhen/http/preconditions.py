"""Changes name the revision that they change: ETag on what is read, If-Match on what changes it.

    GET  …/tasks/report            200, ETag: "rev-17"
    PATCH …/tasks/report           If-Match: "rev-17"   changed, ETag: "rev-18"; no If-Match: 428; another revision: 412
    PUT  …/calendars/de            If-None-Match: *     made, or 412 when it is there
    any change                     If-Match: *          whatever is there: for tools that apply files

A tag is strong: it stands for the definition, which only a change of ours alters. What passes with time (when a
schedule fires next) is no part of it. The refusal of a stale change is not decided here, but by the row count of the
statement that writes: see revisions.py.
"""

import re
from typing import Annotated, Final

from fastapi import Depends, Header, Request, Response

from everwhen.errors import InvalidInput, PreconditionRequired
from everwhen.http.problems import etag
from everwhen.revisions import ANY, NONE, Expected

MOST_TAGS: Final = 20

_TAGS: Final = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e]*"\s*)*')
_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_OURS: Final = re.compile(r"rev-(0|[1-9][0-9]{0,8})")

_IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description='The `ETag` that was read, such as `"rev-17"`; `*`: whatever is there.'),
]
_IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="`*`: only if there is none of this name.")
]


def tag(response: Response, revision: int) -> None:
    """Give an answer the entity tag of the revision that it shows."""
    response.headers["ETag"] = etag(revision)


def _change(request: Request, if_match: _IfMatch = None) -> Expected:
    if if_match is None:
        raise PreconditionRequired('Send If-Match with the ETag that you read, such as "rev-17"; or * for any.')
    return _read(request)


def _try_or_change(request: Request, if_match: _IfMatch = None) -> Expected:
    """A dry run writes nothing, so it may leave the revision open."""
    if if_match is None and request.query_params.get("dry_run", "").lower() in {"true", "1"}:
        return ANY
    return _change(request, if_match)


def _put(request: Request, if_match: _IfMatch = None, if_none_match: _IfNoneMatch = None) -> Expected:
    if if_none_match is None:
        return _change(request, if_match)
    if if_match is not None or if_none_match.strip() != "*":
        detail = "Send either If-Match, or If-None-Match: * to make what is not there."
        raise InvalidInput.at("header:If-None-Match", detail, code="precondition.syntax")
    return NONE


def _act(request: Request, if_match: _IfMatch = None) -> Expected:
    return ANY if if_match is None else _read(request)


Change = Annotated[Expected, Depends(_change)]
"""Of what changes or deletes a thing: If-Match is required."""

TryOrChange = Annotated[Expected, Depends(_try_or_change)]
"""As Change, and a dry run needs none."""

Put = Annotated[Expected, Depends(_put)]
"""Of what makes or replaces a thing: If-Match, or If-None-Match: *, is required."""

Act = Annotated[Expected, Depends(_act)]
"""Of what acts on a thing, such as a pause: If-Match is heeded."""


def _read(request: Request) -> Expected:
    value = ",".join(request.headers.getlist("if-match")).strip()
    if value == "*":
        return ANY
    tags = _TAG.findall(value) if _TAGS.fullmatch(value) else []
    if not 0 < len(tags) <= MOST_TAGS:
        detail = f'If-Match is *, or up to {MOST_TAGS} tags in quotes, such as "rev-17".'
        raise InvalidInput.at("header:If-Match", detail, code="precondition.syntax")
    # A weak tag never matches, and neither does one that is not ours: RFC 9110, 13.1.1.
    ours = (_OURS.fullmatch(opaque) for weak, opaque in tags if not weak)
    return Expected(revisions=frozenset(int(found[1]) for found in ours if found))
