"""The index says what asking every selector says."""

from __future__ import annotations

import random
import time

from extender.fit.selector_index import VALUES_EACH, SelectorIndex
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


def long_selector(rng: random.Random) -> LabelSelector | None:
    """As ``selector``, with more requirements, some of them malformed."""
    if rng.random() < 0.05:
        return LabelSelector((Requirement("app", rng.choice(("In", "NotIn", "Near")), ()),))
    if rng.random() < 0.05:
        return LabelSelector((Requirement("app", "Exists", ("a",)),))
    return LabelSelector(tuple(requirement(rng) for _ in range(rng.randint(0, 6))))


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


def test_equal_to_asking_every_selector_when_keys_come_up_again_and_namespaces_stay() -> None:
    rng = random.Random(1)
    entries = [(rng.choice(SPACES), long_selector(rng)) for _ in range(9)]
    index = SelectorIndex(entries)
    picked = kept = 0
    for _ in range(600):
        space = rng.choice(SPACES)
        if rng.random() < 0.6:
            entries.insert(rng.randint(0, len(entries)), (space, long_selector(rng)))
        elif entries:
            entries.pop(rng.randrange(len(entries)))
        last, index = index, SelectorIndex(entries, index)
        assert index.differing(last) <= set(SPACES)
        kept += len(index.differing(last)) == 1
        for _ in range(5):
            space = rng.choice((*SPACES, "three"))
            labels = {key: rng.choice((*VALUES, "d")) for key in KEYS if rng.random() < 0.6}
            expected = [
                at
                for at, (where, chosen) in enumerate(entries)
                if where == space and matches(chosen, labels)
            ]
            assert index.matching(space, labels) == expected, (entries, space, labels)
            assert index.count(space, labels) == len(expected)
            picked += len(expected) > 1
    assert picked > 200
    assert kept > 200


def test_a_pod_costs_little_whatever_the_selectors_refuse_or_want() -> None:
    """The time of asking the index over that of asking every selector, measured in one run."""
    for operator, first in (("NotIn", "NotIn"), ("In", "In"), ("NotIn", "Exists")):
        entries = []
        for at in range(1500):
            listed = [
                Requirement(
                    f"k{key}", operator, (f"v{at}", "w", "x") if operator == "In" else ("y",)
                )
                for key in range(10)
            ]
            if first == "Exists":
                listed.insert(0, Requirement("k0", "Exists", ()))
            entries.append(("one", LabelSelector(tuple(listed))))
        index = SelectorIndex(entries)
        everyone = [{"mine": str(at), **{f"k{key}": "w" for key in range(10)}} for at in range(40)]
        index.count("one", everyone[0])
        began = time.thread_time()
        counts = [index.count("one", labels) for labels in everyone]
        quick = time.thread_time() - began
        began = time.thread_time()
        asked = [sum(matches(chosen, labels) for _, chosen in entries) for labels in everyone]
        slow = time.thread_time() - began
        assert counts == asked == [1500] * 40
        assert slow > 20 * quick, (operator, slow, quick)


def test_a_namespace_with_too_many_selectors_is_not_read_and_all_of_them_pick_its_pods() -> None:
    one, other = LabelSelector((Requirement("k", "Exists", ()),)), LabelSelector(())
    few = SelectorIndex([("one", one), ("one", None), ("two", other)], most=2)
    assert few.crowded == {}
    assert few.count("one", {}) == 0
    many = SelectorIndex([("one", one), ("one", None), ("one", None), ("two", other)], few, most=2)
    assert many.crowded == {"one": 3}
    assert (many.count("one", {}), many.matching("one", {"k": "x"})) == (3, [])
    assert many.matching("two", {}) == [3]
    assert many.differing(few) == {"one"}
    more = SelectorIndex([("one", None)] * 4 + [("two", other)], many, most=2)
    assert more.differing(many) == set()
    assert more.matching("two", {}) == [4]


def wide(values: int, operator: str = "NotIn") -> LabelSelector:
    """A selector that lists this many values."""
    return LabelSelector((Requirement("k", operator, tuple(f"v{at}" for at in range(values))),))


def test_a_namespace_whose_selectors_list_too_many_values_is_not_read_either() -> None:
    """One selector may list as many values as a thousand others together."""
    limit = 2 * VALUES_EACH
    listed = SelectorIndex([("one", wide(limit)), ("two", wide(1))], most=2)
    assert listed.crowded == {}
    assert listed.size("one") == limit
    for these in ([wide(limit + 1)], [wide(limit), wide(1, "In")]):
        many = SelectorIndex([*(("one", each) for each in these), ("two", wide(1))], listed, most=2)
        assert many.crowded == {"one": len(these)}
        assert (many.size("one"), many.matching("one", {"k": "x"})) == (0, [])
        assert many.count("one", {}) > 2  # as of any other that is crowded
        assert many.differing(listed) == {"one"}
        assert many.count("two", {}) == 1
    again = SelectorIndex([("one", wide(limit))], many, most=2)
    assert again.crowded == {}
    assert again.differing(many) == {"one", "two"}


def test_requirements_without_values_count_one_each() -> None:
    many = LabelSelector(tuple(Requirement(f"k{at}", "Exists") for at in range(VALUES_EACH + 1)))
    assert SelectorIndex([("one", many)], most=1).crowded == {"one": 1}
    assert SelectorIndex([("one", many)]).size("one") == VALUES_EACH + 1
