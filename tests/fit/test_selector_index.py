"""The index says what asking every selector says."""

from __future__ import annotations

import random

from extender.fit.selector_index import SelectorIndex
from extender.fit.selectors import matches
from extender.model.objects import LabelSelector, Requirement

KEYS, VALUES, SPACES = ("app", "tier", "zone"), ("a", "b", "c"), ("one", "two")


def requirement(rng: random.Random) -> Requirement:
    operator = rng.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt"))
    few = tuple(rng.choices(VALUES, k=rng.randint(1, 3))) if operator.endswith("In") else ()
    return Requirement(rng.choice(KEYS), operator, few)


def selector(rng: random.Random) -> LabelSelector | None:
    if rng.random() < 0.1:
        return None
    return LabelSelector(tuple(requirement(rng) for _ in range(rng.choice((0, 1, 1, 2)))))


def test_equal_to_asking_every_selector() -> None:
    rng = random.Random(0)
    several = 0
    for _ in range(300):
        entries = [(rng.choice(SPACES), selector(rng)) for _ in range(rng.randint(0, 12))]
        index = SelectorIndex(entries)
        for _ in range(10):
            space = rng.choice((*SPACES, "three"))
            labels = {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.6}
            expected = [
                at
                for at, (where, chosen) in enumerate(entries)
                if where == space and matches(chosen, labels)
            ]
            assert index.matching(space, labels) == expected, (entries, space, labels)
            several += len(expected) > 1
    assert several > 200
