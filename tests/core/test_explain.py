from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.core.cron_dialects import DIALECTS
from everwhen.core.errors import TriggerError
from everwhen.core.explain import explain
from everwhen.core.triggers import At, Cron, Every, parse_instant

SENTENCES = {
    "30 2 * * *": "At 02:30 every day.",
    "0 0 * * *": "At 00:00 every day.",
    "0 9,17 * * *": "At 09:00 and 17:00 every day.",
    "* * * * *": "Every minute.",
    "*/15 * * * *": "Every 15 minutes.",
    "*/7 * * * *": "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour.",
    "0 * * * *": "Every hour.",
    "30 * * * *": "At minute 30 of every hour.",
    "5,35 * * * *": "At minutes 5 and 35 of every hour.",
    "0-9 * * * *": "At minutes 0 to 9 of every hour.",
    "0 */2 * * *": "Every 2 hours from 00:00.",
    "30 */2 * * *": "At minute 30 of every 2nd hour from 0.",
    "0 9-17 * * *": "Every hour from 09:00 to 17:00.",
    "0 0-4,20-23 * * *": "At 00:00, 01:00, 02:00, 03:00, 04:00, 20:00, 21:00, 22:00 and 23:00 every day.",
    "*/15 9-17 * * MON-FRI": "Every 15 minutes from 09:00 to 17:59 on Monday to Friday.",
    "*/5 8,18 * * *": "Every 5 minutes of hours 8 and 18.",
    "0 0 13 * 5": "At 00:00 on the 13th of the month and on Friday.",
    "0 0 1-7 * *": "At 00:00 on the 1st to the 7th of the month.",
    "0 0 */10 * 1": "At 00:00 on the 1st, the 11th, the 21st and the 31st of the month, if that is Monday.",
    "0 0 1 1 *": "At 00:00 on the 1st of January.",
    "0 0 1,15 1,7 *": "At 00:00 on the 1st and the 15th of January and July.",
    "0 9 * 3-5 1": "At 09:00 on Monday in March to May.",
    "0 9 1 6 2": "At 09:00 on the 1st of the month and on Tuesday, in June.",
    "0 9 * 6 *": "At 09:00 every day in June.",
    "* * * 6 *": "Every minute in June.",
    "0 9 * * 0,6": "At 09:00 on Saturday and Sunday.",
    "0 9 * * 5-7": "At 09:00 on Friday to Sunday.",
    "0 9 1-31 * 1": "At 09:00 every day.",
    "@weekly": "At 00:00 on Sunday.",
}
IN_DIALECTS = [
    ("vixie-ext", "0 0 L * *", "At 00:00 on the last day of the month."),
    ("vixie-ext", "0 0 LW 6 *", "At 00:00 on the last day that is Monday to Friday of June."),
    ("vixie-ext", "0 0 L-2 * *", "At 00:00 on the 2nd day before the last of the month."),
    ("vixie-ext", "0 0 15W * *", "At 00:00 on the Monday to Friday nearest to the 15th of the month."),
    ("vixie-ext", "0 0 * * 5L", "At 00:00 on the last Friday of the month."),
    ("vixie-ext", "0 0 * 6 5#2", "At 00:00 on the second Friday of the month, in June."),
    ("vixie-ext", "0 0 * * 1,5L", "At 00:00 on Monday and the last Friday of the month."),
    ("vixie-ext", "0 22-2 * * *", "At 00:00, 01:00, 02:00, 22:00 and 23:00 every day."),
    ("quartz", "0 0 12 ? * 2-6", "At 12:00 on Monday to Friday."),
    ("quartz", "*/10 * * * * ?", "Every 10th second from 0 of every minute."),
    ("quartz", "30 0 12 1 1 ? 2027-2029", "At 12:00:30 on the 1st of January in 2027 to 2029."),
    (
        "quartz",
        "0 15 10 L-3W * ?",
        "At 10:15 on the Monday to Friday nearest to the 3rd day before the last of the month.",
    ),
    ("spring", "* * 0 * * *", "Every second of every minute of hour 0."),
    ("spring", "5 5 */2 * * 1", "At second 5 of minute 5 of every 2nd hour from 0 on Monday."),
    ("eventbridge", "cron(0 10 ? * 6L 2027)", "At 10:00 on the last Friday of the month in 2027."),
    ("temporal", "0 0 13 * 5", "At 00:00 on the 13th of the month, if that is Friday."),
    ("apscheduler", "0 0 * * 0", "At 00:00 on Monday."),
]


@pytest.mark.parametrize(("expr", "sentence"), SENTENCES.items())
def test_a_cron_expression_is_said_in_english(expr, sentence):
    assert explain(Cron(expr)) == sentence


@pytest.mark.parametrize(("dialect", "expr", "sentence"), IN_DIALECTS)
def test_each_dialect_is_said_by_what_it_means(dialect, expr, sentence):
    assert explain(Cron(expr, dialect=dialect, seconds=dialect in {"quartz", "spring"})) == sentence


@pytest.mark.parametrize(
    ("trigger", "sentence"),
    [
        (Every("PT90M"), "Every 1 hour and 30 minutes, counted from the start of 1970 in UTC."),
        (Every("P1D"), "Every day, counted from the start of 1970 in UTC."),
        (Every("P2W"), "Every 14 days, counted from the start of 1970 in UTC."),
        (
            Every("PT1S", parse_instant("2027-01-01T08:00:00Z", field="anchor")),
            "Every second, counted from 2027-01-01 08:00:00 UTC.",
        ),
        (At(datetime.fromisoformat("2027-03-28T02:30")), "Once, at 2027-03-28 02:30:00 local time."),
        (At(datetime.fromisoformat("2027-03-28T02:30+02:00")), "Once, at 2027-03-28 00:30:00 UTC."),
    ],
)
def test_other_triggers_are_said_in_english(trigger, sentence):
    assert explain(trigger) == sentence


def test_what_fires_alike_is_said_alike():
    assert explain(Cron("0,15,30,45 0-23 1-31 1-12 *")) == explain(Cron("*/15 * * * *"))
    assert explain(Cron("0 0 12 ? * 2", dialect="quartz", seconds=True)) == explain(Cron("0 12 * * mon"))


TERMS = [
    "*",
    "?",
    "0",
    "1",
    "2-5",
    "*/3",
    "1/2",
    "L",
    "15W",
    "5#2",
    "5L",
    "H",
    "1,3,5",
    "10-20/4",
    "LW",
    "MON",
    "JAN",
    "7",
]


@settings(max_examples=1000, deadline=None)
@given(
    dialect=st.sampled_from([*DIALECTS]),
    columns=st.lists(st.sampled_from(TERMS), min_size=5, max_size=7),
    seconds=st.booleans(),
)
def test_whatever_can_be_read_has_a_sentence(dialect, columns, seconds):
    try:
        trigger = Cron(" ".join(columns), seconds, dialect)
    except TriggerError:
        return
    sentence = explain(trigger)
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert "  " not in sentence
    assert "the month" not in sentence or " of the month" in sentence
