"""Who is told apart of those that came without an offer, and what that costs the planner."""

from __future__ import annotations

import pytest

from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import SeatsQuestion
from extender.gang.plan.trial import failures
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.model.objects import LabelSelector, Pod, PodAffinityTerm, PodShape, Requirement
from extender.model.plan import Hold
from extender.settings.settings import Settings
from tests.gang.world import bare_plan, gang_key, group, node, pod, snapshot

RESOLVER = Resolver(Settings().groups)
HOST = "kubernetes.io/hostname"
JOB = PodAffinityTerm(
    HOST, LabelSelector((Requirement("app", "In", ("job",)),)), ("default", "tenant")
)
APART = PodShape(anti_affinity=(JOB,))


def blamed(members: int, suspects: list[Pod]) -> list[str]:
    """Return who is to blame where each member has a node of its own; nobody is evicted."""
    nodes = [node(f"n{at:03}", cpu=4) for at in range(members)]
    waiting = [
        pod(f"g-{at:03}", cpu=2, priority=9, group="g", labels={"app": "job"}, shape=APART)
        for at in range(members)
    ]
    state = snapshot(nodes, [*waiting, *suspects], [group("g", members)])
    gang = RESOLVER.resolve(gang_key("g"), state)
    seats = {each.uid: f"n{at:03}" for at, each in enumerate(waiting)}
    holds = [
        Hold(gang=gang.key, priority=9, uid=each.uid, node=seats[each.uid], requests=each.requests)
        for each in waiting
    ]
    asked = SeatsQuestion(gang, seats, state, (), holds)
    found = Planner(Settings(), RESOLVER).to_blame(asked, suspects)
    return [each.name for each in found]


def squatter(name: str, on: int) -> Pod:
    return pod(name, cpu=0, on=f"n{on:03}", namespace="tenant", shape=APART)


def bystander(name: str, on: int) -> Pod:
    return pod(name, cpu=0, on=f"n{on:03}", namespace="bystander")


def test_a_bystander_among_many_is_told_apart() -> None:
    crowd = [bystander(f"b-{at}", at % 16) for at in range(1000)]
    assert blamed(16, [*crowd[:500], squatter("s", 3), *crowd[500:]]) == ["s"]


def test_telling_them_apart_asks_few_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 tiny pods must not keep the planner busy in proportion to the gang they are in the way
    of: everybody else waits for it."""
    asked = 0

    def counting(after, seats, stop=None):  # type: ignore[no-untyped-def]
        nonlocal asked
        seats = list(seats)
        asked += len(seats)
        return failures(after, seats, stop)

    monkeypatch.setattr("extender.gang.plan.planner.failures", counting)
    names = [f"s-{at}" for at in range(64)]
    found = blamed(400, [squatter(name, at) for at, name in enumerate(names)])
    assert found
    assert set(found) <= set(names)
    assert asked < 400 + 4_000


def test_a_pod_that_comes_does_not_have_all_members_looked_at() -> None:
    """Many may come a second, and many gangs may wait: the event loop answers verbs besides."""
    asked = 0

    class Counting(dict[str, Pod]):
        def values(self):  # type: ignore[no-untyped-def]
            nonlocal asked
            asked += 1
            return super().values()

    members = Counting({f"uid-{at}": pod(f"{at}") for at in range(3)})
    book = Reservations()
    preemption = Preemption(
        plan=bare_plan(gang_key("g")),
        pods=members,
        seats=dict.fromkeys(members, "n0"),
        state=PreemptionState.OPEN,
        since=0.0,
    )
    book.open_preemption(preemption, ())
    asked = 0
    for at in range(100):
        book.unadmitted(pod(f"comes-{at}", on="elsewhere", namespace="tenant"))
    assert asked <= 1
    assert not preemption.unchecked
