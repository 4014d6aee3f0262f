"""What templates see of a message: dictionaries, lists, texts and numbers, each cleaned and cut; nothing of ours.

Every name is always there: a text that is not known is empty, a number that is not known is 0. docs/reference/ alert-
templates.md lists them, and a test compares the page with `facts_of`.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from everwhen.alerts.message import AlertKind, Message, Occasion
from everwhen.alerts.texts.cleaning import line, lines, link
from everwhen.alerts.texts.kinds import PHRASES, SIGNS, Tone, plural
from everwhen.alerts.texts.telling import told, told_span
from everwhen.core.sentences import sentence_of
from everwhen.core.tellings import remedy_of

MOST_SHOWN: Final = 20
"""How many occasions a digest tells one by one."""

MOST_TAGS: Final = 20
MOST_NAME: Final = 120
MOST_SENTENCE: Final = 600
MOST_ERROR: Final = 4000
MOST_ERROR_LINE: Final = 160
MOST_COUNTED: Final = 3
"""How many kinds the headline of a digest counts, the most frequent; one more where it would be alone in the rest."""

Facts = dict[str, Any]

_WORST_FIRST: Final = (Tone.BAD, Tone.WARNING, Tone.GOOD, Tone.CALM)


def is_digest(message: Message) -> bool:
    """Tell whether a message is written as a digest."""
    return message.total != 1 or len(message.shown) != 1


def facts_of(message: Message) -> Facts:
    """Return what a template can use."""
    occasions = [facts_of_occasion(occasion) for occasion in message.shown[:MOST_SHOWN]]
    counts = _counts(message)
    zone = _common_zone(message)
    first, last = _window(message)
    window, window_utc = told_span(first, last, zone)
    digest = is_digest(message)
    facts: Facts = {
        "tenant": line(message.tenant, most=MOST_NAME),
        "channel": line(message.channel, most=MOST_NAME),
        "subscriptions": [line(name, most=MOST_NAME) for name in message.subscriptions[:MOST_TAGS]],
        "delivery_id": str(message.delivery_id),
        "total": message.total,
        "more": max(0, message.total - len(occasions)),
        "counts": counts,
        "window": window,
        "window_utc": window_utc,
        "occasions": occasions,
    }
    if digest:
        facts |= {"headline": _headline(message, counts), "tone": _worst(counts, occasions)}
        facts["when"] = told(last, zone).short
    else:
        only = occasions[0]
        facts |= {"headline": f"{only['name']}: {only['state']}", "tone": only["tone"], "occasion": only}
        facts["when"] = only["intended_short"] or only["at_short"]
    facts["sign"] = SIGNS[facts["tone"]]
    return facts


def fewer(facts: Facts, most: int) -> Facts:
    """Return the facts with at most so many occasions; the others are counted."""
    occasions = facts["occasions"]
    return {**facts, "occasions": occasions[:most], "more": facts["more"] + len(occasions[most:])}


def facts_of_occasion(occasion: Occasion) -> Facts:
    """Return what a template can use of one occasion."""
    phrase = PHRASES[occasion.kind]
    name = line(occasion.subject, most=MOST_NAME) or "(no name)"
    intended, due, at = (
        told(instant, occasion.zone) for instant in (occasion.nominal_at, occasion.due_at, occasion.at)
    )
    reason = line(occasion.reason or "", most=MOST_NAME)
    error = lines(occasion.error or "", most=MOST_ERROR)
    return {
        "kind": occasion.kind.value,
        "name": name,
        "thing": phrase.thing,
        "word": phrase.word,
        "state": phrase.state(occasion),
        "sentence": phrase.sentence(occasion, name),
        "tone": phrase.tone.value,
        "sign": SIGNS[phrase.tone],
        **{part: line(getattr(occasion, part) or "", most=MOST_NAME) for part in ("schedule", "task", "workflow")},
        "queue": line(occasion.queue or "", most=MOST_NAME),
        "tags": [line(tag, most=MOST_NAME) for tag in occasion.tags[:MOST_TAGS]],
        "run_id": str(occasion.run_id or ""),
        "attempt": occasion.attempt or 0,
        "attempts": occasion.attempts or 0,
        "in_a_row": occasion.in_a_row or 0,
        "count": occasion.count,
        "intended": intended.local,
        "intended_utc": intended.utc,
        "intended_short": intended.short,
        "due": due.local if occasion.due_at != occasion.nominal_at else "",
        "due_utc": due.utc if occasion.due_at != occasion.nominal_at else "",
        "at": at.local,
        "at_utc": at.utc,
        "at_short": at.short,
        "zone": line(occasion.zone or "", most=MOST_NAME),
        "reason": reason,
        "why": line(occasion.sentence or sentence_of(occasion.reason) or "", most=MOST_SENTENCE),
        "remedy": line(occasion.remedy or remedy_of(occasion.reason or ""), most=MOST_SENTENCE),
        "error": error,
        "error_line": line(error.lstrip().partition("\n")[0], most=MOST_ERROR_LINE),
        "fingerprint": line(occasion.fingerprint or "", most=MOST_NAME)[:16],
        "link": link(occasion.link),
    }


def _counts(message: Message) -> list[Facts]:
    counted: Iterable[tuple[AlertKind, int]] = message.counts
    if not message.counts:
        counted = Counter(occasion.kind for occasion in message.shown).most_common()
    return [_count(kind, number) for kind, number in counted]


def _count(kind: AlertKind, number: int) -> Facts:
    phrase = PHRASES[kind]
    return {
        "kind": kind.value,
        "count": number,
        "words": plural(number, phrase.one, phrase.many),
        "word": phrase.one if number == 1 else phrase.many,
        "tone": phrase.tone.value,
        "sign": SIGNS[phrase.tone],
    }


def _headline(message: Message, counts: list[Facts]) -> str:
    few = len(counts) if len(counts) == MOST_COUNTED + 1 else MOST_COUNTED
    told_kinds = [count["words"] for count in counts[:few]]
    others = len(counts) - len(told_kinds)
    if others:
        told_kinds.append(plural(others, "other kind"))
    return ", ".join(told_kinds) or plural(message.total, "alert")


def _worst(counts: list[Facts], occasions: list[Facts]) -> str:
    tones = {fact["tone"] for fact in (*counts, *occasions)}
    return next((tone.value for tone in _WORST_FIRST if tone.value in tones), Tone.CALM.value)


def _common_zone(message: Message) -> str | None:
    """Return the zone to tell the window in: that of all occasions shown, or none where they differ."""
    zones = {occasion.zone for occasion in message.shown}
    return zones.pop() if len(zones) == 1 else None


def _window(message: Message) -> tuple[datetime | None, datetime | None]:
    instants = [occasion.at.astimezone(UTC) for occasion in message.shown]
    first = message.window_from or min(instants, default=None)
    return first, message.window_to or max(instants, default=None)
