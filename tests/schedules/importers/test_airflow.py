"""Airflow: the presets are those of its documentation, catch-up is a DAG's own setting."""

import json

import pytest

from everwhen.core.proofs import prove
from everwhen.schedules.importers.airflow import parse_airflow
from tests.schedules.importers.reading import AFTER, KEEP, entries, local_fires, refusal


def read(item, *options):
    return entries(parse_airflow, json.dumps(item), *options)


def test_timetables_are_read_with_their_zone_and_their_catch_up():
    first, second, third = read(
        {
            "etl": {"schedule": "0 6 * * *", "timezone": "Europe/Berlin", "catchup": True},
            "report": {"schedule": "30 2 * * 1-5", "timezone": "America/New_York", "is_paused": True},
            "short": "@daily",
        }
    )

    assert (first.name, first.catch_up, first.paused) == ("etl", {"policy": "replay"}, None)
    assert (second.catch_up, second.paused) == ({"policy": "coalesce"}, "paused in Airflow")
    assert third.stored.timezone == "UTC"
    assert third.input == {"dag_id": "short"}


@pytest.mark.parametrize(
    ("preset", "first"),
    [
        ("@hourly", "2027-01-01T01:00:00"),
        ("@daily", "2027-01-02T00:00:00"),
        ("@weekly", "2027-01-03T00:00:00"),
        ("@monthly", "2027-02-01T00:00:00"),
        ("@quarterly", "2027-04-01T00:00:00"),
        ("@yearly", "2028-01-01T00:00:00"),
    ],
)
def test_its_presets_are_read(preset, first):
    [entry] = read({"dag": preset})

    assert local_fires(entry.stored, 1) == [first]
    assert prove(entry.source, entry.stored, after=AFTER).is_equal


def test_a_nightly_run_moves_by_the_gaps_length_there_and_the_proof_tells():
    nightly = {"dag": {"schedule": "30 2 * * *", "timezone": "America/New_York"}}
    [entry], [kept] = read(nightly), read(nightly, KEEP)
    found = prove(entry.source, entry.stored, after=AFTER)
    move = found.first[0]

    assert (move.before.isoformat(), move.after.isoformat()) == (
        "2027-03-14T03:30:00-04:00",
        "2027-03-14T03:00:00-04:00",
    )
    assert prove(kept.source, kept.stored, after=AFTER).is_equal


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"dag": None}, "import.airflow.schedule"),
        ({"dag": "@once"}, "import.airflow.schedule"),
        ({"dag": "@continuous"}, "import.airflow.schedule"),
        ({"dag": "  "}, "import.airflow.schedule"),
        ({"dag": {"schedule": {"__type": "timedelta", "__var": 3600}}}, "import.airflow.schedule"),
        ({"dag": {"schedule": "@daily", "catchup": "no"}}, "import.type"),
        ({"dag": {"schedule": "@daily", "start_date": "2027-01-01"}}, "import.airflow.field"),
        ({"dag": {"schedule": "@daily", "timezone": "Europe"}}, "trigger.timezone.unknown"),
        ({"dag": "0 0 * *"}, "trigger.cron.fields"),
        ({"dag": 3}, "import.type"),
        ([], "import.type"),
        ({"///": "@daily"}, "import.name"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused(item, code):
    assert refusal(parse_airflow, json.dumps(item)) == code
