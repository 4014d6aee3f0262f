"""A message as a webhook's JSON: versioned, by the Standard Webhooks' `type`, `timestamp` and `data`.

Programs get texts as they are, only cut, and without what no strict JSON can hold; escapes for people are not for
them. The thin form has ids and links alone, so that nothing of a tenant's data leaves the house: whoever gets it,
asks the API. docs/reference/alert-payload.md is its schema.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from everwhen.alerts.message import Message, Occasion
from everwhen.alerts.texts.cleaning import link, storable
from everwhen.alerts.texts.facts import MOST_ERROR, MOST_SENTENCE, MOST_SHOWN, MOST_TAGS, is_digest

VERSION: Final = 1
DIGEST_TYPE: Final = "alert.digest"
MOST_NAME: Final = 200

_THIN: Final = ("occasion_id", "kind", "run_id", "link")


def payload_of(message: Message, *, subject: str) -> dict[str, Any]:
    """Return the full form."""
    shown = message.shown[:MOST_SHOWN]
    digest = is_digest(message)
    until = message.window_to or max((occasion.at for occasion in shown), default=None)
    return {
        "type": DIGEST_TYPE if digest else shown[0].kind.value,
        "version": VERSION,
        "timestamp": _instant(until),
        "data": {
            "delivery_id": str(message.delivery_id),
            "tenant": storable(message.tenant, most=MOST_NAME),
            "channel": storable(message.channel, most=MOST_NAME),
            "subscriptions": [storable(name, most=MOST_NAME) for name in message.subscriptions[:MOST_TAGS]],
            "subject": subject,
            "total": message.total,
            "counts": [{"kind": kind.value, "count": count} for kind, count in message.counts],
            "window": {"from": _instant(message.window_from), "to": _instant(message.window_to)} if digest else None,
            "occasions": [_occasion(occasion) for occasion in shown],
        },
    }


def thin(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the thin form of a full one."""
    data: Mapping[str, Any] = payload["data"]
    kept = {name: data[name] for name in ("delivery_id", "tenant", "total")}
    occasions = [{name: occasion[name] for name in _THIN} for occasion in data["occasions"]]
    return {**payload, "data": {**kept, "occasions": occasions}}


def _occasion(occasion: Occasion) -> dict[str, Any]:
    names = ("schedule", "task", "workflow", "queue", "zone", "reason", "fingerprint")
    return {
        "occasion_id": str(occasion.occasion_id),
        "kind": occasion.kind.value,
        "at": _instant(occasion.at),
        "subject": storable(occasion.subject, most=MOST_NAME),
        **{name: _text(getattr(occasion, name), most=MOST_NAME) for name in names},
        "tags": [storable(tag, most=MOST_NAME) for tag in occasion.tags[:MOST_TAGS]],
        "run_id": None if occasion.run_id is None else str(occasion.run_id),
        "attempt": occasion.attempt,
        "attempts": occasion.attempts,
        "in_a_row": occasion.in_a_row,
        "count": occasion.count,
        "nominal_at": _instant(occasion.nominal_at),
        "due_at": _instant(occasion.due_at),
        "sentence": storable(occasion.sentence, most=MOST_SENTENCE),
        "remedy": storable(occasion.remedy, most=MOST_SENTENCE),
        "error": _text(occasion.error, most=MOST_ERROR),
        "link": link(occasion.link) or None,
    }


def _text(value: str | None, *, most: int) -> str | None:
    return None if value is None else storable(value, most=most)


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
