"""The truth table of the trigger rules, written down: upstream states against each rule's decision."""

import json
from itertools import combinations_with_replacement, permutations
from pathlib import Path

import pytest

from everwhen.core.dag_rules import Decision, Tally, decide_rule
from everwhen.core.dag_values import NodeState, TriggerRule
from tests.core.naive_dag import decision

BANK = Path(__file__).parents[1] / "cases/dag_cases.jsonl"

RULES = (
    "all_success",
    "all_failed",
    "all_done",
    "all_skipped",
    "one_success",
    "one_failed",
    "one_done",
    "none_failed",
    "none_failed_min_one_success",
    "none_skipped",
    "all_done_min_one_success",
)
# S succeeded, F failed, K skipped, U upstream_failed; R run, S skipped, U upstream_failed; columns as in RULES.
TABLE = """
    S    R  S  R  S  R  S  R  R  R  R  R
    F    U  R  R  S  U  R  R  U  U  R  U
    K    S  S  R  R  S  S  S  R  S  S  S
    U    U  R  R  S  U  R  S  U  U  R  U
    SS   R  S  R  S  R  S  R  R  R  R  R
    SF   U  S  R  S  R  R  R  U  U  R  R
    SK   S  S  R  S  R  S  R  R  R  S  S
    SU   U  S  R  S  R  R  R  U  U  R  R
    FF   U  R  R  S  U  R  R  U  U  R  U
    FK   U  S  R  S  U  R  R  U  U  S  S
    FU   U  R  R  S  U  R  R  U  U  R  U
    KK   S  S  R  R  S  S  S  R  S  S  S
    KU   U  S  R  S  U  R  S  U  U  S  S
    UU   U  R  R  S  U  R  S  U  U  R  U
    SSS  R  S  R  S  R  S  R  R  R  R  R
    SSF  U  S  R  S  R  R  R  U  U  R  R
    SSK  S  S  R  S  R  S  R  R  R  S  S
    SSU  U  S  R  S  R  R  R  U  U  R  R
    SFF  U  S  R  S  R  R  R  U  U  R  R
    SFK  U  S  R  S  R  R  R  U  U  S  S
    SFU  U  S  R  S  R  R  R  U  U  R  R
    SKK  S  S  R  S  R  S  R  R  R  S  S
    SKU  U  S  R  S  R  R  R  U  U  S  S
    SUU  U  S  R  S  R  R  R  U  U  R  R
    FFF  U  R  R  S  U  R  R  U  U  R  U
    FFK  U  S  R  S  U  R  R  U  U  S  S
    FFU  U  R  R  S  U  R  R  U  U  R  U
    FKK  U  S  R  S  U  R  R  U  U  S  S
    FKU  U  S  R  S  U  R  R  U  U  S  S
    FUU  U  R  R  S  U  R  R  U  U  R  U
    KKK  S  S  R  R  S  S  S  R  S  S  S
    KKU  U  S  R  S  U  R  S  U  U  S  S
    KUU  U  S  R  S  U  R  S  U  U  S  S
    UUU  U  R  R  S  U  R  S  U  U  R  U
"""
LETTERS = {
    "S": NodeState.SUCCEEDED,
    "F": NodeState.FAILED,
    "K": NodeState.SKIPPED,
    "U": NodeState.UPSTREAM_FAILED,
    "C": NodeState.CANCELLED,
    "X": NodeState.EXPIRED,
}
NAMES = {"S": "success", "F": "failed", "K": "skipped", "U": "upstream_failed", "C": "cancelled", "X": "expired"}
DECISIONS = {"R": Decision.RUN, "S": Decision.SKIP, "U": Decision.UPSTREAM_FAILED}
ROWS = {row.split()[0]: row.split()[1:] for row in TABLE.strip().splitlines()}
EARLY = {"one_success": "S", "one_failed": "FU", "one_done": "SF"}


def tally_of(letters):
    tally = Tally()
    for letter in letters:
        tally = tally.plus(LETTERS[letter])
    return tally


def decided(rule, letters, total=None):
    return decide_rule(TriggerRule(rule), tally_of(letters), total=len(letters) if total is None else total)


def test_the_table_has_every_combination_of_up_to_three_upstreams_and_every_rule():
    combinations = {"".join(found) for size in (1, 2, 3) for found in combinations_with_replacement("SFKU", size)}

    assert set(ROWS) == combinations
    assert set(RULES) == set(TriggerRule)
    assert {len(row) for row in ROWS.values()} == {len(RULES)}


@pytest.mark.parametrize("letters", ROWS)
def test_a_row(letters):
    for rule, expected in zip(RULES, ROWS[letters], strict=True):
        assert decided(rule, letters) is DECISIONS[expected], rule


@pytest.mark.parametrize("letters", ROWS)
def test_cancelled_and_expired_count_as_failed(letters):
    for other in "CX":
        for rule in RULES:
            assert decided(rule, letters.replace("F", other)) is decided(rule, letters)


@pytest.mark.parametrize("letters", ROWS)
def test_the_brute_force_agrees_with_the_table(letters):
    for rule, expected in zip(RULES, ROWS[letters], strict=True):
        word = decision(rule, [NAMES[letter] for letter in letters])
        assert word == DECISIONS[expected].value, rule


@pytest.mark.parametrize("letters", ROWS)
def test_while_an_upstream_is_open_only_an_impatient_rule_decides_and_only_to_run(letters):
    for rule in RULES:
        found = decided(rule, letters, total=len(letters) + 1)
        assert found is (Decision.RUN if set(letters) & set(EARLY.get(rule, "")) else None), rule


def test_what_an_impatient_rule_decided_early_is_what_it_would_decide_late():
    for rule, letters in EARLY.items():
        for found in letters:
            for rest in combinations_with_replacement("SFKU", 3):
                assert decided(rule, [found, *rest]) is Decision.RUN


def test_the_order_of_the_ends_is_nothing_to_a_rule():
    for found in permutations("SFKU"):
        assert {decided(rule, found) for rule in RULES} == {decided(rule, "SFKU") for rule in RULES}


@pytest.mark.parametrize("rule", RULES)
def test_a_node_without_upstreams_runs_whatever_its_rule(rule):
    assert decided(rule, "") is Decision.RUN


@pytest.mark.parametrize("rule", RULES)
def test_a_node_that_no_branch_took_is_skipped_whatever_its_rule(rule):
    tally = Tally().plus(NodeState.SUCCEEDED, taken=False)

    assert decide_rule(TriggerRule(rule), tally, total=1) is Decision.SKIP


def test_an_open_state_is_no_end():
    with pytest.raises(ValueError, match="no end"):
        Tally().plus(NodeState.RUNNING)


TRUTHS = [case for case in map(json.loads, BANK.read_text("utf-8").splitlines()) if case["kind"] == "truth"]


@pytest.mark.parametrize("case", TRUTHS, ids=lambda case: case["id"])
def test_a_truth_of_the_bank(case):
    letters = [letter for word in case["upstreams"] for letter, name in NAMES.items() if name == word]

    assert {rule: decided(rule, letters).value for rule in RULES} == case["decide"]
