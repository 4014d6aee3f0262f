"""Counting without visiting agrees with visiting, and the last fire is found without walking there."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from everwhen.core.tally import count_fires, last_event, last_fire, nth_last_fire, tally, window_back
from everwhen.core.triggers import AnyOf, Cron, Every, FoldPolicy, GapPolicy, Rrule, Timing

START = datetime(2026, 3, 26, tzinfo=UTC)
LOCAL = datetime.fromisoformat("2026-03-01T01:07")
TICK = timedelta(microseconds=1)
TIMINGS = [
    Timing(Cron("* * * * *")),
    Timing(Cron("*/7 3-5,22 * * *"), "Europe/Berlin"),
    Timing(Cron("30 2 * * *"), "Europe/Berlin", GapPolicy.SKIP, FoldPolicy.BOTH),
    Timing(Cron("0 */2 1,15 * 1"), "America/New_York"),
    Timing(Cron("15,45 10 20 * * *", seconds=True), "Asia/Kolkata"),
    Timing(Cron("0 0 12 L * ? 2026", seconds=True, dialect="quartz"), "Europe/Berlin"),
    Timing(Every("PT11M", anchor=START)),
    Timing(Every("PT90M", anchor=LOCAL, mode="wall"), "Europe/Berlin"),
    Timing(Rrule("FREQ=DAILY;BYHOUR=1,2,3", LOCAL)),
    Timing(AnyOf(triggers=(Cron("5 * * * *"),), start=START + timedelta(days=1), end=START + timedelta(days=9))),
    Timing(AnyOf(triggers=(Cron("5 * * * *"), Cron("*/10 * * * *")), exceptions=(Cron("0 * * * *"),))),
]
timings = st.sampled_from(TIMINGS)
seconds = st.integers(0, 40 * 86_400)


def events(timing: Timing, *, after: datetime, until: datetime) -> list:
    found = []
    for event in timing.source.events(after):
        if event.at > until:
            break
        found.append(event)
    return found


@settings(max_examples=300, deadline=None)
@example(TIMINGS[2], 2 * 86_400, 2 * 86_400)
@given(timings, seconds, seconds)
def test_what_is_counted_is_what_is_visited(timing, begin, length) -> None:
    after = START + timedelta(seconds=begin)
    until = after + timedelta(seconds=length)
    visited = events(timing, after=after, until=until)

    counted = tally(timing.source, after=after, until=until)
    if counted is not None:
        part = [event for event in visited if event.at <= counted.until]
        assert all(event.fires for event in part)
        assert (counted.fires, after < counted.until <= until or after == until) == (len(part), True)
    fires = [event.at for event in visited if event.fires]
    assert count_fires(timing, after=after, until=until, most=10**9) == len(fires)
    assert last_fire(timing, after=after, until=until) == (fires[-1] if fires else None)
    assert last_event(timing, after=after, until=until) == (visited[-1].at if visited else None)


@settings(max_examples=100, deadline=None)
@given(timings, st.integers(0, 20 * 86_400), st.integers(1, 300))
def test_the_nth_from_the_end_is_found_and_a_window_holds_no_more_than_it_may(timing, length, n) -> None:
    after, until = START, START + timedelta(seconds=length)
    visited = events(timing, after=after, until=until)
    fires = [event.at for event in visited if event.fires]

    assert nth_last_fire(timing, n, after=after, until=until) == (fires[-n] if len(fires) >= n else None)
    begin = window_back(timing, after=after, until=until, most=n)
    held = len(events(timing, after=begin, until=until))
    assert after <= begin
    assert (0 < held <= n) if visited else held == 0


def test_a_hundred_million_instants_are_counted_a_day_at_a_time() -> None:
    minutely = TIMINGS[0]
    counted = tally(minutely.source, after=START, until=START + timedelta(days=69_444))

    assert counted is not None
    assert counted.fires == 69_444 * 1440
