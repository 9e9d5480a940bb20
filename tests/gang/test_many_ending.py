"""Many members whose seats all fail, for want of one of many terminating pods beside them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest

from extender.fit.inter_pod_affinity import picks_all
from extender.gang.plan.planner import _strike
from extender.gang.plan.trial import Trial
from extender.model.objects import LabelSelector, PodAffinityTerm, PodShape, Requirement
from extender.model.plan import Refusal
from tests.gang.world import NOW, group, node, plan_for, pod, snapshot


def test_a_refusal_for_terminating_pods_does_not_compare_all_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How many terminating pods there are is for tenants to say."""
    asked = 0

    def counting(*args):  # type: ignore[no-untyped-def]
        nonlocal asked
        asked += 1
        return picks_all(*args)

    monkeypatch.setattr("extender.gang.plan.trial.picks_all", counting)
    picks = LabelSelector((Requirement("app", "In", ("db",)),))
    beside = PodShape(affinity=(PodAffinityTerm("zone", picks, ("default",)),))
    nodes = [node(f"n{at}", cpu=4, labels={"zone": "z"}) for at in range(40)]
    pods = [pod(f"low-{at}", cpu=3, on=f"n{at}") for at in range(40)]
    pods += [
        pod(f"db-{at}", cpu=0, on=f"n{at}", labels={"app": "db"}, deleting=NOW + 300)
        for at in range(40)
    ]
    pods += [pod(f"g-{at}", cpu=2, priority=9, group="g", shape=beside) for at in range(40)]
    answer = plan_for(snapshot(nodes, pods, [group("g", 40)]), "g")
    assert isinstance(answer, Refusal)
    assert "requires pod default/db-0 beside it" in answer.message
    assert asked < 40 * 40


def test_seats_that_all_fail_are_struck_out_within_a_moment() -> None:
    """500 members of one class: not each seat for each member by itself."""
    members = [pod(f"g-{at}") for at in range(500)]
    failed = [(member, f"n{at}", "why") for at, member in enumerate(members)]
    trial = cast(Trial, SimpleNamespace(failed=failed, built=SimpleNamespace(classes=[members])))
    struck = {members[0].uid: frozenset({"before"})}
    began = time.process_time()
    _strike(struck, trial)
    assert time.process_time() - began < 0.2
    every = {f"n{at}" for at in range(500)}
    assert struck[members[0].uid] == {"before", *every}
    assert all(struck[member.uid] == every for member in members[1:])
