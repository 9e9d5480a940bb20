"""Members whose node is not known do not count for the quorum; nothing is guessed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.incremental.gangs import Gangs
from extender.gang.plan.assemble import assemble
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GroupObject, Node, Pod
from extender.model.owner_kinds import COMPOSITE
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings
from tests.groups.build import core, pod

NOW = 10_000.0
RESOLVER = Resolver(GroupSettings())


def member(i: int, *, on: str = "", started: float = NOW - 3600, group: str = "g") -> Pod:
    return replace(pod(f"m{i}", group=group), node=on, started=started if on else 0.0)


def world(
    pods: list[Pod], *, nodes: tuple[str, ...] = ("n0", "n1"), groups: list[GroupObject]
) -> Snapshot:
    return assemble(
        RESOLVER.member_key, nodes=[Node(name) for name in nodes], pods=pods, groups=groups, now=NOW
    )


def gang(pods: list[Pod], group: GroupObject | None = None) -> Gang:
    groups = [group or core(min_count=3, disrupt_all=True)]
    (one,) = RESOLVER.resolve_all(world(pods, groups=groups))
    return one


def test_it_is_no_part_of_the_quorum_and_the_gang_goes_whole_as_before() -> None:
    one = gang([member(0, on="n0"), member(1, on="gone"), member(2)])
    assert [pod.name for pod in one.seated] == ["m0"]
    assert one.missing == 2
    assert not one.complete
    all_ran = gang([member(0, on="n0"), member(1, on="gone"), member(2, on="n1")])
    assert all_ran.goes_whole
    assert all_ran.surplus == 0, "one that goes breaks it: the node may only be late"


@pytest.mark.parametrize("started", [0.0, NOW - 1, NOW - 3600])
def test_whenever_it_started_its_gang_waits_whoever_else_is_pending(started: float) -> None:
    """Watches are apart: the pod's may bring its binding before the other brings its node."""
    on_unknown = replace(member(1, on="gone"), started=started)
    one = gang([member(0, on="n0"), on_unknown, member(2), member(3)])
    assert one.missing == 2 == len(one.pending)
    assert not one.complete
    assert gang([member(0, on="n0"), member(1, on="n1"), member(2), member(3)]).complete
    runs = gang([member(0, on="n0"), on_unknown, member(2, on="n0"), member(3, on="n1")])
    assert runs.missing == 0
    assert runs.complete


def test_one_that_terminates_is_waited_for_by_nobody() -> None:
    ends = replace(member(1, on="gone"), deleting=NOW + 30)
    one = gang([member(0, on="n0"), ends, member(2), member(3)])
    assert not one.lost
    assert one.complete


def test_where_no_size_is_stated_it_is_one_of_those_that_exist() -> None:
    labels = {"skypilot-cluster-name": "g"}
    made = [member(0, group=""), member(1, on="gone", group="")]
    pods = [replace(each, labels=labels) for each in made]
    (one,) = RESOLVER.resolve_all(world(pods, groups=[]))
    assert one.min_count == 2
    assert not one.complete


def test_a_composite_whose_group_lost_one_waits_for_it_again() -> None:
    top = GroupObject(source=COMPOSITE, uid="t", namespace="ns", name="top", min_count=1)
    part = replace(core(min_count=2), of="top")
    runs = [member(0, on="n0"), member(1, on="n1")]
    pods = [*runs[:1], replace(runs[1], node="gone"), member(2)]
    assert _one(runs, [top, part]).missing == 0
    assert _one(pods, [top, part]).missing == 1


def _one(pods: list[Pod], groups: list[GroupObject]) -> Gang:
    (one,) = RESOLVER.resolve_all(world(pods, groups=groups))
    return one


def test_a_kept_gang_is_another_one_when_a_node_goes_and_when_it_comes() -> None:
    gangs = Gangs(RESOLVER)
    pods = [member(0, on="n0"), member(1, on="n1", started=NOW - 60)]
    groups = [core(min_count=2)]
    there = world(pods, groups=groups)
    (key,) = there.members
    without = replace(there, nodes={"n0": there.nodes["n0"]})
    seen = []
    for now in (there, without, replace(without, now=NOW + 60), there, without):
        gangs.renew(now)
        seen.append(gangs[key].missing)
        assert gangs[key] is gangs[key], "it is not resolved at each look"
    assert seen == [0, 1, 1, 0, 1]
