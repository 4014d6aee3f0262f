"""JSON as an adversary would write it, refused: what the standard decoder lets pass breaks something further in.

Duplicate keys (two readers disagree about the value), NaN and Infinity and numbers that overflow to them, integers that
no 64-bit reader holds, NUL (PostgreSQL cannot store it), lone surrogates (no UTF-8), and nesting without end.
"""

import json
import math
import re
from typing import Any, Final

from everwhen.errors import InvalidInput

MOST_DEPTH: Final = 32
MOST_KEYS: Final = 1_000
MOST_INTEGER: Final = 2**63 - 1

# NUL, and code points that are no characters by themselves
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def loads(raw: bytes | str) -> Any:
    """Decode one JSON document; raise InvalidInput (codes `json.*`) for whatever is not plain."""
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except UnicodeDecodeError as error:
        raise InvalidInput("The body is not UTF-8.", code="json.encoding") from error
    except RecursionError as error:
        raise _too_deep() from error
    except json.JSONDecodeError as error:
        raise InvalidInput(f"The body is not JSON: {error.msg} at {error.pos}.", code="json.syntax") from error
    _check(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise InvalidInput(f"An object has more than {MOST_KEYS} keys.", code="json.keys")
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidInput("A key is given twice.", code="json.duplicate_key")
    return found


def _refuse_constant(name: str) -> Any:
    raise InvalidInput(f"{name} is not a JSON number.", code="json.number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidInput("A number is too large.", code="json.number")
    return number


def _integer(text: str) -> int:
    # The length first: turning a million digits into a number takes quadratic time.
    if len(text) > len(str(MOST_INTEGER)) + 1 or abs(number := int(text)) > MOST_INTEGER:
        raise InvalidInput("An integer does not fit into 64 bits.", code="json.number")
    return number


def _check(value: Any) -> None:
    """Walk the document without recursion: its depth is not to be trusted."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise _too_deep()
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                for key, inner in item.items():  # pyright: ignore[reportUnknownVariableType]  # JSON: any value
                    _check_text(str(key))  # pyright: ignore[reportUnknownArgumentType]
                    below.append(inner)
            elif isinstance(item, list):
                below.extend(item)  # pyright: ignore[reportUnknownArgumentType]
        level = below


def _check_text(text: str) -> None:
    if _UNSTORABLE.search(text):
        raise InvalidInput("A text contains NUL or half a surrogate pair.", code="json.character")


def _too_deep() -> InvalidInput:
    return InvalidInput(f"The body is nested deeper than {MOST_DEPTH} levels.", code="json.depth")
