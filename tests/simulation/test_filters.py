"""The simulation's few in-tree filters decide as extender.fit does on what a simulation has."""

from __future__ import annotations

import pytest

from extender.decode.from_json import decode_pod
from extender.sandbox.api_status import Obj
from extender.sandbox.cluster import ClusterState
from tests.simulation import objects
from tests.simulation.chance import Chance
from tests.simulation.filters import CpuState
from tests.simulation.objects import CLASSES, Work


def _node(chance: Chance, name: str) -> Obj:
    node = objects.node(name, chance.number("size", 1, 4))
    node["metadata"]["uid"] = name
    node["spec"]["unschedulable"] = chance.hit("cordon", 0.2)
    node["status"]["allocatable"]["pods"] = chance.pick("slots", ("1", "2", "110"))
    return node


def _pod(chance: Chance, number: int, nodes: list[str]) -> Obj:
    cls = chance.pick("class", tuple(CLASSES))
    work = Work(name="w", size=1, cls=cls, cpu=chance.number("cpu", 0, 3), gang=False)
    on = chance.pick("on", ["", *nodes])
    alone = bool(on) and chance.hit("alone", 0.2)
    pod = (objects.alone if alone else objects.pod)(work, f"p{number}", on)
    pod["metadata"] |= {"uid": f"u{number}", "namespace": "default"}
    pod["spec"]["priority"] = CLASSES[cls]
    nominated = "" if on else chance.pick("nominated", ["", *nodes])
    pod["status"] = {"phase": "Pending", "nominatedNodeName": nominated}
    return pod


@pytest.mark.parametrize("seed", range(40))
def test_they_agree_with_all_filters(seed: int) -> None:
    chance = Chance(seed)
    names = [f"n{i}" for i in range(3)]
    quick, full = CpuState(), ClusterState()
    pods = [_pod(chance, number, names) for number in range(8)]
    for state in (quick, full):
        state.namespaces["default"] = {}
    for node in [_node(chance, name) for name in names]:
        quick.set_node(node)
        full.set_node(node)
    for raw in pods:
        quick.set_pod(raw)
        full.set_pod(raw)
    for raw in pods:
        if not raw["spec"].get("nodeName") and chance.hit("assumed", 0.3):
            node_name = chance.pick("assumed-on", names)
            quick.assume(raw["metadata"]["uid"], node_name)
            full.assume(raw["metadata"]["uid"], node_name)
    for raw in pods:
        pod = decode_pod(raw)
        if full.node_of(pod):
            continue
        gone = frozenset(f"u{n}" for n in range(8) if chance.hit("gone", 0.3))
        few, all_ = quick.view(pod, without=gone), full.view(pod, without=gone)
        for name in names:
            one, other = few.why_not(pod, name), all_.why_not(pod, name)
            assert _plugin(one) == _plugin(other), (pod.name, name, one, other)
            assert few.never(pod, name) == all_.never(pod, name)
            assert few.score(name) == all_.score(name)


def _plugin(reason: str | None) -> str | None:
    return None if reason is None else reason.split(":")[0]
