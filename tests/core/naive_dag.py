"""A workflow by brute force: asks every node again at every instant, knows no counters, no events and no order.

Written from the documentation alone and sharing no code with what it checks; slow on purpose.
"""

GOOD, BAD, SKIP, UPSTREAM = "success", "failed", "skipped", "upstream_failed"


def decision(rule, states):
    """`states` are the ends of all upstreams; returns run, skipped or upstream_failed."""
    kinds = {BAD if state in {"cancelled", "expired"} else state for state in states}
    went_wrong = bool(kinds & {BAD, UPSTREAM})
    if not states or rule == "all_done":
        return "run"
    answers = {
        "all_success": UPSTREAM if went_wrong else ("run" if kinds == {GOOD} else SKIP),
        "all_failed": "run" if kinds <= {BAD, UPSTREAM} else SKIP,
        "all_skipped": "run" if kinds == {SKIP} else SKIP,
        "one_success": "run" if GOOD in kinds else (SKIP if kinds == {SKIP} else UPSTREAM),
        "one_failed": "run" if went_wrong else SKIP,
        "one_done": "run" if kinds & {GOOD, BAD} else SKIP,
        "none_failed": UPSTREAM if went_wrong else "run",
        "none_failed_min_one_success": UPSTREAM if went_wrong else ("run" if GOOD in kinds else SKIP),
        "none_skipped": SKIP if SKIP in kinds else "run",
        "all_done_min_one_success": SKIP if SKIP in kinds else ("run" if GOOD in kinds else UPSTREAM),
    }
    return answers[rule]


def early(rule, ended):
    """Whether one of the upstreams that ended so far is what an impatient rule waits for."""
    wanted = {"one_success": {GOOD}, "one_failed": {BAD, UPSTREAM}, "one_done": {GOOD, BAD}}
    return bool(wanted.get(rule, set()) & set(ended))


def when_decided(node, played):
    """Return (instant, decision). `played` maps every upstream to (state, end)."""
    rule, needs = node["rule"], node["needs"]
    if not needs:
        return 0, "run"
    for instant in sorted({played[need][1] for need in needs}):
        ended = [played[need][0] for need in needs if played[need][1] <= instant]
        if early(rule, ended):
            return instant, "run"
        if len(ended) == len(needs):
            return instant, decision(rule, ended)
    raise AssertionError("the last instant has all of them")


def attempts_of(node):
    outcomes = node["outcome"] if isinstance(node["outcome"], list) else [node["outcome"]]
    for attempt in range(1, node["max_attempts"] + 1):
        outcome = outcomes[min(attempt, len(outcomes)) - 1]
        if outcome != BAD:
            return attempt, outcome
    return node["max_attempts"], BAD


def play(nodes, cancel_at=None):
    """Return {id: (state, attempts, start, end)}, node by node in topological order."""
    left, found = list(nodes), {}
    while left:
        node = next(n for n in left if all(need in found for need in n["needs"]))
        left.remove(node)
        found[node["id"]] = play_node(node, {key: (value[0], value[3]) for key, value in found.items()}, cancel_at)
    return found


def play_node(node, played, cancel_at):
    at, answer = when_decided(node, played)
    is_cancelled = cancel_at is not None and (at > cancel_at or (answer == "run" and at >= cancel_at))
    if not is_cancelled and cancel_at is not None and answer != "run":
        # Decided by ends that the cancel itself made: then the cancel is what ended this node, too.
        is_cancelled = at == cancel_at and any(played[need][0] == "cancelled" for need in node["needs"])
    if is_cancelled:
        return "cancelled", 0, None, cancel_at
    if answer != "run":
        return answer, 0, None, at
    clock, attempts, (total, last) = at, 0, attempts_of(node)
    while True:
        attempts += 1
        clock += node["duration"]
        if cancel_at is not None and clock > cancel_at:
            return "cancelled", attempts, at, cancel_at
        if attempts == total:
            return last, attempts, at, clock
        clock += node["retry_delay"]
        if cancel_at is not None and clock >= cancel_at:
            return "cancelled", attempts, at, cancel_at


def run_state(nodes, found, *, leaves_only=False):
    states = {key: value[0] for key, value in found.items()}
    if "cancelled" in states.values():
        return "cancelled"
    needed = {need for node in nodes for need in node["needs"]}
    looked_at = [state for key, state in states.items() if not leaves_only or key not in needed]
    return "failed" if any(state in {BAD, UPSTREAM} for state in looked_at) else "success"
