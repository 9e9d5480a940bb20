"""Pods and groups of hierarchies in any order of events: what is kept equals what is read.

The store puts pods and groups together as events arrive, and gangs are kept while they stay the
same; a snapshot assembled at once from the same records, and a resolver that keeps nothing, must
say the same after each event.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from extender.cache import composites
from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.gang.core.last_check import KeptGangs
from extender.gang.plan.assemble import assemble
from extender.groups.composite import Groups, Hierarchy, hierarchy_at
from extender.groups.resolver import Resolver
from extender.model.objects import GroupObject, Pod
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings
from tests.groups.build import pod
from tests.groups.composites import composite, pod_group

COMPOSITES = ("c0", "c1", "c2", "c3")
GROUPS = ("g0", "g1", "g2", "c0")


class History:
    """A store that is told of random events, and the records that it should hold."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.resolver = Resolver(GroupSettings())
        self.kept = KeptGangs(self.resolver)
        self.store = Store(self.resolver.member_key, lambda: 1.0, CacheStats())
        self.store.group_sources = frozenset(("core-composite",))
        self.pods: dict[str, Pod] = {}
        self.groups: dict[tuple[str, str, str], GroupObject] = {}
        self.version = 1

    def pod(self) -> None:
        name = f"p{self.chance.randrange(8)}"
        self.version += 1
        if name in self.pods and self.chance.random() < 0.3:
            self.store.pods.remove(self.pods.pop(name))
            return
        old = self.pods.get(name)
        made = Pod(
            uid=name,
            namespace="ns",
            name=name,
            node=self.chance.choice(("", "n0", "n1")),
            pod_group=old.pod_group if old else self.chance.choice((*GROUPS, "")),
            priority=self.chance.randrange(3),
            started=float(self.version),
            version=self.version,
        )
        self.pods[name] = made
        self.store.pods.put(made)

    def group(self) -> None:
        above = self.chance.choice(("", *COMPOSITES))
        least, whole = self.chance.choice((None, 1, 2)), self.chance.random() < 0.4
        build: Callable[..., GroupObject] = self.chance.choice((pod_group, composite))
        names = GROUPS if build is pod_group else COMPOSITES
        made = build(self.chance.choice(names), above, least, whole=whole, priority=1)
        self.version += 1
        made = replace(made, version=self.version)
        key = (made.source, made.namespace, made.name)
        table = self.store.groups[made.source]
        if key in self.groups and self.chance.random() < 0.4:
            table.remove(self.groups.pop(key))
            return
        if key in self.groups and self.chance.random() < 0.3:
            made = replace(made, uid=f"again-{self.version}")
        self.groups[key] = made
        table.put(made)

    def assembled(self) -> Snapshot:
        return assemble(
            self.resolver.member_key,
            nodes=(),
            pods=self.pods.values(),
            groups=self.groups.values(),
            group_sources=("core-composite",),
            now=1.0,
        )


@pytest.mark.parametrize("seed", range(40))
def test_what_is_kept_equals_what_is_read(seed: int) -> None:
    history = History(seed)
    for _ in range(60):
        history.chance.choice((history.pod, history.group))()
        held, fresh = history.store.snapshot(), history.assembled()
        assert dict(held.members) == dict(fresh.members)
        assert dict(held.bound) == dict(fresh.bound)
        assert dict(held.pending) == dict(fresh.pending)
        for key in held.members:
            assert history.kept.resolve(key, held) == history.resolver.resolve(key, fresh)
    relisted = [replace(each, hierarchy=None) for each in history.pods.values()]
    before = history.store.feed.generation
    for each in relisted:
        history.store.pods.put(each, force=True)
    assert history.store.feed.generation == before, "a pod read again is no other pod"
    for table in history.store.groups.values():
        table.clear()
    history.groups.clear()
    assert dict(history.store.snapshot().members) == dict(history.assembled().members)


def test_groups_without_pods_cost_an_event_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may make ten thousand of them, and change what is above them all day."""
    read: list[str] = []

    def counted(name: tuple[str, str], groups: Groups) -> Hierarchy:
        read.append(name[1])
        return hierarchy_at(name, groups)

    monkeypatch.setattr(composites, "hierarchy_at", counted)
    moved: list[str] = []
    kept = composites.Composites(lambda uid, hierarchy: moved.append(uid))
    for number in range(100):
        kept.changed(None, pod_group(f"g{number}", of="c0"))
    member = kept.placed(pod("p", group="g7"))
    kept.joined(member)
    read.clear()
    kept.changed(None, composite("c0"))
    assert read == ["g7"]
    assert moved == [member.uid]
    assert kept.placed(pod("q", group="g8")).hierarchy == ("g8", "g8")
