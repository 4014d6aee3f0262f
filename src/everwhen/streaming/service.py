"""Begins streams."""

from uuid import UUID

from everwhen import clock
from everwhen.core.filters import Filter
from everwhen.errors import InvalidInput
from everwhen.http.sse import EventStream
from everwhen.streaming.hub import READER_SLOW, Hub, Stream
from everwhen.streaming.model import Place, read_place
from everwhen.streaming.telling import READER_LEFT, MayListen, Teller


async def open_stream(  # noqa: PLR0913  # what a stream is about
    hub: Hub,
    *,
    tenant_id: UUID,
    asked: Filter,
    run_id: UUID | None,
    place: Place | None,
    follow: bool,
    may_listen: MayListen,
) -> EventStream:
    """Begin a stream behind a place; without one, from now on, or from the beginning of the run that it is about.

    Raises RateExceeded and Unavailable when there are too many.
    """
    named = asked.identifier("run")
    await hub.look(insist=not follow or not hub.is_heard)
    from_here = Place(hub.cut) if run_id is None else Place(hub.cut, 0, from_beginning=True)
    stream = Stream(tenant_id=tenant_id, asked=asked, place=place or from_here, run_id=run_id or named)
    teller = Teller(hub, stream, resumes=place is not None, follow=follow, may_listen=may_listen, jitter=clock.jitter)
    hub.admit(tenant_id)

    def on_end(stalled: bool) -> None:  # noqa: FBT001  # the response's word
        hub.dismiss(stream, reason=READER_SLOW if stalled else teller.ended or READER_LEFT)

    return EventStream(teller.pieces(), on_end=on_end)


def place_of(*, header: str | None, query: str | None) -> Place | None:
    """Return where a client wants to go on; what its last event said wins over the address that it began with."""
    text, pointer = (header, "header:Last-Event-ID") if header else (query, "query:after")
    if text is None:
        return None
    place = read_place(text)
    if place is None:
        raise InvalidInput.at(pointer, "This is no id of a stream: send one as it was told.", code="stream.place")
    return place
