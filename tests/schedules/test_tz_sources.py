"""Releases of the tz database from folders, wheels and zips, and the report that compares two of them."""

import json
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tzdata
from click.testing import CliRunner

from everwhen.cli import main
from everwhen.core.errors import TriggerError
from everwhen.core.triggers import Timing, next_after, parse_trigger
from everwhen.core.zones import find_zone, installed_zones, tz_version
from everwhen.errors import InvalidInput
from everwhen.schedules.tz_report import Releases, compare_releases, summarise
from everwhen.schedules.tz_sources import open_source
from tests.tzif import BERLIN, WITHOUT_SUMMER_TIME, release, tzif

AFTER = datetime(2027, 1, 1, tzinfo=UTC)
DAILY = {"trigger": {"kind": "cron", "expr": "0 9 * * *"}, "timezone": "Europe/Berlin", "gap": None, "fold": None}


def make_folder(path: Path, rule: str, *, version: str | None = None) -> Path:
    (path / "Europe").mkdir(parents=True)
    (path / "Europe" / "Berlin").write_bytes(tzif(rule))
    (path / "README").write_text("no zone")
    if version is not None:
        (path / "tzdata.zi").write_text(f"# version {version}\nR x\n")
    return path


def make_wheel(path: Path, rule: str) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tzdata/__init__.py", 'IANA_VERSION = "2030c"\n')
        wheel.writestr("tzdata/zoneinfo/Europe/Berlin", tzif(rule))
        wheel.writestr("tzdata/zoneinfo/../../evil", tzif(rule))
    return path


def test_a_folder_a_package_and_a_wheel_are_read_alike(tmp_path):
    plain = open_source(str(make_folder(tmp_path / "2030a", BERLIN)))
    nested = open_source(str(make_folder(tmp_path / "pkg" / "zoneinfo", BERLIN, version="2030b").parent))
    wheel = open_source(str(make_wheel(tmp_path / "w.whl", BERLIN)))

    assert [source.version for source in (plain, nested, wheel)] == ["2030a", "2030b", "2030c"]
    assert [source.names for source in (plain, nested, wheel)] == [{"Europe/Berlin"}] * 3
    assert plain.agrees(wheel, "Europe/Berlin")


def test_the_installed_release_is_itself_by_any_of_its_names():
    folder = open_source(str(Path(tzdata.__file__).parent))

    assert open_source("installed") is open_source(tz_version()) is installed_zones()
    assert (folder.version, folder.names) == (tz_version(), installed_zones().names)
    assert all(folder.agrees(installed_zones(), name) for name in ("Europe/Berlin", "Africa/Cairo"))


@pytest.mark.parametrize("where", ["", "/nowhere", "2031z", "x\x00y"])
def test_what_is_no_release_is_refused(where):
    with pytest.raises((InvalidInput, ValueError)):
        open_source(where)


def test_a_folder_without_zones_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="TZif"):
        open_source(str(tmp_path))


def test_another_release_leaves_the_installed_one_alone():
    zones = release("x", {"Europe/Berlin": WITHOUT_SUMMER_TIME})
    trigger = parse_trigger(DAILY["trigger"])
    summer = datetime(2027, 7, 1, tzinfo=UTC)

    assert next_after(Timing(trigger, "Europe/Berlin", zones=zones), summer).hour == 8
    assert next_after(Timing(trigger, "Europe/Berlin"), summer).hour == 7
    assert find_zone("Europe/Berlin") is find_zone("Europe/Berlin") is not zones.find("Europe/Berlin")
    with pytest.raises(TriggerError, match="not an IANA time zone"):
        zones.find("Europe/Paris")


def test_the_report_names_what_moves_and_what_cannot_be_told():
    releases = Releases(
        old=release("a", {"Europe/Berlin": BERLIN, "UTC": "UTC0", "Asia/Gone": BERLIN}),
        new=release("b", {"Europe/Berlin": WITHOUT_SUMMER_TIME, "UTC": "UTC0"}),
        after=AFTER,
        until=AFTER + timedelta(days=365),
    )
    specs = [
        ("daily", DAILY),
        ("elsewhere", DAILY | {"timezone": "UTC"}),
        ("closed", DAILY | {"timezone": "UTC", "calendars": {"open": ["x"], "closed": [], "roll": "none"}}),
        ("elapsed", DAILY | {"trigger": {"kind": "every", "every": "PT6H"}}),
        ("gone", DAILY | {"timezone": "Asia/Gone"}),
        ("odd", DAILY | {"trigger": {"kind": "lunar"}}),
    ]
    found = {each.name: each for each in compare_releases(specs, releases)}

    assert [name for name, each in found.items() if each.affected] == ["daily", "gone", "odd"]
    assert "trigger.timezone.unknown" in found["gone"].error
    assert summarise(found.values()) == {
        "schedules": 6, "affected": 3, "moved": 217, "added": 0, "removed": 0, "cut": 0, "errors": 2,
    }  # fmt: skip


def run(*words: str, stdin: str = ""):
    return CliRunner().invoke(main, ["tz", "diff", *words, "--offline"], input=stdin)


def test_the_command_compares_two_folders_without_a_server(tmp_path):
    old, new = make_folder(tmp_path / "2030a", BERLIN), make_wheel(tmp_path / "w.whl", WITHOUT_SUMMER_TIME)
    lines = json.dumps({"name": "nightly", **DAILY}) + "\n\n" + json.dumps({"name": "utc", **DAILY, "timezone": "X"})
    table = run(str(old), str(new), "--from", "2027-01-01T00:00:00Z", "--days", "365", stdin=lines)
    data = run(str(old), str(new), "--from", "2027-01-01T00:00:00Z", "--days", "365", "-o", "json", stdin=lines)
    found = json.loads(data.stdout)

    assert (table.exit_code, data.exit_code) == (0, 0)
    assert "2030a → 2030c" in table.stdout
    assert "217 fires moved" in table.stdout
    assert "and 207 more" in table.stdout
    assert (found["kind"], found["old"], found["new"]) == ("TzDiff", "2030a", "2030c")
    assert found["summary"]["moved"] == 217
    assert found["items"][0]["moves"][0] == {
        "kind": "moved",
        "old_at": "2027-03-28T07:00:00Z",
        "new_at": "2027-03-28T08:00:00Z",
        "old_local": "2027-03-28T09:00:00+02:00",
        "new_local": "2027-03-28T09:00:00+01:00",
    }
    assert set(found["items"][0]) == set(found["items"][1])


@pytest.mark.parametrize("stdin", ["[]", "{", "7", "\x00"])
def test_a_line_that_is_no_object_ends_in_one_line(stdin):
    done = run("installed", "installed", stdin=stdin)

    assert done.exit_code == 2
    assert "line 1 of standard input is no JSON object" in done.stderr


def test_a_release_that_is_not_there_ends_in_one_line():
    done = run("2031a", "installed", stdin="")

    assert done.exit_code == 2
    assert "is not installed" in done.stderr


def test_equal_releases_move_nothing():
    done = run("installed", "installed", "-o", "name", stdin=json.dumps(DAILY))

    assert (done.exit_code, done.stdout) == (0, "")
