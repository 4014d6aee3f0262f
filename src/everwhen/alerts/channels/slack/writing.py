"""Writes a message for Slack, within the limits of its Block Kit: what is longer is cut, what is more is left out.

The rendering keeps to the limits already; here they are kept once more, because one block that is too long makes Slack
refuse the whole message, and an alert that says less is better than none.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from everwhen.alerts.message import Rendered

BLOCKS: Final = 50
TEXT_CHARACTERS: Final = 3000
FALLBACK_CHARACTERS: Final = 4000
_BY_TYPE: Final = {"header": 150, "button": 75}
_ITEMS: Final = {"fields": 10, "elements": 25}
_FIELD_CHARACTERS: Final = 2000
_CUT: Final = "…"
_DEPTH: Final = 8


def body_of(rendered: Rendered, *, delivery_id: UUID) -> bytes:
    """Write the message; its first block carries the delivery's id, by which a doubled one can be told."""
    blocks = [_fitted(block, TEXT_CHARACTERS, _DEPTH) for block in rendered.blocks[:BLOCKS]]
    if blocks:
        blocks[0] = {**blocks[0], "block_id": str(delivery_id)}
    text = _cut(f"{rendered.subject}\n{rendered.text}" if not blocks else rendered.subject, FALLBACK_CHARACTERS)
    message = {"text": text or "Everwhen", **({"blocks": blocks} if blocks else {})}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _fitted(part: Mapping[str, Any], most: int, depth: int) -> dict[str, Any]:
    most = _BY_TYPE.get(str(part.get("type")), most)
    return {key: _fitted_value(key, value, most, depth - 1) for key, value in part.items()}


def _fitted_value(key: str, value: Any, most: int, depth: int) -> Any:
    if depth < 0:
        return None
    if isinstance(value, str):
        return _cut(value, TEXT_CHARACTERS if key == "url" else most) or (" " if key == "text" else value)
    if isinstance(value, Mapping):
        return _fitted(cast("Mapping[str, Any]", value), most, depth)
    if isinstance(value, Sequence):
        within = _FIELD_CHARACTERS if key == "fields" else most
        items = cast("Sequence[Any]", value)[: _ITEMS.get(key, 100)]
        return [_fitted_value("", item, within, depth) for item in items]
    return value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
