import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.cli.next import next_command
from everwhen.cli.next_batch import LONGEST_LINE, MOST_FIRES, answer

QUESTION = {
    "trigger": {"kind": "cron", "expr": "30 2 * * *"},
    "timezone": "Europe/Berlin",
    "after": "2021-03-27T12:00:00Z",
    "count": 2,
    "gap": "gap_end",
    "fold": "first",
}
ANSWER = {
    "fires": ["2021-03-28T01:00:00Z", "2021-03-29T00:30:00Z"],
    "local": ["2021-03-28T03:00:00+02:00", "2021-03-29T02:30:00+02:00"],
    "exhausted": False,
}


def asked(line):
    return json.loads(answer(line if isinstance(line, bytes) else json.dumps(line).encode()))


def changed(**changes):
    return {key: value for key, value in (QUESTION | changes).items() if value is not ...}


def lines_of(stdin):
    result = CliRunner().invoke(next_command, ["--batch"], input=stdin)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_question_is_answered():
    assert asked(QUESTION) == ANSWER


def test_one_process_answers_line_by_line_whatever_a_line_holds():
    program = "from everwhen.cli.next import next_command; next_command()"
    bad = ["[", "", "NaN", "{" * 60_000, "\x00", '"text"', "x" * 200_000]
    stdin = "\n".join([json.dumps(QUESTION), *bad, json.dumps(QUESTION)])
    done = subprocess.run(
        [sys.executable, "-c", program, "--batch"], input=stdin.encode(), capture_output=True, check=True
    )
    first, *errors, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert first == last == ANSWER
    assert [line["error"]["code"] for line in errors] == ["input.json"] * 5 + ["input.too_long"]
    assert done.stderr == b""


def test_only_the_core_is_imported_for_an_answer():
    program = (
        "import sys; from everwhen.cli.next import next_command; next_command(['--batch'], standalone_mode=False); "
        "print([name for name in ('fastapi', 'psycopg', 'rich', 'pydantic', 'msgspec') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(QUESTION).encode(), capture_output=True, check=True
    )
    assert done.stdout.splitlines()[-1] == b"[]"


def test_every_kind_and_its_defaults():
    every = {"kind": "every", "every": "PT1H", "anchor": "2021-01-01T00:30:00Z"}
    assert asked({"trigger": every, "after": "2021-01-01T01:00:00Z"}) == {
        "fires": ["2021-01-01T01:30:00Z"],
        "local": ["2021-01-01T01:30:00+00:00"],
        "exhausted": False,
    }
    at = {"kind": "at", "at": "2021-01-01T00:30:00.5Z"}
    assert asked({"trigger": at, "after": "2021-01-01T00:00:00Z", "count": 3, "timezone": "Asia/Tokyo"}) == {
        "fires": ["2021-01-01T00:30:00.500000Z"],
        "local": ["2021-01-01T09:30:00.500000+09:00"],
        "exhausted": True,
    }
    seconds = {"kind": "cron", "expr": "*/30 * * * * *", "seconds": True, "dialect": "vixie"}
    assert asked({"trigger": seconds, "after": "2021-01-01T00:00:00Z"})["fires"] == ["2021-01-01T00:00:30Z"]


def test_exhausted_says_that_no_fire_follows_the_last_one():
    once = {"kind": "at", "at": "2021-01-01T00:30:00Z"}
    assert asked({"trigger": once, "after": "2021-01-01T00:00:00Z", "count": 1})["exhausted"] is True
    assert asked({"trigger": once, "after": "2022-01-01T00:00:00Z", "count": 1}) == {
        "fires": [],
        "local": [],
        "exhausted": True,
    }


@pytest.mark.parametrize(
    ("question", "code", "field"),
    [
        (changed(trigger=...), "trigger.field.missing", "trigger"),
        (changed(trigger=None), "trigger.type", "trigger"),
        (changed(trigger={"kind": "rrule", "rrule": "FREQ=DAILY"}), "trigger.field.missing", "dtstart"),
        (changed(after=...), "trigger.field.missing", "after"),
        (changed(after=1), "trigger.field.type", "after"),
        (changed(after="2021-03-27"), "trigger.instant.syntax", "after"),
        (changed(after="2021-03-27T12:00:00"), "trigger.instant.naive", "after"),
        (changed(after="0001-01-01T00:00:00+01:00"), "trigger.instant.range", "after"),
        (changed(timezone="Europe"), "trigger.timezone.unknown", "timezone"),
        (changed(timezone="../x"), "trigger.timezone.unknown", "timezone"),
        (changed(timezone=""), "trigger.timezone.unknown", "timezone"),
        (changed(timezone="\0"), "trigger.timezone.unknown", "timezone"),
        (changed(timezone=None), "trigger.field.type", "timezone"),
        (changed(count=0), "input.count", "count"),
        (changed(count=MOST_FIRES + 1), "input.count", "count"),
        (changed(count=True), "input.count", "count"),
        (changed(count=1.0), "input.count", "count"),
        (changed(count=10**400), "input.count", "count"),
        (changed(gap="shift_forward"), "trigger.gap.unknown", "gap"),
        (changed(fold="third"), "trigger.fold.unknown", "fold"),
        (changed(gap=[]), "trigger.field.type", "gap"),
        (changed(tz="UTC"), "trigger.field.unknown", "tz"),
        (b'{"trigger": {}, "trigger": {}}', "input.json", ""),
        (b'{"count": Infinity}', "input.json", ""),
        (b'{"count": ' + b"9" * 5000 + b"}", "input.json", ""),
        (b"\xff\xfe", "input.json", ""),
        (b"[" * 60_000, "input.json", ""),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "input.json", ""),
    ],
)
def test_a_bad_question_names_what_is_wrong(question, code, field):
    error = asked(question)["error"]
    assert (error["code"], error["field"]) == (code, field)
    assert error["message"]


def test_a_line_of_the_longest_length_is_read_and_one_more_is_refused():
    question = json.dumps(QUESTION)
    fits = question + " " * (LONGEST_LINE - len(question))
    assert lines_of(f"{fits}\n{fits} \n{question}\n") == [
        ANSWER,
        {"error": {"code": "input.too_long", "message": f"a line has at most {LONGEST_LINE} bytes", "field": ""}},
        ANSWER,
    ]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(line=st.binary(max_size=80) | st.dictionaries(st.sampled_from([*QUESTION, "x"]), JSON_VALUES))
def test_any_line_has_an_answer(line):
    found = asked(line)
    assert found.keys() == {"error"} or found.keys() == {"fires", "local", "exhausted"}


@settings(max_examples=200, deadline=None)
@given(key=st.sampled_from([*QUESTION]), value=JSON_VALUES)
def test_any_value_of_any_key_has_an_answer(key, value):
    assert asked(QUESTION | {key: value})


def shown(*arguments):
    return CliRunner().invoke(next_command, list(arguments))


def test_a_person_sees_local_time_utc_and_what_a_gap_does():
    shown_lines = shown("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-28", "--count", "2").stdout
    assert "Sun 2027-03-28 03:00:00+02:00  2027-03-28T01:00:00Z  for 2027-03-28 02:30:00, which does not exist" in (
        shown_lines
    )
    skipped = shown("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-28", "--gap", "skip").stdout
    assert "2027-03-28 02:30:00 does not exist" in skipped


def test_a_person_sees_both_passes_of_a_fold():
    found = shown("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-10-31", "--fold", "both", "-o", "json")
    first, second, *_ = json.loads(found.stdout)
    assert (first["local"], second["local"]) == ("2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00")
    assert first["repeated"] is second["repeated"] is True


def test_from_a_midnight_includes_it():
    found = shown("0 0 * * *", "--tz", "Asia/Tokyo", "--from", "2027-01-01", "--count", "1", "-o", "json")
    assert json.loads(found.stdout)[0]["local"] == "2027-01-01T00:00:00+09:00"


def test_the_end_of_time_is_said():
    assert "never again" in shown("0 0 1 1 *", "--from", "9998-06-01T00:00Z").stdout


@pytest.mark.parametrize(
    "arguments",
    [["0 0 31 2 *"], ["* * * * *", "--tz", "Europe"], ["* * * * *", "--gap", "x"], ["* * * * *", "--from", "x"], []],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments):
    result = shown(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
