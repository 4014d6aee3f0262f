"""A clock that is set, forward or back, changes no occurrence: the same schedules have the same instants (I27)."""

from datetime import UTC, datetime, timedelta

import pytest

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START, END = datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 3, 28, 2, 30, tzinfo=UTC)
KEEP = {"policy": "replay", "grace_seconds": 60, "window_seconds": None}
SCHEDULES = [
    {"name": "every", "task": "report", "trigger": {"kind": "every", "every": "PT7M"}, "catch_up": KEEP},
    {"name": "cron", "task": "report", "trigger": {"kind": "cron", "expr": "*/10 * * * *"}, "catch_up": KEEP},
    {  # its clocks go forward at one o'clock UTC, from two to three
        "name": "berlin",
        "task": "report",
        "trigger": {"kind": "cron", "expr": "*/15 1-3 * * *"},
        "timezone": "Europe/Berlin",
        "gap": "skip",
        "catch_up": KEEP,
    },
]


def stepped(name: str, *, minutes: int, last: datetime = END) -> set:
    """Every so many minutes since the epoch, later than the start: one line of arithmetic beside the product."""
    first = (START - EPOCH) // (minutes * MINUTE) + 1
    return {(name, EPOCH + n * minutes * MINUTE) for n in range(first, (last - EPOCH) // (minutes * MINUTE) + 1)}


INTENDED = (
    stepped("every", minutes=7)
    | stepped("cron", minutes=10)
    | stepped("berlin", minutes=15, last=datetime(2027, 3, 28, 1, 45, tzinfo=UTC))
)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "steps",
    [[], [HOUR], [-HOUR], [HOUR, -HOUR], [-HOUR, HOUR], [SECOND, -SECOND, SECOND, -SECOND]],
    ids=["undisturbed", "forward", "back", "forward and back", "back and forward", "to and fro"],
)
async def test_setting_the_clock_makes_no_occurrence_and_loses_none(everwhen, steps):
    async with everwhen(start=START) as ew:
        await ew.apply(tasks=[{"name": "report"}], schedules=SCHEDULES)
        for step in steps:
            await ew.advance(20 * MINUTE)
            ew._clock.now += step
        await ew.advance_to(END)
        ran = [(run.schedule, run.nominal_at) for run in await ew.runs() if run.state == "succeeded"]

        assert sorted(ran) == sorted(INTENDED)
        await ew.assert_every_promise_holds()
