"""What any object the API server accepts costs in memory (issue 9, row 3).

A request may have 1.5 MiB; what is measured is what stays once the object is decoded, memos and
all. Each object is written as densely as JSON allows, since a short text costs most.

See docs/security.md, row 3.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.decode.from_json import decode_budget, decode_group, decode_pod
from extender.groups.resolver import Resolver
from extender.settings.settings import GroupSettings

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


def pod(number: int = 0, spec: Obj | None = None, **meta: Any) -> Obj:
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
    "labels": lambda n: pod(labels={short(i): "" for i in range(n)}),
    "annotations we read": lambda n: pod(
        annotations={f"volcano.sh/{i:x}": "" for i in range(min(n, 16_000))}
    ),
    "one long annotation": lambda n: pod(
        annotations={"podgroup-extender.io/required-topology": "x" * min(n, 2**18)}
    ),
    "owner": lambda n: pod(
        ownerReferences=[{"kind": "Job", "name": "x" * n, "uid": "u", "controller": True}]
    ),
    "node selector": lambda n: pod(spec={"nodeSelector": {short(i): "" for i in range(n)}}),
    "node affinity values": lambda n: pod(
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
    "node affinity terms": lambda n: pod(
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
    "pod affinity terms": lambda n: pod(
        spec=affinity(
            podAntiAffinity={
                REQUIRED: listed(n, lambda i: {"topologyKey": short(i), "labelSelector": {}})
            }
        )
    ),
    "spread": lambda n: pod(
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
    "tolerations": lambda n: pod(spec={"tolerations": listed(n, lambda i: {"key": short(i)})}),
    "ports": lambda n: pod(
        spec={
            "containers": [
                {
                    "name": "c",
                    "ports": listed(n, lambda i: {"hostPort": 1 + i % 65535, "hostIP": short(i)}),
                }
            ]
        }
    ),
    "requests": lambda n: pod(
        spec={
            "containers": [
                {"name": "c", "resources": {"requests": {f"a/{i:x}": "1" for i in range(n)}}}
            ]
        }
    ),
    "containers": lambda n: pod(spec={"containers": listed(n, lambda i: {"name": short(i)})}),
    "volumes": lambda n: pod(spec={"volumes": listed(n, lambda i: {"name": short(i)})}),
}


def cost(data: bytes, decode: Callable[[bytes], Any]) -> tuple[int, Any]:
    """Bytes that decoding leaves behind while its result is held; the sharing table is warm."""
    decode(json.dumps(pod(1)).encode()) if decode is decode_pod else None
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
                pod(
                    number,
                    annotations={"volcano.sh/a": text[: 2**18]},
                    ownerReferences=[{"kind": "Job", "name": text, "uid": "u", "controller": True}],
                )
            ).encode()
        )
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 2**20
