"""Budgets that select victims are found the same way for one pod and for many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extender.gang.incremental.protection import Protections
from extender.gang.plan.validity import INDEXED, guarding, over_budget
from extender.model.objects import DisruptionBudget, LabelSelector, Pod, Requirement
from extender.settings.settings import Settings
from tests.gang.world import node, pod, snapshot

VALUES = st.sampled_from(("a", "b", "c"))


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    return LabelSelector(
        tuple(
            Requirement(key, draw(st.sampled_from(("In", "NotIn"))), (draw(VALUES), draw(VALUES)))
            for key in ("x", "y")[: draw(st.integers(0, 2))]
        )
    )


@given(st.lists(st.tuples(selectors(), st.integers(0, 2)), max_size=6), st.data())
def test_an_index_finds_what_each_pod_finds(
    drawn: list[tuple[LabelSelector | None, int]], data: st.DataObject
) -> None:
    budgets = tuple(
        DisruptionBudget(f"u{at}", "default", f"b{at}", selector, allowed)
        for at, (selector, allowed) in enumerate(drawn)
    )
    pods: list[Pod] = [
        pod(f"p{at}", on="n0", labels={key: data.draw(VALUES) for key in ("x", "y")})
        for at in range(INDEXED + 2)
    ]
    state = snapshot([node("n0", 1000)], pods, [], budgets=list(budgets))
    protections = Protections(Settings())
    alone: dict[str, list[DisruptionBudget]] = {}
    for each in pods:
        alone |= guarding([each], state, protections, 100)
    assert guarding(pods, state, protections, 100) == alone
    refused = over_budget(pods, budgets)
    assert refused.keys() >= {uid for uid, found in alone.items() if len(found) > 1}
    for at, budget in enumerate(budgets):
        own = [each for each in pods if alone.get(each.uid) == [budget]]
        assert sum(each.uid in refused for each in own) == max(0, len(own) - budgets[at].allowed)
