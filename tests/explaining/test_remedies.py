"""What is to be done can be done: each command of a remedy exists, with these arguments, and each path is a route."""

import re
import shlex
from datetime import UTC, datetime

import click
import pytest

from everwhen.cli import main
from everwhen.core.meanings import MEANINGS
from everwhen.core.reasons import Reason
from everwhen.explaining.remedies import _WAYS, MOST_REMEDIES, Place, remedies_for
from tests.contracts.openapi_snapshot import app_for_its_document

PLACE = Place(
    tenant="acme",
    at=datetime(2026, 11, 30, 1, 30, tzinfo=UTC),
    run="nightly@2026-11-30T02:30+01:00",
    schedule="nightly",
    task="report",
    queue="line",
)
NOWHERE = Place(tenant="acme", at=PLACE.at, run=None, schedule=None, task=None)
ROUTES = [re.sub(r"\{[^}]*\}", "[^/]+", path) for path in app_for_its_document().openapi()["paths"]]


@pytest.mark.parametrize("reason", _WAYS)
def test_its_command_and_its_path_exist(reason):
    (remedy,) = remedies_for([reason], PLACE)
    program, *words = shlex.split(remedy.action)
    command, context = main, click.Context(main)
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
        assert command is not None, remedy.action
    command.make_parser(click.Context(command)).parse_args(args=words)

    assert program == "everwhen"
    assert any(re.fullmatch(route, remedy.href) for route in ROUTES), remedy.href


def test_every_way_belongs_to_a_remedy():
    assert [reason for reason in _WAYS if not MEANINGS[reason].remedy] == []


def test_without_a_name_there_is_no_command():
    for remedy in remedies_for([reason for reason in _WAYS if reason != Reason.TENANT_PAUSED], NOWHERE):
        assert (remedy.action, remedy.href) == (None, None)


def test_each_remedy_is_told_once_and_not_too_many():
    reasons = [Reason.CATCHUP_SKIP, Reason.CATCHUP_SKIP, "moon.full", Reason.RETRY_BACKOFF, *_WAYS]
    found = remedies_for(reasons, PLACE)

    assert len(found) == MOST_REMEDIES
    assert [remedy.reason for remedy in found].count(Reason.CATCHUP_SKIP) == 1
