"""Pods of an owner that was made anew: what else of its gang they are no part of."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.controller.waiting import Waiting
from extender.gang.plan.fair_turns import turn_of
from extender.gang.plan.topology_domains import preferred_keys
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.gang_status import described
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from tests.gang.statuses import status
from tests.gang.world import NOW, node, pod, snapshot

KEY = GangKey("jobset", "default", "g")
NODES = [node(f"{rack}{i}", labels={"rack": rack}) for rack in "ab" for i in range(2)]
OLD = [replace(pod(f"old-{i}", on=f"{rack}0"), created=NOW - 900) for i, rack in enumerate("ab")]
NEW = [replace(pod(f"new-{i}"), created=NOW - 5 + i) for i in range(2)]


def gang(*members: Pod, size_known: bool = True) -> Gang:
    return Gang(
        KEY,
        members,
        2,
        before=frozenset(member.uid for member in members if member.name.startswith("old")),
        size_known=size_known,
        preferred_topology_key="rack",
    )


def test_where_they_run_takes_no_wish_from_the_new_ones() -> None:
    state = snapshot(NODES, [*OLD, *NEW])
    assert preferred_keys(gang(*OLD, *NEW), (), state) == ("rack",)
    apart = [replace(member, name=f"own-{member.name}", uid=member.name) for member in OLD]
    assert preferred_keys(gang(*apart, *NEW), (), state) == (), "its own have left every rack"


def test_it_is_as_old_as_its_new_ones() -> None:
    assert turn_of(gang(*OLD, *NEW)) == turn_of(gang(*NEW))


def test_who_leaves_of_them_is_not_waited_for() -> None:
    waiting = Waiting(
        Clocks(lambda: 100.0), 2.0, 1.0, 30.0, lambda member, wall: member.deleting > wall
    )
    assert waiting.must_wait(gang(*OLD, *NEW, size_known=False), NOW) is None
    leaving = [replace(member, deleting=NOW + 30) for member in OLD]
    assert waiting.must_wait(gang(*leaving, *NEW, size_known=False), NOW) is None


def test_what_is_told_of_it_counts_the_new_ones() -> None:
    told = status(described(gang(*OLD, NEW[0])))
    assert (told.bound, told.pending, told.members) == (0, 1, 3)
    assert told.reason == "1 of 2 members exist"
