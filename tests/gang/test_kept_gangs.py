"""Gangs that are resolved once and kept while they stay the same, and for no longer."""

from __future__ import annotations

from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.gang.incremental.gangs import Gangs
from extender.groups.resolver import Resolver
from extender.settings.settings import Settings
from tests.gang.world import gang_key, group, node, pod, snapshot
from tests.groups.owners import jobset, jobset_pod, replicated


def test_a_gang_asked_for_after_its_last_member_went_is_not_kept() -> None:
    """Gangs come and go for ever; a late event or an ended plan still asks for one."""
    gangs = Gangs(Resolver(Settings().groups))
    names = [f"g{number}" for number in range(100)]
    empty = snapshot([node("n0")], [], [group(name) for name in names])
    for name in names:
        members = {gang_key(name): (pod("m", group=name),)}
        gangs.renew(replace(empty, members=members))
        assert len(gangs[gang_key(name)].members) == 1
        gangs.renew(empty)
        assert gangs[gang_key(name)].members == ()
    assert len(gangs._kept) == 0


def test_a_gang_that_stays_the_same_is_resolved_once() -> None:
    gangs = Gangs(Resolver(Settings().groups))
    nodes = [node("n0")]
    first = snapshot(nodes, [pod("m", group="g")], [group("g")])
    gangs.renew(first)
    assert gangs[gang_key("g")] is gangs[gang_key("g")]


def test_a_gang_whose_owner_was_asked_is_another_one_when_that_is_read() -> None:
    """A PodGroup "g" of four, and the first pod of a JobSet "j" that starts in order."""
    gangs = Gangs(Resolver(Settings().groups))
    made = jobset(replicated("lead"), replicated("w", each=3), name="j", in_order=True)
    made["metadata"]["namespace"] = "default"
    lead = pod("j-lead", group="g", **jobset_pod(0, "lead", "j"))
    after = snapshot([node("n0")], [lead], [group("g", 4), decode_group("jobset", made)])
    before = replace(after, groups={k: row for k, row in after.groups.items() if k[2] == "g"})
    gangs.renew(before)
    assert not gangs[gang_key("g")].complete
    gangs.renew(after)
    assert gangs[gang_key("g")].complete
    gangs.renew(before)
    assert not gangs[gang_key("g")].complete


def test_a_gang_is_another_one_when_a_member_is_done_or_deleted_after() -> None:
    gangs = Gangs(Resolver(Settings().groups))
    runs = pod("a", group="g", on="n0")
    done = replace(pod("b", group="g", on="n0"), phase="Succeeded")
    nodes, groups = [node("n0")], [group("g", 2)]
    alone, both = snapshot(nodes, [runs], groups), snapshot(nodes, [runs, done], groups)
    gangs.renew(alone)
    assert gangs[gang_key("g")].missing == 1
    gangs.renew(replace(both, members=alone.members))
    assert gangs[gang_key("g")].missing == 0
    gangs.renew(alone)
    assert gangs[gang_key("g")].missing == 1
