"""Victims of one node, and the choice between nodes."""

from __future__ import annotations

from typing import Any

from extender.model.objects import Pod
from extender.sandbox.preemption import NodeWithVictims, over_budget, pick_one, select_victims


def member(uid: str, priority: int = 0, started: float = 1.0, **more: Any) -> Pod:
    return Pod(
        uid=uid,
        namespace="default",
        name=uid,
        priority=priority,
        started=started,
        requests=(("cpu", 1000), ("pods", 1)),
        **more,
    )


URGENT = member("urgent", 100)


def room(need: int, total: int) -> Any:
    return lambda gone: len(gone) >= need - total


def test_the_least_important_are_the_victims() -> None:
    pods = [member("a", 5), member("b", 1), member("c", 3), member("over", 200)]
    found = select_victims("n", pods, URGENT, lambda gone: len(gone) >= 2, frozenset())
    assert found is not None
    assert [p.uid for p in found.victims] == ["c", "b"]


def test_among_equals_the_younger_goes() -> None:
    pods = [member("young", 1, 50.0), member("old", 1, 10.0)]
    found = select_victims("n", pods, URGENT, lambda gone: bool(gone), frozenset())
    assert found is not None
    assert [p.uid for p in found.victims] == ["young"]


def test_budgeted_pods_are_given_back_first() -> None:
    pods = [member("a", 5), member("b", 1)]
    found = select_victims("n", pods, URGENT, lambda gone: bool(gone), frozenset({"b"}))
    assert found is not None
    assert [p.uid for p in found.victims] == ["a"]
    assert found.violations == 0


def test_no_candidate_when_nobody_less_urgent_can_make_room() -> None:
    assert (
        select_victims("n", [member("x", 100)], URGENT, lambda gone: bool(gone), frozenset())
        is None
    )


def test_a_shared_budget_is_used_up_by_the_more_important() -> None:
    counter = [1]
    pods = [member("a", 5), member("b", 1)]
    assert over_budget(pods, {"a": [counter], "b": [counter]}) == frozenset({"b"})


def test_the_rules_of_the_choice_in_order() -> None:
    def of(name: str, *pods: Pod, violations: int = 0) -> NodeWithVictims:
        return NodeWithVictims(name, pods, violations)

    worse_and_better = [
        (of("a", member("x", 1), violations=1), of("b", member("y", 9))),
        (of("a", member("x", 9)), of("b", member("y", 1), member("z", 1))),
        (of("a", member("x", 5), member("u", 5)), of("b", member("y", 5), member("z", 1))),
        (of("a", member("x", -5), member("u", -9)), of("b", member("y", -5))),
        (of("a", member("x", 1, 10.0)), of("b", member("y", 1, 20.0))),
        (of("b", member("x", 1)), of("a", member("y", 1))),
    ]
    for worse, better in worse_and_better:
        assert pick_one([worse, better]) is better
        assert pick_one([better, worse]) is better
