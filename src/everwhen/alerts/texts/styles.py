"""The colours of a mail in light and dark, and the styles that its elements carry.

A mail carries the light styles on its elements, because many clients drop everything else; a client that keeps the
style sheet and prefers dark gets the other colours by class. Texts have a contrast of at least 4.5:1 in both; a test
computes it. No tone is told by its colour alone: sign and word stand beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

FONT: Final = "-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
MONOSPACE: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours by what they are for. Each tone has a strong colour, and a pale one to write upon with it."""

    page: str
    card: str
    edge: str
    well: str
    text: str
    muted: str
    link: str
    button: str
    on_button: str
    bad: str
    pale_bad: str
    warning: str
    pale_warning: str
    good: str
    pale_good: str
    calm: str
    pale_calm: str


LIGHT: Final = Palette(
    page="#F2F4F7",
    card="#FFFFFF",
    edge="#DFE4EA",
    well="#F6F7F9",
    text="#18202B",
    muted="#556070",
    link="#1F45B8",
    button="#244ECC",
    on_button="#FFFFFF",
    bad="#9B120C",
    pale_bad="#FDECEA",
    warning="#805B00",
    pale_warning="#FCF3DC",
    good="#0B6B6B",
    pale_good="#E2F4F3",
    calm="#475467",
    pale_calm="#ECEFF3",
)
DARK: Final = Palette(
    page="#0B0E13",
    card="#171C24",
    edge="#2C3440",
    well="#10151C",
    text="#E8ECF2",
    muted="#A6B0BF",
    link="#9DBBFF",
    button="#4F7BEA",
    on_button="#0A0E16",
    bad="#FF9B8F",
    pale_bad="#3B1714",
    warning="#F3C64B",
    pale_warning="#33280B",
    good="#7FE0C3",
    pale_good="#0F302B",
    calm="#B7C2D0",
    pale_calm="#262E39",
)

TONES: Final = ("bad", "warning", "good", "calm")


def _tone(name: str) -> tuple[str, str]:
    return getattr(LIGHT, name), getattr(LIGHT, f"pale_{name}")


STYLES: Final[Mapping[str, str]] = {
    "name": f"margin:0;font:600 22px/1.3 {FONT};color:{LIGHT.text};word-break:break-word",
    "lead": f"margin:0;font:400 16px/1.5 {FONT};color:{LIGHT.text};word-break:break-word",
    "text": f"font:400 15px/1.5 {FONT};color:{LIGHT.text};word-break:break-word",
    "strong": f"font:600 15px/1.5 {FONT};color:{LIGHT.text};word-break:break-word",
    "muted": f"font:400 13px/1.5 {FONT};color:{LIGHT.muted};word-break:break-word",
    "label": f"font:400 13px/1.6 {FONT};color:{LIGHT.muted};white-space:nowrap",
    "code": f"margin:0;font:400 13px/1.55 {MONOSPACE};color:{LIGHT.text};white-space:pre-wrap;word-break:break-word",
    "link": f"color:{LIGHT.link};text-decoration:underline",
    "button": f"display:inline-block;padding:11px 20px;border-radius:6px;background-color:{LIGHT.button};"
    f"font:600 15px/1.2 {FONT};color:{LIGHT.on_button};text-decoration:none",
    "well": f"background-color:{LIGHT.well};border:1px solid {LIGHT.edge};border-radius:6px;padding:12px 14px",
    "rule": f"border-top:1px solid {LIGHT.edge}",
    **{
        tone: f"display:inline-block;padding:3px 10px;border-radius:12px;background-color:{pale};"
        f"font:600 13px/1.4 {FONT};color:{strong}"
        for tone in TONES
        for strong, pale in (_tone(tone),)
    },
}
"""What `style="{{ style.… }}"` puts on an element; its class of the same name, with `ew-`, makes it dark."""


def with_styles(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the HTML part has besides: the styles of elements, and of the label of each tone."""

    def styled(group: Mapping[str, Any]) -> dict[str, Any]:
        return {**group, "pill": STYLES[group["tone"]], "ink": f"color:{getattr(LIGHT, group['tone'])}"}

    more: dict[str, Any] = {"style": dict(STYLES), "pill": STYLES[facts["tone"]]}
    more |= {name: [styled(each) for each in facts[name]] for name in ("counts", "occasions")}
    if "occasion" in facts:
        more["occasion"] = styled(facts["occasion"])
    return {**facts, **more}


@lru_cache(maxsize=1)
def sheet() -> str:
    """Return the style sheet: dark colours by class, and what changes on a narrow screen."""
    dark = _rules(DARK)
    by_preference = "".join(f".{name}{{{body}}}" for name, body in dark)
    by_outlook = "".join(f"[data-ogsc] .{name}{{{body}}}" for name, body in dark)
    narrow = (
        ".ew-edge{padding:0!important}.ew-card,.ew-bar{border-radius:0!important}.ew-pad{padding:20px 18px!important}"
        ".ew-stack{display:block!important;width:auto!important;padding-right:0!important}"
        ".ew-stack-label{display:block!important;width:auto!important;padding:8px 0 0!important}"
    )
    return (
        ":root{color-scheme:light dark;supported-color-schemes:light dark}"
        f"@media (prefers-color-scheme:dark){{{by_preference}}}"
        f"{by_outlook}"
        f"@media (max-width:480px){{{narrow}}}"
    )


def _rules(palette: Palette) -> list[tuple[str, str]]:
    def text(colour: str) -> str:
        return f"color:{colour}!important"

    def ground(colour: str) -> str:
        return f"background-color:{colour}!important"

    rules = [
        ("ew-page", ground(palette.page)),
        ("ew-card", f"{ground(palette.card)};border-color:{palette.edge}!important"),
        ("ew-well", f"{ground(palette.well)};border-color:{palette.edge}!important"),
        ("ew-rule", f"border-color:{palette.edge}!important"),
        *((f"ew-{name}", text(palette.text)) for name in ("name", "lead", "text", "strong", "code")),
        *((f"ew-{name}", text(palette.muted)) for name in ("muted", "label")),
        ("ew-link", text(palette.link)),
        ("ew-button", f"{ground(palette.button)};{text(palette.on_button)}"),
    ]
    for tone in TONES:
        strong, pale = getattr(palette, tone), getattr(palette, f"pale_{tone}")
        rules += [(f"ew-{tone}", f"{ground(pale)};{text(strong)}"), (f"ew-ink-{tone}", text(strong))]
        rules.append((f"ew-bar-{tone}", ground(strong)))
    return rules


def colours(palette: Palette) -> Mapping[str, str]:
    """Return a palette's colours by name."""
    return {each.name: getattr(palette, each.name) for each in fields(palette)}
