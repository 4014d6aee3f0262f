"""What a reason means, as a value. `meanings` has each one's."""

from dataclasses import dataclass

from everwhen.core.reasons import Category, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a reason means. `telling` is a format string; its fields are names of facts (numbers and references).

    `remedy` says what a person can do about it; empty where there is nothing to mend.
    """

    category: Category
    severity: Severity
    sentence: str
    telling: str = ""
    remedy: str = ""


def of(category: Category, severity: Severity, sentence: str, *, telling: str = "", remedy: str = "") -> Meaning:
    """Return a meaning."""
    return Meaning(category=category, severity=severity, sentence=sentence, telling=telling, remedy=remedy)
