"""The conformance vectors of tests/cases, through the door that everybody uses: `everwhen next --batch`."""

import json
import re
from pathlib import Path

import pytest

from everwhen.cli.next_batch import answer

BANK = Path(__file__).parents[1] / "cases/time_vectors.jsonl"
VECTORS = [json.loads(line) for line in BANK.read_text("utf-8").splitlines()]


def question(vector):
    given = vector["trigger"]
    match given["kind"]:
        case "cron":
            trigger = {"kind": "cron", "expr": given["expr"], "seconds": given["seconds_field"]}
            trigger["dialect"] = vector["dialect"]
        case "interval":
            trigger = {"kind": "every", "every": given["expr"], "anchor": given["anchor"], "mode": given["mode"]}
        case "rrule":
            trigger = {"kind": "rrule", "rrule": given["expr"], "dtstart": given["anchor"]}
    return {
        "trigger": trigger,
        "timezone": vector["tz"],
        "after": vector["after"],
        "count": vector.get("count", 1),
        "gap": {"shift_forward": "gap_end"}.get(vector["gap_policy"], vector["gap_policy"]),
        "fold": vector["fold_policy"],
    }


def asked(vector):
    return json.loads(answer(json.dumps(question(vector)).encode()))


def is_refused(vector):
    return vector.get("expect_error", False)


ANSWERED = [vector for vector in VECTORS if not is_refused(vector)]
REFUSED = [vector for vector in VECTORS if is_refused(vector)]


def by_id(vector):
    return vector["id"]


@pytest.mark.parametrize("vector", ANSWERED, ids=by_id)
def test_a_vector_gives_its_fires(vector):
    found = asked(vector)
    if vector.get("never"):
        assert found["error"]["code"] == "trigger.cron.unreachable"
        return
    assert found == {
        "fires": vector["expect"],
        "local": vector["expect_local"],
        "exhausted": vector["exhausted"],
    }


@pytest.mark.parametrize("vector", REFUSED, ids=by_id)
def test_a_malformed_expression_is_refused_with_a_code(vector):
    error = asked(vector)["error"]
    assert re.fullmatch(r"trigger(\.[a-z_]+)+", error["code"])
    assert error["field"]
    assert error["message"]


def test_the_bank_is_whole():
    assert len(ANSWERED) == 435
    assert len(REFUSED) == 35
    assert len(VECTORS) == 470
