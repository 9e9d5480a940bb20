"""Gangs that are resolved once and kept while they stay the same, and for no longer."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.incremental.gangs import Gangs
from extender.groups.resolver import Resolver
from extender.model.settings import Settings
from tests.gang.world import gang_key, group, node, pod, snapshot


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
