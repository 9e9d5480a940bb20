"""What a question about a member costs does not grow with how many victims are on their way."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from extender.gang.act.book import Book
from extender.model.objects import GangKey
from tests.gang.test_many_units import seated, unit


def seconds_of(question: Callable[[], object]) -> float:
    """Return how long it takes at its best: a busy machine makes some tries slow."""
    took = []
    for _ in range(50):
        began = time.perf_counter()
        question()
        took.append(time.perf_counter() - began)
    return min(took)


def test_a_question_does_not_look_through_all_victims_of_all_plans() -> None:
    """Each question about a member of any gang once took 0.5 ms more for ten thousand victims."""
    took = {}
    for count in (10, 10_000):
        book, (flight, _) = Book(), seated(1)
        named = unit("big", count).victims.values()
        flight.victims = {each.uid: replace(each, unit="big") for each in named}
        book.open_flight(flight, [])
        assert book.takes_unit("big")
        assert not book.takes_unit("other")
        took[count] = seconds_of(partial(book.takes_unit, "big")) + seconds_of(
            partial(book.takes_unit, "other")
        )
        for uid in list(flight.victims)[1:]:
            del flight.victims[uid]
            assert book.takes_unit("big")
        flight.victims.clear()
        assert not book.takes_unit("big")
    assert took[10_000] < 20 * took[10]


def test_a_unit_is_taken_as_long_as_one_of_the_plans_that_take_it_is_in_flight() -> None:
    book = Book()
    flights = []
    for name in ("one", "other"):
        flight, _ = seated(1)
        flight.plan = replace(flight.plan, gang=GangKey("pod-group", "ns", name))
        flight.victims = {"v": replace(unit("v", 1).victims["v-0"], uid="v", unit="shared")}
        book.open_flight(flight, [])
        flights.append(flight)
    book.close(flights[0].key)
    assert book.takes_unit("shared")
    book.close(flights[1].key)
    assert not book.takes_unit("shared")
