"""Proofs of imports, as JSON and as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everwhen.core.compare import Move
    from everwhen.core.proofs import Proof


def proof_json(proof: Proof) -> dict[str, Any]:
    """Return a proof as JSON data."""
    from everwhen.core.trigger_json import instant_text

    return {
        "equal": proof.is_equal,
        "complete": proof.complete,
        "until": instant_text(proof.until),
        "same_rule": proof.same_rule,
        "same": proof.same,
        "differences": proof.differences,
        "first": [_move_json(move) for move in proof.first],
    }


def _move_json(move: Move) -> dict[str, Any]:
    return {
        "kind": move.kind.value,
        "before": move.before and move.before.isoformat(),
        "after": move.after and move.after.isoformat(),
    }


def sentence_of(proof: dict[str, Any]) -> str:
    """Return what a proof, as JSON, claims, and how far that reaches."""
    reach = "for the next 10 years" if proof["complete"] else f"until {proof['until']}, where the budget ended"
    if proof["equal"]:
        return f"equal {reach}"
    rest = "all where clocks change" if proof["same"] is None else f"{proof['same']} equal"
    return f"{proof['differences']} differences, {rest}, {reach}"


def differences_of(proof: dict[str, Any]) -> list[str]:
    """Return a line for each difference that a proof lists, and one for the rest."""
    found = [f"{move['kind']}: {move['before'] or '-'} → {move['after'] or '-'}" for move in proof["first"]]
    rest = proof["differences"] - len(found)
    return [*found, f"… and {rest} more"] if rest else found
