"""Random histories: the store must equal a naive model, whatever the order of events."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from extender.cache.feed import Change
from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.cache.tables import replace
from extender.model.objects import GangKey, Node, Pod
from extender.model.snapshot import Snapshot

NAMES = st.sampled_from(["a", "b", "c", "d"])
NAMESPACES = st.sampled_from(["x", "y"])
NODES = st.sampled_from(["n1", "n2", "n3"])
GANGS = st.sampled_from(["", "g", "h"])
AMOUNTS = st.sampled_from([0, 1, 500, 2**62, 2**63 - 1])
RESOURCES = st.sampled_from(["cpu", "memory", "example.com/gpu"])


def requests(amounts: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((k, v) for k, v in {**amounts, "pods": 1}.items() if v))


def by_label(pod: Pod) -> GangKey | None:
    name = pod.labels.get("gang")
    return GangKey("test", pod.namespace, name) if name else None


POD_FIELDS = st.fixed_dictionaries(
    {
        "node": st.one_of(st.just(""), NODES),
        "gang": GANGS,
        "amounts": st.dictionaries(RESOURCES, AMOUNTS, max_size=2),
        "phase": st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"]),
        "created": st.sampled_from([0.0, 1.0, 2.0]),
    }
)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stats = CacheStats()
        self.store = Store(by_label, lambda: 1.0, self.stats)
        self.version = 10
        self.uids = 0
        self.pods: dict[tuple[str, str], Pod] = {}
        """The naive model: what the API server would list, finished pods excluded."""
        self.done: dict[tuple[str, str], Pod] = {}
        """Members of gangs that have succeeded and were not deleted yet."""
        self.nodes: dict[str, Node] = {}
        self.mirror: dict[str, Any] = {}
        """What a subscriber knows that only listens."""
        self.taken: list[tuple[Snapshot, str]] = []
        self.generation = 0
        self.store.feed.subscribe(self.listen)

    def listen(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is not None:
            held = self.mirror.pop(change.kind + old.uid)
            assert structs.replace(held, version=0) == structs.replace(old, version=0)
        if new is not None:
            assert change.kind + new.uid not in self.mirror
            self.mirror[change.kind + new.uid] = new

    def made(self, namespace: str, name: str, uid: str, fields: dict[str, Any]) -> Pod:
        self.version += 1
        return Pod(
            uid=uid,
            namespace=namespace,
            name=name,
            node=fields["node"],
            phase=fields["phase"],
            labels={"gang": fields["gang"]} if fields["gang"] else {},
            requests=requests(fields["amounts"]),
            created=fields["created"],
            version=self.version,
        )

    def note(self, pod: Pod) -> None:
        self.done.pop((pod.namespace, pod.name), None)
        if pod.finished:
            self.pods.pop((pod.namespace, pod.name), None)
            if pod.phase == "Succeeded" and by_label(pod):
                self.done[pod.namespace, pod.name] = pod
        else:
            self.pods[pod.namespace, pod.name] = pod

    @rule(namespace=NAMESPACES, name=NAMES, fields=POD_FIELDS)
    def change_or_add(self, namespace: str, name: str, fields: dict[str, Any]) -> None:
        held = self.pods.get((namespace, name))
        if held is None:
            self.uids += 1
        pod = self.made(namespace, name, held.uid if held else f"u{self.uids:04}", fields)
        self.note(pod)
        self.store.pods.put(pod)

    @rule(namespace=NAMESPACES, name=NAMES, nominated=st.sampled_from(["", "n1", "n2"]))
    def change_what_moves_it_nowhere(self, namespace: str, name: str, nominated: str) -> None:
        held = self.pods.get((namespace, name))
        if held is not None:
            self.version += 1
            pod = structs.replace(held, nominated=nominated, version=self.version)
            self.note(pod)
            before = self.store.feed.generation
            self.store.pods.put(pod)
            assert (self.store.feed.generation == before) is (nominated == held.nominated)

    @rule(namespace=NAMESPACES, name=NAMES, fields=POD_FIELDS)
    def come_back_under_the_same_name(
        self, namespace: str, name: str, fields: dict[str, Any]
    ) -> None:
        self.uids += 1
        pod = self.made(namespace, name, f"u{self.uids:04}", {**fields, "phase": "Pending"})
        self.note(pod)
        self.store.pods.put(pod)

    @rule(namespace=NAMESPACES, name=NAMES, fields=POD_FIELDS, age=st.integers(1, 8))
    def hear_old_news(self, namespace: str, name: str, fields: dict[str, Any], age: int) -> None:
        held = self.pods.get((namespace, name))
        if held is None:
            return
        old = structs.replace(
            self.made(namespace, name, held.uid, fields), version=held.version - age
        )
        before = self.stats.outdated_events
        self.store.pods.put(old)
        assert self.stats.outdated_events == before + 1

    @rule(namespace=NAMESPACES, name=NAMES)
    def delete(self, namespace: str, name: str) -> None:
        held = self.pods.pop((namespace, name), None)
        if held is not None:
            self.version += 1
            self.store.pods.remove(structs.replace(held, version=self.version))

    @rule(namespace=NAMESPACES, name=NAMES)
    def delete_what_is_done(self, namespace: str, name: str) -> None:
        held = self.done.pop((namespace, name), None)
        if held is not None:
            self.version += 1
            self.store.pods.remove(structs.replace(held, version=self.version))

    @rule(namespace=NAMESPACES, name=NAMES)
    def hear_old_news_of_what_is_done(self, namespace: str, name: str) -> None:
        held = self.done.get((namespace, name))
        if held is not None:
            before = self.stats.outdated_events
            old = structs.replace(held, phase="Running", version=held.version - 1)
            self.store.pods.put(old)
            assert self.stats.outdated_events == before + 1

    @rule(namespace=NAMESPACES, name=NAMES)
    def hear_of_the_end_of_a_stranger(self, namespace: str, name: str) -> None:
        self.store.pods.remove(Pod(uid="stranger", namespace=namespace, name=name))

    @rule(name=NODES, amounts=st.dictionaries(RESOURCES, AMOUNTS), reborn=st.booleans())
    def change_or_add_node(self, name: str, amounts: dict[str, int], *, reborn: bool) -> None:
        self.version += 1
        self.uids += 1
        held = self.nodes.get(name)
        uid = f"node{self.uids}" if held is None or reborn else held.uid
        node = Node(name, uid, allocatable=requests(amounts), version=self.version)
        self.nodes[name] = node
        self.store.nodes.put(node)

    @rule(name=NODES)
    def delete_node(self, name: str) -> None:
        held = self.nodes.pop(name, None)
        if held is not None:
            self.store.nodes.remove(held)

    @rule(
        keep=st.lists(st.booleans(), min_size=8, max_size=8),
        fresh=st.lists(st.tuples(NAMESPACES, NAMES, POD_FIELDS), max_size=3),
    )
    def relist(self, keep: list[bool], fresh: list[tuple[str, str, dict[str, Any]]]) -> None:
        """Everything may have happened while nobody watched."""
        for flag, key in zip(keep, sorted(self.pods), strict=False):
            if not flag:
                del self.pods[key]
        for flag, key in zip(reversed(keep), sorted(self.done), strict=False):
            if not flag:
                del self.done[key]
        for namespace, name, fields in fresh:
            self.uids += 1
            self.note(self.made(namespace, name, f"u{self.uids:04}", fields))
        records = {pod.uid: pod for pod in (*self.pods.values(), *self.done.values())}
        asyncio.run(replace(self.store.pods, records))

    @rule()
    def relist_after_the_storage_was_put_back(self) -> None:
        self.version = 10
        for key, pod in list(self.pods.items()):
            self.version += 1
            self.pods[key] = structs.replace(pod, version=self.version)
        for key, pod in list(self.done.items()):
            self.version += 1
            self.done[key] = structs.replace(pod, version=self.version)
        there = (*self.pods.values(), *self.done.values())
        asyncio.run(replace(self.store.pods, {p.uid: p for p in there}))
        self.nodes = {name: structs.replace(node, version=5) for name, node in self.nodes.items()}
        asyncio.run(replace(self.store.nodes, {n.uid: n for n in self.nodes.values()}))

    @rule()
    def take_snapshot(self) -> None:
        snapshot = self.store.snapshot()
        assert self.store.snapshot() is snapshot
        self.taken.append((snapshot, repr(snapshot)))
        del self.taken[:-3]

    @invariant()
    def equals_the_naive_model(self) -> None:
        snapshot = self.store.snapshot()

        def bare(pods: Any) -> list[Pod]:
            return [structs.replace(pod, version=0) for pod in pods]

        every = sorted(self.pods.values(), key=lambda pod: pod.uid)
        assert set(snapshot.bound) == {pod.node for pod in every if pod.node}
        for node, pods in snapshot.bound.items():
            assert bare(pods) == bare(pod for pod in every if pod.node == node)
        assert bare(snapshot.pending[uid] for uid in sorted(snapshot.pending)) == bare(
            pod for pod in every if not pod.node
        )
        aged = sorted(self.pods.values(), key=lambda pod: (pod.created, pod.uid))
        keys = {by_label(pod) for pod in aged} - {None}
        assert set(snapshot.members) == keys
        for key, members in snapshot.members.items():
            assert bare(members) == bare(pod for pod in aged if by_label(pod) == key)
        done = sorted(self.done.values(), key=lambda pod: (pod.created, pod.uid))
        assert set(snapshot.ended) == {by_label(pod) for pod in done}
        for key, ended in snapshot.ended.items():
            expected = [pod.uid for pod in done if by_label(pod) == key]
            assert [pod.uid for pod in ended] == expected
            assert not any(pod.requests for pod in ended)
        assert {name: n.allocatable for name, n in snapshot.nodes.items()} == {
            name: n.allocatable for name, n in self.nodes.items()
        }
        for (namespace, name), pod in self.pods.items():
            assert self.store.pods.named(namespace, name) == pod, "versions included"
            assert self.store.pods.by_uid[pod.uid] == pod
        assert len(self.store.pods.by_uid) == len(self.pods)

    @invariant()
    def amounts_equal_recomputed_ones(self) -> None:
        snapshot = self.store.snapshot()
        for name in snapshot.nodes.keys() | snapshot.bound.keys():
            allocatable = dict(snapshot.nodes[name].allocatable) if name in snapshot.nodes else {}
            used: dict[str, int] = {}
            for pod in snapshot.bound.get(name, ()):
                for resource, amount in pod.requests:
                    used[resource] = used.get(resource, 0) + amount
            free = self.store.amounts.free(name)
            assert free is not None
            for resource in allocatable.keys() | used.keys() | free.keys():
                left = allocatable.get(resource, 0) - used.get(resource, 0)
                assert free.get(resource, 0) == left

    @invariant()
    def nothing_is_kept_of_what_is_gone(self) -> None:
        pods = self.store.pods
        for index in (pods._on_node, pods._members, pods._by_name):
            assert all(index.values())
        assert set(pods._gang) <= set(pods.by_uid)

    @invariant()
    def snapshots_never_change(self) -> None:
        for snapshot, text in self.taken:
            assert repr(snapshot) == text

    @invariant()
    def listeners_know_everything(self) -> None:
        assert self.store.feed.generation >= self.generation
        self.generation = self.store.feed.generation
        assert {key for key in self.mirror if key.startswith("podu")} == {
            "pod" + pod.uid for pod in self.pods.values()
        }
        assert self.stats.subscriber_errors == 0


StoreMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestStore = StoreMachine.TestCase
