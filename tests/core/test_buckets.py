"""Buckets, and the stocks that copies draw from them: what is let in, by a simulation of several copies and one row."""

import heapq
import itertools
import random  # noqa: TID251  # seeded

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everwhen.core.buckets import HOLDS, SHARE, Allowance, Answer, Drawn, Stock, draw

ALLOWANCE = Allowance(5_000, 10)
ALLOWANCES = st.builds(Allowance, st.integers(1, 100_000), st.floats(0.1, 86_400))


@given(ALLOWANCES, st.floats(0, 1), st.integers(-1_000, 1_000), st.integers(0, 100_000))
def test_a_draw_never_takes_more_than_there_is(allowance, empty, owed, wanted):
    full_in = empty * allowance.seconds

    drawn = draw(full_in, allowance, owed=owed, wanted=wanted)

    left = allowance.quota - max(0.0, full_in / allowance.interval + owed)
    assert 0 <= drawn.granted <= wanted
    assert drawn.granted <= max(0.0, left) + 1e-4
    assert drawn.granted == wanted or drawn.granted >= left - 1 - 1e-4
    assert drawn.full_in == pytest.approx(
        max(0.0, full_in + owed * allowance.interval) + drawn.granted * allowance.interval
    )


def test_a_debt_is_paid_before_anything_is_granted():
    allowance = Allowance(10, 10)

    assert draw(0, allowance, owed=4, wanted=10) == Drawn(6, 10.0)
    assert draw(0, allowance, owed=14, wanted=10) == Drawn(0, 14.0)
    assert draw(4.5, allowance, owed=0, wanted=10) == Drawn(5, 9.5)


def test_a_clock_that_was_set_back_does_not_empty_a_bucket_for_long():
    assert draw(86_400, Allowance(10, 10), owed=0, wanted=1).full_in == 20


def test_whoever_asks_seldom_needs_no_draw():
    stock = Stock(ALLOWANCE)

    assert {stock.spend(second) for second in range(1_000)} == {Answer.YES}
    assert (stock.owed, stock.left) == (0, 0)
    assert not stock.runs_low(999)


def test_nobody_waits_who_comes_before_the_first_draw_is_back():
    stock = Stock(ALLOWANCE)
    answers = list(itertools.takewhile(lambda answer: answer is Answer.YES, (stock.spend(0) for _ in range(1_000))))

    assert len(answers) == 2 * (ALLOWANCE.quota // SHARE)
    assert stock.owed == ALLOWANCE.quota // SHARE
    assert stock.runs_low(0)


def test_a_small_bucket_is_asked_before_anything_is_spent():
    stock = Stock(Allowance(20, 60))

    assert stock.spend(0) is Answer.ASK
    stock.take(Drawn(2, 6.0), wanted=2, owed=0, kept=0, now=0)
    assert [stock.spend(0.1) for _ in range(3)] == [Answer.YES, Answer.YES, Answer.ASK]


def test_what_was_kept_too_long_is_given_back():
    stock = Stock(Allowance(100, 60))
    stock.take(Drawn(12, 7.2), wanted=12, owed=0, kept=0, now=0)
    stock.spend(1.0)

    assert not stock.is_stale(2.9)
    assert stock.is_stale(3.0)
    assert stock.spend(3.0) is Answer.YES  # of what it has given up and the bucket does not know of yet
    assert (stock.left, stock.owed) == (0, -10)
    assert stock.runs_low(3.0)


def test_an_empty_bucket_is_not_asked_before_it_can_have_something():
    stock = Stock(Allowance(10, 60))
    stock.take(Drawn(0, 60.0), wanted=1, owed=0, kept=0, now=0)

    assert stock.spend(5.9) is Answer.NO
    assert stock.wait(5.0) == pytest.approx(1.0)
    assert not stock.runs_low(5.9)
    assert stock.spend(6.1) is Answer.ASK


def test_a_refund_makes_room_again():
    stock = Stock(Allowance(20, 60))
    stock.take(Drawn(1, 3.0), wanted=1, owed=0, kept=0, now=0)
    stock.spend(0.1)
    stock.refund(0.2)

    assert stock.spend(0.3) is Answer.YES


def test_alone_a_copy_holds_the_whole_limit():
    stock, let_in = Stock(Allowance(100, 10)), 0
    for now in (n / 1_000 for n in range(5_000)):
        answer = stock.spend(now)
        if answer is Answer.ASK:
            stock.draw_alone(now, wanted=stock.wanted(now))
            answer = stock.spend(now)
        let_in += answer is Answer.YES

    assert 145 <= let_in <= 151


# Several copies ------------------------------------------------------------------------------------------------------


class Simulation:
    """Copies of the API, the one row, and draws that take a while; what was let in, and when."""

    def __init__(self, allowance, *, copies, trip, seed):
        self.allowance, self.trip, self.random = allowance, trip, random.Random(seed)
        self.stocks = [Stock(allowance) for _ in range(copies)]
        self.asked = [False] * copies
        self.full_at = 0.0
        self.let_in = []
        self.refused = 0
        self._events = []
        self._ids = itertools.count()

    def at(self, instant, action):
        heapq.heappush(self._events, (instant, next(self._ids), action))

    def run(self):
        while self._events:
            now, _, action = heapq.heappop(self._events)
            action(now)

    def request(self, copy, waited=0):
        def come(now):
            stock = self.stocks[copy]
            answer = stock.spend(now)
            if answer is Answer.YES:
                self.let_in.append(now)
            if answer is Answer.NO:
                self.refused += 1
            if answer is Answer.ASK or stock.runs_low(now):
                self.ask(copy, now)
            if answer is Answer.ASK and waited < 3:
                self.at(now + 2 * self.trip, self.request(copy, waited + 1))
            elif answer is Answer.ASK:
                stock.owe()
                self.let_in.append(now)

        return come

    def ask(self, copy, now, *, fill=True):
        if not self.asked[copy]:
            self.asked[copy] = True
            self.at(now + self.trip * (0.5 + self.random.random()), lambda later: self.draw(copy, later, fill=fill))

    def draw(self, copy, now, *, fill):
        stock = self.stocks[copy]
        wanted, owed, kept = stock.wanted(now) if fill and now >= stock.dry_until else 0, stock.owed, stock.left
        drawn = draw(max(0.0, self.full_at - now), self.allowance, owed=owed - kept, wanted=wanted)
        self.full_at = now + drawn.full_in
        self.asked[copy] = False
        self.at(now + self.trip / 2, lambda later: self.answer(copy, later, drawn, wanted=wanted, owed=owed, kept=kept))

    def answer(self, copy, now, drawn, *, wanted, owed, kept):
        stock = self.stocks[copy]
        stock.take(drawn, wanted=wanted, owed=owed, kept=kept, now=now)
        if drawn.granted:
            self.at(now + self.allowance.hold + 0.1, lambda later: self.tidy(copy, later))

    def tidy(self, copy, now):
        stock = self.stocks[copy]
        if stock.left and stock.is_stale(now):
            stock.give_back()
            self.ask(copy, now, fill=False)

    def most_over(self):
        """The most, over all stretches, of what was let in beside what the limit allows."""
        most, rate, quota = 0.0, 1 / self.allowance.interval, self.allowance.quota
        starts = self.let_in[:: max(1, len(self.let_in) // 300)]
        for start in starts:
            inside = [at for at in self.let_in if at >= start]
            for end in range(0, len(inside), max(1, len(inside) // 300)):
                most = max(most, (end + 1) / (quota + rate * (inside[end] - start)))
        return most


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("allowance", [Allowance(5_000, 10), Allowance(600, 10), Allowance(30, 60)], ids=str)
def test_three_copies_together_keep_the_limit_and_waste_nothing_of_it(allowance, seed):
    rate, draws = 1 / allowance.interval, random.Random(seed)
    simulated = Simulation(allowance, copies=3, trip=0.003, seed=seed)
    now, seconds = 0.0, allowance.seconds * 2
    while now < seconds:  # stretches of silence, of little and of far too much, on one copy or on all
        busy = draws.choice([0.0, 0.01, 0.5, 2.0, 8.0]) * rate
        lasts, copies = draws.uniform(0.05, 0.2) * allowance.seconds, draws.choice([(0,), (0, 1, 2)])
        for _ in range(int(busy * lasts)):
            simulated.at(now + draws.random() * lasts, simulated.request(draws.choice(copies)))
        now += lasts
    simulated.run()

    assert simulated.most_over() <= 1.1


@pytest.mark.parametrize("copies", [1, 3])
def test_whoever_always_asks_gets_all_of_the_limit(copies):
    allowance = Allowance(600, 10)
    simulated = Simulation(allowance, copies=copies, trip=0.003, seed=1)
    for n in range(12_000):
        simulated.at(n / 600, simulated.request(n % copies))
    simulated.run()

    assert 0.95 <= len(simulated.let_in) / (600 + 60 * 20) <= 1.1
    assert simulated.refused > 0


def test_the_simulation_finds_a_stock_that_is_kept_for_ever(monkeypatch):
    monkeypatch.setattr(Stock, "is_stale", lambda self, now: False)
    monkeypatch.setattr(Allowance, "most", property(lambda self: self.quota // 2))
    monkeypatch.setattr(Allowance, "least", property(lambda self: self.quota // 2))
    allowance = Allowance(1_000, 10)
    simulated = Simulation(allowance, copies=3, trip=0.003, seed=1)
    for copy in range(3):  # each keeps a half; the bucket fills meanwhile
        for n in range(8):
            simulated.at(copy * 2 + n / 1_000, simulated.request(copy))
    for n in range(6_000):
        simulated.at(30 + n / 2_000, simulated.request(n % 3))
    simulated.run()

    assert simulated.most_over() > 1.1


def test_the_constants_keep_the_bound():
    copies = 3
    assert copies / SHARE * 2 + 1 / HOLDS <= 0.1
