"""What the tests of importers share: entries or refusals, and fires as local times."""

from datetime import UTC, datetime
from typing import Any

from everwhen.core.triggers import fires
from everwhen.schedules.importers.entry import Entry, Options, Refusal

AFTER = datetime(2027, 1, 1, tzinfo=UTC)
BERLIN = Options(timezone="Europe/Berlin")
KEEP = Options(keep=True)


def entries(parse, text, options=Options()) -> Any:  # noqa: B008  # frozen
    found = parse(text, options)
    assert all(isinstance(line, Entry) for line in found), found
    return found


def refusal(parse, text, options=Options()):  # noqa: B008  # frozen
    [found] = parse(text, options)
    assert isinstance(found, Refusal), found
    assert found.reason
    return found.code


def local_fires(timing, count=3, after=AFTER):
    return [f"{timing.zone.local(at):%Y-%m-%dT%H:%M:%S}" for at in fires(timing, after=after, count=count)]
