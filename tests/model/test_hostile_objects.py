"""What any object the API server accepts costs in memory and time, and what is kept of it.

See docs/security.md, row 3.
"""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.decode.from_json import decode_budget, decode_group, decode_pod
from extender.decode.interning import MOST_BYTES
from extender.decode.quantity import parse_quantity
from extender.fit import selectors, static
from extender.fit.selectors import parse_int64
from extender.fit.static import static_mask
from extender.gang.incremental import planning_cache, victims
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups import koordinator, yunikorn
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.fair_lru import Shares
from extender.model.objects import PodShape
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings, Settings
from tests.fit.builders import node, pod
from tests.gang import world

LIMIT = 3 * 2**19
"""1.5 MiB: what etcd takes in one request."""
ALLOWED = 4
"""Times an object's size."""
BESIDES = 64 * 1024
"""Bytes of what is made for the first object of a kind, whatever its size."""
Obj = dict[str, Any]


def short(number: int) -> str:
    """A text as short as texts that all differ can be."""
    return f"{number:x}"


def filled(make: Callable[[int], Obj], size: int = LIMIT) -> bytes:
    """A large object of this make that has at most ``size`` bytes of JSON."""
    sample = min(2000, size // 100)
    each = len(_dumped(make(sample))) / sample
    count = int(size / each)
    while len(data := _dumped(make(count))) > size:
        count = int(count * 0.97 * size / len(data))
    return data


def _dumped(document: Obj) -> bytes:
    return msgspec.json.encode(document)


def size_pod(number: int = 0, spec: Obj | None = None, **meta: Any) -> Obj:
    return {
        "metadata": {"name": f"p{number}", "namespace": "t", "uid": f"u{number}", **meta},
        "spec": {"containers": [{"name": "c"}], "nodeName": "n0", **(spec or {})},
    }


def affinity(**terms: Any) -> Obj:
    return {"affinity": terms}


def listed(count: int, make: Callable[[int], Any]) -> list[Any]:
    return [make(number) for number in range(count)]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PODS: dict[str, Callable[[int], Obj]] = {
    "labels": lambda n: size_pod(labels={short(i): "" for i in range(n)}),
    "annotations we read": lambda n: size_pod(
        annotations={f"volcano.sh/{i:x}": "" for i in range(min(n, 16_000))}
    ),
    "one long annotation": lambda n: size_pod(
        annotations={"podgroup-extender.io/required-topology": "x" * min(n, 2**18)}
    ),
    "owner": lambda n: size_pod(
        ownerReferences=[{"kind": "Job", "name": "x" * n, "uid": "u", "controller": True}]
    ),
    "node selector": lambda n: size_pod(spec={"nodeSelector": {short(i): "" for i in range(n)}}),
    "node affinity values": lambda n: size_pod(
        spec=affinity(
            nodeAffinity={
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "k", "operator": "In", "values": listed(n, short)}
                            ]
                        }
                    ]
                }
            }
        )
    ),
    "node affinity terms": lambda n: size_pod(
        spec=affinity(
            nodeAffinity={
                REQUIRED: {
                    "nodeSelectorTerms": listed(
                        n,
                        lambda i: {"matchExpressions": [{"key": short(i), "operator": "Exists"}]},
                    )
                }
            }
        )
    ),
    "pod affinity terms": lambda n: size_pod(
        spec=affinity(
            podAntiAffinity={
                REQUIRED: listed(n, lambda i: {"topologyKey": short(i), "labelSelector": {}})
            }
        )
    ),
    "spread": lambda n: size_pod(
        spec={
            "topologySpreadConstraints": listed(
                n,
                lambda i: {
                    "topologyKey": short(i),
                    "maxSkew": 1,
                    "whenUnsatisfiable": "DoNotSchedule",
                },
            )
        }
    ),
    "tolerations": lambda n: size_pod(spec={"tolerations": listed(n, lambda i: {"key": short(i)})}),
    "ports": lambda n: size_pod(
        spec={
            "containers": [
                {
                    "name": "c",
                    "ports": listed(n, lambda i: {"hostPort": 1 + i % 65535, "hostIP": short(i)}),
                }
            ]
        }
    ),
    "requests": lambda n: size_pod(
        spec={
            "containers": [
                {"name": "c", "resources": {"requests": {f"a/{i:x}": "1" for i in range(n)}}}
            ]
        }
    ),
    "containers": lambda n: size_pod(spec={"containers": listed(n, lambda i: {"name": short(i)})}),
    "volumes": lambda n: size_pod(spec={"volumes": listed(n, lambda i: {"name": short(i)})}),
}


def cost(data: bytes, decode: Callable[[bytes], Any]) -> tuple[int, Any]:
    """Bytes that decoding leaves behind while its result is held; the sharing table is warm."""
    decode(json.dumps(size_pod(1)).encode()) if decode is decode_pod else None
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held = decode(data)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before, held


@pytest.mark.parametrize("make", PODS.values(), ids=PODS.keys())
def test_a_pod_costs_at_most_four_times_its_size(make: Callable[[int], Obj]) -> None:
    """A smaller one, to which the bounds that are constant matter more."""
    data = filled(make, 96 * 1024)
    used, held = cost(data, decode_pod)
    assert used <= ALLOWED * len(data) + BESIDES, f"{used / len(data):.1f} times {len(data)} bytes"
    assert held.name == "p0"


@pytest.mark.parametrize("make", PODS.values(), ids=PODS.keys())
def test_a_pod_in_the_cache_costs_at_most_four_times_its_size(make: Callable[[int], Obj]) -> None:
    """The same with every index of the store, its snapshot and the gang it may name."""
    resolver = Resolver(GroupSettings())
    store = Store(resolver.member_key, lambda: 0.0, CacheStats())
    store.snapshot()

    def kept(data: bytes) -> Any:
        record = decode_pod(data)
        store.pods.put(record)
        return store.snapshot(), resolver.resolve_all(store.snapshot())

    data = filled(make)
    used, _ = cost(data, kept)
    assert used <= ALLOWED * len(data) + BESIDES, f"{used / len(data):.1f} times {len(data)} bytes"


def selector(count: int) -> Obj:
    return {
        "matchExpressions": [{"key": "k", "operator": "In", "values": listed(count, short)}],
    }


OTHERS: dict[str, tuple[Callable[[int], Obj], Callable[[bytes], Any]]] = {
    "budget values": (
        lambda n: {"metadata": {"name": "b", "uid": "u"}, "spec": {"selector": selector(n)}},
        decode_budget,
    ),
    "budget labels": (
        lambda n: {
            "metadata": {"name": "b", "uid": "u"},
            "spec": {"selector": {"matchLabels": {short(i): "" for i in range(n)}}},
        },
        decode_budget,
    ),
    "group": (
        lambda n: {
            "metadata": {"name": "g", "uid": "u"},
            "spec": {"schedulingConstraints": {"topology": [{"key": "x" * n}]}},
        },
        lambda data: decode_group("core", data),
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_objects_cost_at_most_four_times_their_size(kind: str) -> None:
    make, decode = OTHERS[kind]
    data = filled(make)
    used, _ = cost(data, decode)
    assert used <= ALLOWED * len(data) + BESIDES, f"{used / len(data):.1f} times {len(data)} bytes"


def test_many_large_objects_do_not_pile_up_in_the_memos() -> None:
    """What pods that are gone have left behind is bounded by bytes, not by their number."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(40):
        text = f"{number:03}" + "x" * 2**18
        decode_pod(
            json.dumps(
                size_pod(
                    number,
                    annotations={"volcano.sh/a": text[: 2**18]},
                    ownerReferences=[{"kind": "Job", "name": text, "uid": "u", "controller": True}],
                )
            ).encode()
        )
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 2**20


COUNT = 3000
TIMES = 20
"""Above what others of the same number and size take; what grows with the square took 150."""


def asks(number: int) -> Obj:
    return {"name": f"c{number}", "resources": {"requests": {f"example.com/r{number}": "1"}}}


def taken(spec: Obj) -> float:
    """CPU seconds for such a pod, the least of three, each new to every memo."""
    spent = []
    for attempt in range(3):
        spec["containers"] = [*spec.get("containers", ()), asks(-attempt - 1)]
        body = msgspec.json.encode({"metadata": {"name": "p", "uid": "u"}, "spec": spec})
        began = time.process_time()
        decode_pod(body)
        spent.append(time.process_time() - began)
    return min(spent)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: {**asks(number), "restartPolicy": "Always"},
        asks,
        lambda number: {**asks(number), "restartPolicy": "Always"} if number % 2 else asks(number),
    ],
    ids=["sidecars", "init containers", "both"],
)
def test_init_containers_cost_no_more_than_containers(make: Callable[[int], Obj]) -> None:
    plain = taken({"containers": [asks(number) for number in range(COUNT)]})
    assert taken({"initContainers": [make(number) for number in range(COUNT)]}) < TIMES * plain


MIB = 1 << 20


def kept_by(work: Callable[[], object]) -> int:
    """Bytes that are held after some work and were not before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def large_shape(number: int) -> PodShape:
    return PodShape(node_selector=((f"key-{number}", "x" * MIB),))


def test_classes_of_pods() -> None:
    made = [node("n0")]

    def work() -> None:
        for number in range(60):
            assert static_mask(pod("p", shape=large_shape(number)), made) == b"\0"

    assert kept_by(work) < MOST_BYTES + 4 * MIB
    assert static._classes.size <= MOST_BYTES


def test_one_that_is_larger_than_all_is_remembered_alone() -> None:
    made = [node("n0")]
    for times in (1, MOST_BYTES // MIB + 1, 1):
        shape = PodShape(node_selector=(("key", "x" * MIB * times),))
        each = pod("p", shape=shape)
        static_mask(each, made)
        assert static.pod_class(each) is static.pod_class(each)


def test_masks_of_a_planner() -> None:
    planning = PlanningCache(Resolver(Settings().groups), Settings())
    planning.renew(Snapshot(generation=1, nodes={"n0": node("n0")}))

    def work() -> None:
        static._classes.clear()
        for number in range(120):
            assert planning.mask(pod("p", shape=large_shape(number))) == b"\0"
        static._classes.clear()

    assert kept_by(work) < MOST_BYTES + 4 * MIB


def test_amounts_of_a_planner() -> None:
    planning = PlanningCache(Resolver(Settings().groups), Settings())
    names = {f"e.com/{kind}-{i}": 1 for kind in range(7) for i in range(128)}
    planning.renew(world.snapshot([world.node("n0", 4, None, **names)], []))

    def work() -> None:
        for number in range(6000):
            planning._number(tuple((f"e.com/{number % 7}-{i}", number + 1) for i in range(128)))

    assert kept_by(work) < MOST_BYTES + 8 * MIB


def test_names_of_resources_that_no_node_has_are_not_numbered() -> None:
    """Each node's sums reach to the highest number that is asked for there: with 500 pods of 120
    names each, and 500 more on other nodes, 210 MiB; with twice as many four times that."""
    planner = Planner(Settings(), Resolver(Settings().groups))
    names = [tuple((f"e.com/{k}-{i}", 1) for i in range(120)) for k in range(50)]
    last = names[-1][-1]
    pods = [replace(world.pod(f"a{k}", on="n0"), requests=each) for k, each in enumerate(names)]
    pods += [
        replace(world.pod(f"b{k}", on=f"n{k}"), requests=(("cpu", 3000), last)) for k in range(1, 9)
    ]
    waits = world.pod("high-0", group="high", priority=1, cpu=3)
    groups = [world.group("high", 1)]

    def answered(state: Snapshot) -> Plan | Refusal:
        gang = planner._resolver.resolve(world.gang_key("high"), state)
        return planner.plan(GangQuestion(gang, state))

    nodes = [world.node(f"n{i}") for i in range(1, 9)]
    small = [world.node("n0", cpu=1)]
    answer = answered(world.snapshot(nodes + small, [*pods, waits], groups))
    assert isinstance(answer, Plan)
    assert len(answer.victims) == 1
    assert len(planner._planning._numbers) < 10
    # A node that has it makes it count from then on, for all of them.
    asks = replace(waits, requests=(("cpu", 1000), last, ("pods", 1)))
    more = world.node("n9", 4, None, **{last[0]: 1})
    state = world.snapshot([*nodes, *small, more], [*pods, asks], groups, generation=2)
    answer = answered(state)
    assert isinstance(answer, Plan)
    assert (answer.victims, answer.seats[0].node) == ((), "n9")
    taken = replace(world.pod("c", on="n9"), requests=(last,))
    answer = answered(
        world.snapshot(state.nodes.values(), [*pods, asks, taken], groups, generation=3)
    )
    assert isinstance(answer, Plan)
    assert [victim.name for victim in answer.victims] == ["c"]


def test_names_of_resources_that_nobody_uses_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning_cache, "MOST_NAMES", 40)
    planner = Planner(Settings(), Resolver(Settings().groups))
    for number in range(30):
        asked = tuple((f"e.com/{number}-{i}", 1) for i in range(10))
        holder = replace(world.pod("holder", on="n0"), uid=f"u{number}", requests=asked)
        state = world.snapshot(
            [world.node("n0", 4, None, **dict(asked)), world.node("n1")],
            [holder, *(world.pod(f"high-{i}", group="high", priority=1) for i in range(2))],
            [world.group("high", 2)],
            generation=number,
        )
        answer = planner.plan(
            GangQuestion(planner._resolver.resolve(world.gang_key("high"), state), state)
        )
        assert isinstance(answer, Plan)
        assert {seat.node for seat in answer.seats} == {"n0", "n1"}
        assert answer.victims == ()
        assert len(planner._planning._numbers) <= 60


def test_pods_with_thousands_of_keys_are_judged_without_a_copy_of_them_for_each_node() -> None:
    selector = tuple((f"key-{number}", "x") for number in range(2000))
    each = pod("p", shape=PodShape(node_selector=selector))
    made = [node(f"n{i}", labels={"key-0": str(i)}) for i in range(500)]
    assert kept_by(lambda: static_mask(each, made)) < MIB


@pytest.mark.parametrize("memo", [koordinator._listed, yunikorn._task_groups])
def test_annotations(memo: Callable[[str], object]) -> None:
    def work() -> None:
        for number in range(64):
            memo("[" + " " * (256 * 1024) + str(number))

    assert kept_by(work) < 2 * MIB


def test_shares_of_nodes() -> None:
    def work() -> None:
        for number in range(600):
            asked = tuple((f"e.com/{number}-{i}", 1) for i in range(128))
            assert victims._held(asked, asked) == victims.ONE

    assert kept_by(work) < 2 * MIB


def test_values_of_selectors() -> None:
    def work() -> None:
        for number in range(64):
            assert not selectors._parsable(("x" * (256 * 1024) + str(number),))

    assert kept_by(work) < 2 * MIB


def test_a_number_of_thousands_of_digits_is_none() -> None:
    """Python refuses to read it, with an error that is nobody's to catch."""
    assert parse_int64("9" * 5000) is None
    assert parse_int64("-" + "0" * 30 + "7") == -7
    assert parse_int64("9223372036854775807") == 2**63 - 1
    with pytest.raises(InvalidInput):
        parse_quantity("9" * 5000)


MOST = 6


def plain_put(kept: dict[int, tuple[str, int]], key: int, share: str, size: int) -> None:
    """Count all anew for each that has to go."""
    kept.pop(key, None)
    kept[key] = (share, size)
    while sum(each for _, each in kept.values()) > MOST and len(kept) > 1:
        sizes: Counter[str] = Counter()
        for name, each in kept.values():
            sizes[name] += each
        first = {name: next(k for k, v in kept.items() if v[0] == name) for name in sizes}
        others = [name for name in sizes if first[name] != key]
        most = max(sizes[name] for name in others)
        crowded = {first[name] for name in others if sizes[name] == most}
        gone = next(k for k in kept if k in crowded)
        if len(crowded) > 1:
            raise AmbiguousError
        del kept[gone]


class AmbiguousError(Exception):
    """Two shares have as much: either may lose."""


PUTS = st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.integers(0, 4))


@given(steps=st.lists(st.one_of(PUTS, st.integers(0, 9)), max_size=30))
def test_whoever_has_most_loses_its_oldest(steps: list[tuple[int, str, int] | int]) -> None:
    shares: Shares[int, str] = Shares(MOST)
    kept: dict[int, tuple[str, int]] = {}
    for step in steps:
        if isinstance(step, int):
            known = kept.pop(step, None)
            assert shares.pop(step) == (None if known is None else known[0])
        else:
            key, share, size = step
            shares.put(key, share, share, size)
            try:
                plain_put(kept, key, share, size)
            except AmbiguousError:
                return
        assert list(shares.values()) == [share for share, _ in kept.values()]
        assert [key in shares for key in range(10)] == [key in kept for key in range(10)]
        assert shares.size == sum(size for _, size in kept.values())
        oldest = shares.oldest()
        assert (None if oldest is None else oldest[0]) == next(iter(kept), None)


def test_what_would_only_push_out_its_own_is_told_beforehand() -> None:
    shares: Shares[int, None] = Shares(4)
    for key in range(4):
        assert shares.takes("crowd")
        shares.put(key, None, "crowd")
    assert not shares.takes("crowd")
    for key in (10, 11):
        assert shares.takes("other")
        shares.put(key, None, "other")
    assert not shares.takes("other"), "each has two"
    assert [key in shares for key in range(4)] == [False, False, True, True]
    assert shares.takes("third")


def test_the_newest_stays_however_large_it_is() -> None:
    shares: Shares[str, int] = Shares(4)
    shares.put("small", 1, "a")
    shares.put("large", 9, "b", 9)
    assert list(shares.values()) == [9]
    assert shares.get("small") is None
    assert len(shares) == 1


def test_the_oldest_are_forgotten_until_one_is_not_over() -> None:
    shares: Shares[str, int] = Shares(10)
    for key, until in (("a", 1), ("b", 2), ("c", 5), ("d", 1)):
        shares.put(key, until, "ns")
    shares.forget(lambda until: until <= 2)
    assert list(shares.values()) == [5, 1]
    shares.forget(lambda until: True)
    assert not len(shares)


def test_each_share_has_its_turn_with_its_oldest() -> None:
    shares: Shares[int, str] = Shares(10)
    for key, share in enumerate("aaaabbc"):
        shares.put(key, f"{share}{key}", share)
    taken = [shares.take() for _ in range(4)]
    assert taken == ["a0", "b4", "c6", "a1"]
    shares.put(7, "a7", "a")  # its turn is not before that of b
    shares.put(8, "c8", "c")
    assert [shares.take() for _ in range(6)] == ["b5", "a2", "c8", "a3", "a7", None]
    assert not len(shares)
    assert shares.size == 0
