"""Names of calendars, and the calendars themselves: a trigger knows names only, until it is bound to a book."""

from collections.abc import Iterator
from dataclasses import replace

from everwhen.core.business_days import BusinessDay
from everwhen.core.calendar_use import Book, CalendarUse
from everwhen.core.trigger_values import AnyOf, Trigger


def names_in(trigger: Trigger) -> Iterator[str]:
    """Yield the name of every calendar that a trigger needs."""
    match trigger:
        case BusinessDay(calendar=calendar):
            yield calendar
        case AnyOf(triggers=triggers, exceptions=exceptions):
            for member in (*triggers, *exceptions):
                yield from names_in(member)
        case _:
            return


def needed_names(trigger: Trigger, use: CalendarUse | None) -> tuple[str, ...]:
    """Return the names of the calendars that a trigger and its schedule's use of calendars need, each once."""
    return tuple(dict.fromkeys((*names_in(trigger), *(() if use is None else use.names))))


def bind_trigger(trigger: Trigger, book: Book) -> Trigger:
    """Return the trigger with the calendars of the book; those that are not in it stay unbound."""
    match trigger:
        case BusinessDay(calendar=calendar):
            return trigger.bind(book.get(calendar))
        case AnyOf(triggers=triggers, exceptions=exceptions):
            return replace(
                trigger,
                triggers=tuple(bind_trigger(member, book) for member in triggers),
                exceptions=tuple(bind_trigger(member, book) for member in exceptions),
            )
        case _:
            return trigger
