"""Pages of a filtered list: whatever the filter and their size, together they are what fits, and each is bounded."""

from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from everwhen import lists
from everwhen.core.filters import Filter, Moment, Vocabulary, Word, parse
from everwhen.lists import STEP, walk

NOW = datetime(2026, 11, 30, tzinfo=UTC)
WORDS = Vocabulary(fields={"kind": Word(), "made": Moment()})


@dataclass(frozen=True)
class Row:
    number: int
    kind: str


class Table:
    """Rows in order, and how many were read."""

    def __init__(self, kinds: str) -> None:
        self.rows = [Row(number, kind) for number, kind in enumerate(kinds, start=1)]
        self.read_at_once: list[int] = []

    async def read(self, after: int, limit: int) -> list[Row]:
        found = [row for row in self.rows if row.number > after][:limit]
        self.read_at_once.append(len(found))
        return found

    async def page(self, after: int, limit: int, asked: Filter):
        self.read_at_once = []
        return await walk(
            self.read,
            start=after,
            key=lambda row: row.number,
            limit=limit,
            asked=asked,
            values=lambda row: {"kind": row.kind, "made": NOW},
        )


@given(
    kinds=st.text("abc", max_size=60),
    text=st.sampled_from(["", "kind:a", "kind:b made>=2026-01-01", "made<2026-01-01", "kind:nobody"]),
    limit=st.integers(1, 9),
    bounds=st.tuples(st.integers(1, 20), st.integers(1, 12)),
)
async def test_the_pages_of_a_filter_are_what_fits_and_each_looks_at_a_bounded_part(kinds, text, limit, bounds):
    table, asked = Table(kinds), parse(text, WORDS, now=NOW)
    lists.MOST_LOOKED_AT, lists.STEP = most, step = bounds
    try:
        found, after, pages = [], 0, 0
        while True:
            page = await table.page(after, limit, asked)
            assert len(page.rows) <= limit
            assert sum(table.read_at_once) < most + max(step, limit + 1)
            found += page.rows
            pages += 1
            if page.following is None:
                break
            assert int(page.following) > after
            after = int(page.following)
    finally:
        lists.MOST_LOOKED_AT, lists.STEP = 1_000, STEP

    fits = [row for row in table.rows if (not asked.text("kind") or row.kind == asked.text("kind")) and "<" not in text]
    assert found == fits
    if not text:
        assert pages == max(1, -(-len(fits) // limit))


async def test_without_a_filter_one_read_of_one_row_more_is_enough():
    table = Table("a" * 50)
    page = await table.page(0, 7, Filter())

    assert (len(page.rows), page.following, table.read_at_once) == (7, "7", [8])


async def test_the_last_page_says_that_it_is_the_last():
    table = Table("ab" * 4)
    page = await table.page(0, 4, parse("kind:a", WORDS, now=NOW))

    assert ([row.number for row in page.rows], page.following) == ([1, 3, 5, 7], None)
