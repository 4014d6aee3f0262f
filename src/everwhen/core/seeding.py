"""What `H` is drawn from: a schedule's uid, in every cron expression of its trigger that has an `H`.

Other expressions carry no seed, so that schedules with equal triggers share one.
"""

import re
from dataclasses import replace
from typing import Final

from everwhen.core.cron_dialects import DIALECTS, Syntax
from everwhen.core.trigger_values import AnyOf, Cron, Trigger

_HASH: Final = re.compile(r"(?<![A-Z])H(?![A-Z])")


def draws(trigger: Trigger) -> bool:
    """Whether anything of the trigger depends on a seed."""
    match trigger:
        case Cron(expr=expr, dialect=dialect):
            return Syntax.HASH in DIALECTS[dialect].syntax and _HASH.search(expr.upper()) is not None
        case AnyOf(triggers=triggers, exceptions=exceptions):
            return any(map(draws, (*triggers, *exceptions)))
        case _:
            return False


def seed_trigger(trigger: Trigger, seed: str) -> Trigger:
    """Return the trigger with this seed wherever one matters, and without any elsewhere."""
    match trigger:
        case Cron(hash_seed=present):
            wanted = seed if draws(trigger) else ""
            return trigger if present == wanted else replace(trigger, hash_seed=wanted)
        case AnyOf(triggers=triggers, exceptions=exceptions):
            return replace(
                trigger,
                triggers=tuple(seed_trigger(member, seed) for member in triggers),
                exceptions=tuple(seed_trigger(member, seed) for member in exceptions),
            )
        case _:
            return trigger


def find_seed(trigger: Trigger) -> str:
    """Return the first seed that something is drawn from; empty when there is none."""
    match trigger:
        case Cron(hash_seed=seed):
            return seed if draws(trigger) else ""
        case AnyOf(triggers=triggers, exceptions=exceptions):
            found = (find_seed(member) for member in (*triggers, *exceptions))
            return next((seed for seed in found if seed), "")
        case _:
            return ""
