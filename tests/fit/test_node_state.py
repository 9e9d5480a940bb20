"""What a node's state says of its pods after any moves, and whom a view asks first."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.fit.node_state import MovedPods, NodeState
from extender.model.objects import HostPort, Pod, PodShape, SpreadConstraint
from tests.fit.builders import node, pod, requests, selector, term, view

PODS = [
    pod("a"),
    pod("b", wants=requests(cpu=500, gpu=1)),
    pod("c", shape=PodShape(host_ports=(HostPort("", "TCP", 80),))),
    pod("d", shape=PodShape(anti_affinity=(term(app="x"),))),
]


def held(pods: dict[str, Pod] | MovedPods) -> dict[str, Pod]:
    """All pods, asked for in every way there is."""
    found = {each.uid: each for each in pods.values()}
    assert len(pods) == len(found)
    for each in PODS:
        assert (each.uid in pods) is (each.uid in found)
        assert pods.get(each.uid) is found.get(each.uid)
    return found


@given(
    before=st.sets(st.sampled_from(range(4))),
    moves=st.lists(st.sampled_from(range(4))),
    after=st.lists(st.sampled_from(range(4))),
)
def test_copies_know_who_is_there_after_any_moves(
    before: set[int], moves: list[int], after: list[int]
) -> None:
    """Each number moves that pod: away when it is there, back when it is not."""
    first = NodeState(node("n"), tuple(PODS[i] for i in sorted(before)))
    states = [first]
    truth = [{PODS[i].uid: PODS[i] for i in before}]
    for turn in (moves, after):
        states.append(states[-1].clone())
        truth.append(dict(truth[-1]))
        for i in turn:
            each = PODS[i]
            if each.uid in truth[-1]:
                states[-1].remove(truth[-1].pop(each.uid))
            else:
                states[-1].add(each)
                truth[-1][each.uid] = each
    for state, there in zip(states, truth, strict=True):
        assert held(state.pods) == there
        again = NodeState(state.node, tuple(there.values()))
        assert {name: used for name, used in state.used.items() if used} == again.used
        assert state.ports == again.ports
        assert state.guards == again.guards
        assert list(state.taken_ports()) == list(again.taken_ports())


def test_the_first_plugin_that_refuses_is_named() -> None:
    """In kube-scheduler's order; a rule that passes takes no reason back."""
    port = HostPort("", "TCP", 80)
    there = PodShape(host_ports=(port,), anti_affinity=(term("zone", app="x"),))
    rules: dict[str, dict[str, Any]] = {
        "NodeName": {},
        "NodeAffinity": {"node_selector": (("disk", "fast"),)},
        "NodePorts": {"host_ports": (port,)},
        "NodeResourcesFit": {},
        "PodTopologySpread": {"spread": (SpreadConstraint("zone", 1, selector(app="x")),)},
        "InterPodAffinity": {
            "affinity": (term("zone", app="nobody"),),
            "anti_affinity": (term("zone", app="x"),),
        },
    }
    nodes = [
        node("n", labels={"zone": "a"}, cpu=2000),
        node("free", labels={"zone": "b", "disk": "fast"}),
    ]
    guards = [
        pod(f"g{i}", "n", labels={"app": "x"}, shape=there if i == 0 else None) for i in range(2)
    ]
    cluster = view(nodes, guards)
    for first in range(len(rules)):
        names = list(rules)[first:]
        shape = PodShape(**{k: v for name in names for k, v in rules[name].items()})
        asks = pod(
            "p",
            "free" if "NodeName" in names else "",
            shape=shape,
            labels={"app": "x"},
            wants=requests(cpu=1000 if "NodeResourcesFit" in names else 0),
        )
        why = cluster.why_not(asks, "n")
        assert why is not None
        assert why.split(":")[0] == names[0], why
