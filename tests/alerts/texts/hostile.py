"""Messages whose every text is hostile, for properties: what a tenant or a worker may send, and what it may try."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import strategies as st

from everwhen.alerts.message import AlertKind, Message, Occasion
from everwhen.alerts.texts.samples import NOMINAL

TRICKS = (
    "a\r\nBcc: all@example.com",
    "a\nSubject: other",
    "{{ 7*7 }}",
    "{% for x in range(10**9) %}{% endfor %}",
    "{# comment",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--",
    "]]>",
    "&lt;b&gt; &#x3c;b>",
    "<!channel> <!here> <@U012AB3CD>",
    "@channel @here",
    "<https://evil.example|https://everwhen.example>",
    "```\n*bold*\n```",
    "\u202egnp.exe",
    "\u2066isolate\u2069",
    "zero\u200bwidth\ufeff\u2060",
    "\x1b[31mred\x1b[0m\x07",
    "nul\x00nul",
    "lone \ud800 surrogate",
    "z\u0335\u0321\u0322\u0327\u0328\u0353\u0354 zalgo",
    "\u3164\u115f filler",
    "line\u2028separator\u0085next",
    "%s %n {0} {x.__class__}",
    "javascript:alert(1)",
    "é" * 300,
    "x" * 5000,
)
LINKS = (
    "https://everwhen.example/t/acme/runs/1?a=1&b=2",
    "http://localhost:8080/x",
    "javascript:alert(1)",
    "https://user:password@everwhen.example/",
    "https://everwhen.example/\r\nX: y",
    "https://everwhen.example/'onmouseover='x",
    "https://everwhen.example/|x>",
    "//everwhen.example",
    "https:everwhen",
    "https://[::1",
    "data:text/html,x",
    "",
)

texts = st.one_of(
    st.sampled_from(TRICKS), st.text(max_size=80), st.lists(st.sampled_from(TRICKS), max_size=4).map("".join)
)
some_text = st.one_of(st.none(), texts)
instants = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(9999, 12, 31)).map(  # noqa: DTZ001
    lambda naive: naive.replace(tzinfo=UTC)
)
numbers = st.one_of(st.none(), st.integers(0, 10**9))
uuids = st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))
links = st.one_of(st.sampled_from(LINKS), texts)

occasions = st.builds(
    Occasion,
    occasion_id=uuids,
    kind=st.sampled_from(AlertKind),
    at=instants,
    subject=texts,
    schedule=some_text,
    task=some_text,
    workflow=some_text,
    queue=some_text,
    tags=st.lists(texts, max_size=3).map(tuple),
    run_id=st.one_of(st.none(), uuids),
    attempt=numbers,
    attempts=numbers,
    nominal_at=st.one_of(st.none(), instants),
    due_at=st.one_of(st.none(), instants),
    zone=st.one_of(st.none(), st.sampled_from(["Europe/Berlin", "Asia/Kathmandu", "America/New_York"]), texts),
    reason=st.one_of(st.sampled_from(["retry.exhausted", "scheduler.down"]), some_text),
    sentence=texts,
    remedy=texts,
    error=st.one_of(st.none(), texts, st.just("E" * 1_000_000)),
    fingerprint=some_text,
    in_a_row=numbers,
    count=st.integers(1, 10**6),
    link=links,
)
counts = st.lists(st.tuples(st.sampled_from(AlertKind), st.integers(1, 10**6)), max_size=18).map(tuple)
messages = st.builds(
    Message,
    delivery_id=uuids,
    tenant=texts,
    channel=texts,
    recipient=texts,
    subscriptions=st.lists(texts, max_size=3).map(tuple),
    shown=st.one_of(st.tuples(occasions), st.lists(occasions, max_size=4).map(tuple)),
    total=st.one_of(st.just(1), st.integers(0, 10**6)),
    counts=counts,
    window_from=st.one_of(st.none(), instants),
    window_to=st.one_of(st.none(), instants),
    unsubscribe_link=st.one_of(st.none(), links),
)


def worst_digest() -> Message:
    """Twenty occasions, each text as long as it may be and of what grows most when it is escaped."""
    bad = '"' * 5000
    occasion = Occasion(
        occasion_id=UUID(int=1),
        kind=AlertKind.RUN_DEAD,
        at=NOMINAL,
        subject=bad,
        nominal_at=NOMINAL,
        zone="Europe/Berlin",
        sentence=bad,
        remedy=bad,
        error=bad,
        in_a_row=3,
        link="https://everwhen.example/" + "&" * 475,
    )
    return Message(
        delivery_id=UUID(int=2),
        tenant=bad,
        channel=bad,
        recipient=bad,
        subscriptions=(bad,) * 20,
        shown=(occasion,) * 20,
        total=1_000_000,
        counts=tuple((kind, 1_000_000) for kind in AlertKind),
        unsubscribe_link="https://everwhen.example/" + "&" * 475,
    )
