"""The link at the foot of a mail. No token of the API is asked for: whoever has the link may use it, for one thing.

A look (GET) changes nothing, since mail scanners follow links; it answers with a page that asks. The POST does it, from
that page or from the mail program's own button (RFC 8058). What a link says of itself is on the page; nothing else is.
"""

import html
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from everwhen.alerts import service
from everwhen.alerts.api import kit_of
from everwhen.alerts.signing import MOST_TOKEN, Outlet
from everwhen.errors import NotFound
from everwhen.http.plane import plane_of

router = APIRouter(include_in_schema=False)  # pages for people, and no part of the API

PATH: Final = "/v1/alerts/unsubscribe/{token}"
Token = Annotated[str, Path(max_length=MOST_TOKEN, description="From the link of a mail.")]


@router.get(PATH, response_class=HTMLResponse)
async def look_at_unsubscribing(*, request: Request, token: Token) -> HTMLResponse:
    """Ask whether to unsubscribe; nothing is changed."""
    outlet = _outlet(request, token)
    return _page(
        "Unsubscribe?",
        f"<p>Send no more alerts of the channel <b>{html.escape(outlet.channel)}</b>"
        f" to <b>{html.escape(outlet.recipient)}</b>?</p>"
        '<form method="post"><button>Unsubscribe</button></form>',
    )


@router.post(PATH, response_class=HTMLResponse)
async def unsubscribe_from_alerts(*, request: Request, token: Token) -> HTMLResponse:
    """Send no more alerts to the receiver that the link is for. An editor of the tenant can take it back."""
    await service.unsubscribe(plane_of(request).database, _outlet(request, token))
    return _page("Unsubscribed", "<p>No more alerts of this channel are sent to you.</p>")


def _outlet(request: Request, token: str) -> Outlet:
    outlet = kit_of(request).signer.read_token(token)
    if outlet is None:
        raise NotFound("This is no link of ours.", code="not_found")
    return outlet


def _page(title: str, body: str) -> HTMLResponse:
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><h1>{title}</h1>{body}</html>"
    )
