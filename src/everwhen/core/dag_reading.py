"""Reading fields of decoded JSON, one at a time, with every fault collected and none guessed."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar, cast

from everwhen.core.dag_values import MOST_FAULTS, Fault, TriggerRule, WorkflowError
from everwhen.core.errors import quoted

MOST_SECONDS: Final = 31 * 86_400
LONGEST_DESCRIPTION: Final = 2_000
LONGEST_KEY: Final = 200

_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(slots=True)
class Reader:
    """Reads values and collects faults; a value that is wrong is read as its default, so that reading goes on."""

    faults: list[Fault] = field(default_factory=list[Fault])

    def blame(self, code: str, message: str, pointer: str) -> None:
        self.faults.append(Fault(f"workflow.{code}", message, pointer))
        if len(self.faults) >= MOST_FAULTS:
            self.stop()

    def stop(self) -> None:
        """Raise what was found so far, if anything."""
        if self.faults:
            raise WorkflowError(*self.faults)

    def refuse(self, code: str, message: str, pointer: str) -> NoReturn:
        """Blame what makes it pointless to read on."""
        raise WorkflowError(*self.faults, Fault(f"workflow.{code}", message, pointer))

    def mapping(self, value: object, pointer: str, keys: frozenset[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self.blame("type", f"{place_of(pointer)} is a JSON object", pointer)
            return {}
        given = cast("dict[str, Any]", value)
        for key in given:
            if key not in keys:
                known = ", ".join(sorted(keys))
                self.blame(
                    "unknown_field", f"{quoted(key)} is not known here; there are {known}", f"{pointer}/{escaped(key)}"
                )
        return given

    def text(self, given: Mapping[str, Any], key: str, pointer: str, *, pattern: re.Pattern[str]) -> str | None:
        value = given.get(key)
        if value is None or (isinstance(value, str) and pattern.fullmatch(value)):
            return value
        message = f"{key} is a name: letters, digits, '.', '_' and '-', at most 200 of them"
        self.blame("name", message, f"{pointer}/{key}")
        return None

    def description(self, given: Mapping[str, Any]) -> str:
        value = given.get("description")
        if value is None:
            return ""
        is_text = isinstance(value, str) and len(value) <= LONGEST_DESCRIPTION
        if not is_text or not value.replace("\n", "").isprintable():
            message = f"description is a printable text of at most {LONGEST_DESCRIPTION:,} characters"
            self.blame("description", message, "/description")
            return ""
        return value

    def choice(self, given: Mapping[str, Any], key: str, pointer: str, default: _Choice) -> _Choice:
        value = given.get(key)
        kind = type(default)
        if value is None:
            return default
        if isinstance(value, str) and value in set(kind):
            return kind(value)
        shown = f"{quoted(value)} is none" if isinstance(value, str) else "this is none"
        code = "rule" if kind is TriggerRule else key
        self.blame(code, f"{key} is one of {', '.join(kind)}; {shown}", f"{pointer}/{key}")
        return default

    def flag(self, given: Mapping[str, Any], key: str, pointer: str) -> bool:
        value = given.get(key)
        if value is not None and not isinstance(value, bool):
            self.blame("type", f"{key} is true or false", f"{pointer}/{key}")
        return value is True

    def whole(self, given: Mapping[str, Any], key: str, pointer: str, *, most: int, least: int = 1) -> int | None:
        value = given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.blame("range", f"{key} is a whole number from {least} to {most:,}", f"{pointer}/{key}")
            return None
        return value

    def number(
        self, given: Mapping[str, Any], key: str, pointer: str, *, most: float, least: float = 0
    ) -> float | None:
        value = given.get(key)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:  # refuses NaN, too
            self.blame("range", f"{key} is a number from {least:g} to {most:,.0f}", f"{pointer}/{key}")
            return None
        return float(value)

    def seconds(self, given: Mapping[str, Any], key: str, pointer: str, *, most: float = MOST_SECONDS) -> float | None:
        value = self.number(given, key, pointer, most=most)
        if value == 0:
            self.blame("range", f"{key} is more than 0", f"{pointer}/{key}")
        return value


def place_of(pointer: str) -> str:
    """Return a pointer for a sentence."""
    return pointer.removeprefix("/") or "a workflow"


def escaped(key: str) -> str:
    """Return a key as it stands in a pointer, cut where it is absurdly long."""
    return key[:LONGEST_KEY].replace("~", "~0").replace("/", "~1")


def json_size(value: Any) -> int:
    """Return how many bytes a value has as JSON; of one that is nested too deeply, more than anything may have."""
    try:
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))
    except RecursionError:
        return sys.maxsize
