"""The compiled census answers as its specification does, and the leaving out is right."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable
from itertools import combinations, product
from operator import mul

import pytest

from extender.search import census as plain
from extender.search.census import FREE, LARGEST, STAYS, Holder, OffersQuestion, Seatings, offer_of
from extender.search.solver import BACKEND

RESOURCES = 4


def _holder(rng: random.Random, number: int) -> Holder:
    whole = rng.random() < 0.3
    gang = rng.randrange(4) if whole or rng.random() < 0.2 else -1
    priority = rng.choice((FREE, 0, 0, 1, 1, 2, 5, STAYS))
    if whole:
        priority = gang
    wants = tuple(
        (resource, rng.choice((1, 1, 2, 3, 4)))
        for resource in range(RESOURCES)
        if rng.random() < 0.6
    )
    return Holder(priority, gang, whole, rng.random() < 0.2, wants, f"pod-{number}")


def _node(rng: random.Random, most: int) -> tuple[tuple[tuple[int, int], ...], tuple[Holder, ...]]:
    has = tuple((resource, rng.randrange(3, 14)) for resource in range(RESOURCES))
    holders = [_holder(rng, number) for number in range(rng.randrange(most))]
    return has, tuple(sorted(holders, key=lambda holder: holder.priority))


def _question(rng: random.Random, classes: int) -> OffersQuestion:
    resources = tuple(rng.sample(range(RESOURCES + 1), rng.randrange(1, 4)))
    return OffersQuestion(
        resources,
        tuple(tuple(rng.randrange(4) for _ in resources) for _ in range(classes)),
        rng.choice((FREE + 1, 1, 3, 100)),
        rng.choice((-1, -1, 1)),
        tuple(rng.choice((1, 1, 2, 9)) for _ in range(classes)) if classes > 1 else (),
    )


def _held(rng: random.Random, question: OffersQuestion, positions: int) -> dict[int, Seatings]:
    found = {}
    for at in rng.sample(range(positions), rng.randrange(min(3, positions + 1))):
        held = tuple(rng.randrange(3) for _ in question.resources)
        found[at] = Seatings(held, tuple(rng.randrange(amount + 1) for amount in held))
    return found


@pytest.mark.skipif(BACKEND != "compiled", reason="the compiled core is not built")
def test_compiled_answers_as_the_specification_through_thousands_of_changes() -> None:
    from extender.search.core.census import Census

    rng = random.Random(5)
    spec, compiled = plain.Census(), Census()
    slots = 12
    for slot in range(slots):
        node = _node(rng, 7)
        spec.put(slot, *node)
        compiled.put(slot, *node)
    questions = [_question(rng, rng.choice((1, 1, 2))) for _ in range(6)]
    gathered = seats = 0
    for _ in range(4000):
        slot = rng.randrange(slots)
        if rng.random() < 0.1:
            spec.drop(slot)
            compiled.drop(slot)
        node = _node(rng, 7)
        spec.put(slot, *node)
        compiled.put(slot, *node)
        question = rng.choice(questions)
        asked = array("i", sorted(rng.sample(range(slots), rng.randrange(1, slots + 1))))
        held = _held(rng, question, len(asked))
        one, other = spec.offers(question, asked, held), compiled.offers(question, asked, held)
        inside = bytes(rng.random() < 0.9 for _ in asked)
        limit = rng.choice((None, array("i", (rng.randrange(1, 4) for _ in asked))))
        domain = rng.choice((None, array("i", (rng.randrange(-1, 3) for _ in asked))))
        most = rng.choice((FREE, 0, 1, 5, STAYS - 1))
        assert one.stays() == other.stays()
        gains = one.gains(inside, limit, domain)
        assert gains == other.gains(inside, limit, domain)
        assert one.total_room() == other.total_room()
        places = one.opening(most)
        assert places == other.opening(most)
        assert one.free_room(places) == other.free_room(places)
        for alone in (False, True):
            found = one.gather(places, most, alone=alone)
            assert found == other.gather(places, most, alone=alone)
            gathered += len(found.alone) + len(found.whole) + len(found.leaving)
        seats += sum(sum(gain.values()) for gain in gains.values())
    # Otherwise the comparison says less than it seems to.
    assert gathered > 5000
    assert seats > 5000


@pytest.mark.skipif(BACKEND != "compiled", reason="the compiled core is not built")
def test_what_does_not_fit_into_the_compiled_census_is_refused_and_changes_nothing() -> None:
    from extender.search.core.census import Census

    census = Census()
    question = OffersQuestion((0,), ((1,),), 10, -1)
    census.put(0, ((0, 4),), ())
    before = census.offers(question, array("i", [0]), {}).total_room()
    pod = Holder(0, -1, whole=False, covered=False, requests=((0, LARGEST + 1),), subject=None)
    for has, holders in ((((0, LARGEST + 1),), []), (((0, 1),), [pod])):
        with pytest.raises(OverflowError):
            census.put(0, has, holders)
    with pytest.raises(OverflowError):
        census.put(0, ((0, 1),), [pod._replace(requests=((0, LARGEST),))] * 1025)
    with pytest.raises(IndexError):
        census.offers(question, array("i", [7]), {})
    assert census.offers(question, array("i", [0]), {}).total_room() == before


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_pods_left_out_are_never_needed(classes: int) -> None:
    """On every small node: whatever members the room is for, the pods kept make it alone.

    For each set of pods that makes room for some members of each class there is a part of it,
    among the pods worth looking at, that makes it too.
    """
    rng = random.Random(11)
    left_out = 0
    for _ in range(1500):
        has, holders = _node(rng, 6)
        question = _question(rng, classes)
        offer = offer_of(dict(has), holders, question, None)
        able = [h for h in holders if h.priority < question.below and not _own(h, question)]
        kept = {id(holder) for holder, _ in offer.needed}
        left_out += sum(id(holder) not in kept for holder in able)
        whole = [dict(has).get(r, 0) for r in question.resources]
        if not any(plain.seats_in(whole, request) for request in question.requests):
            continue
        free = _ways(offer, question, ())
        for size in range(len(able) + 1):
            for gone in combinations(able, size):
                needed = [holder for holder in gone if id(holder) in kept]
                assert _ways(offer, question, gone) == free | _ways(offer, question, needed)
    assert left_out > 400


def _own(holder: Holder, question: OffersQuestion) -> bool:
    return question.own >= 0 and holder.gang == question.own and holder.priority != FREE


def _ways(
    offer: plain.Offer, question: OffersQuestion, gone: Iterable[Holder]
) -> set[tuple[int, ...]]:
    """Members of each class who fit together, with these pods gone."""
    room = list(offer.free)
    for holder in gone:
        amounts = dict(holder.requests)
        for r, number in enumerate(question.resources):
            room[r] += amounts.get(number, 0)
    counts = question.counts or (14,)
    columns = list(zip(*question.requests, strict=True))
    return {
        way
        for way in product(*(range(count + 1) for count in counts))
        if all(
            asked <= have
            for column, have in zip(columns, room, strict=True)
            if (asked := sum(map(mul, way, column)))
        )
    }
