"""Who must leave before a pod may come: for host ports on its node, for anti-affinity around it."""

from __future__ import annotations

import pytest

from extender.fit.blockers import blocked_nodes
from extender.fit.node_affinity import why_not
from extender.fit.node_ports import slot
from extender.model.objects import HostPort, NodeSelectorTerm, PodShape, Requirement
from tests.fit.builders import node, pod, term, view

NODES = [
    node("a1", labels={"zone": "a"}),
    node("a2", labels={"zone": "a"}),
    node("b1", labels={"zone": "b"}),
    node("none"),
]
HTTP = HostPort("", "TCP", 80)


def test_holders_of_a_port_and_whom_anti_affinity_names_add_up() -> None:
    asks = pod("p", shape=PodShape(host_ports=(HTTP,), anti_affinity=(term("zone", app="x"),)))
    there = view(
        NODES,
        [
            pod("x", "a1", labels={"app": "x"}),
            pod("y", "none", labels={"app": "x"}),
            *(
                pod(f"port-{on}", on, shape=PodShape(host_ports=(HTTP,)))
                for on in ("a2", "b1", "none")
            ),
            pod("other", "a1", shape=PodShape(host_ports=(HostPort("", "TCP", 81),))),
        ],
    )
    found = {
        "a1": ("uid-ns-x",),
        "a2": ("uid-ns-port-a2", "uid-ns-x"),
        "b1": ("uid-ns-port-b1",),
        "none": ("uid-ns-port-none",),
    }
    assert blocked_nodes(asks, there) == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (HostPort("", "", 80), ("TCP", 80, "0.0.0.0")),
        (HostPort("0.0.0.0", "UDP", 80), ("UDP", 80, "0.0.0.0")),
        (HostPort("10.0.0.1", "TCP", 81), ("TCP", 81, "10.0.0.1")),
    ],
)
def test_defaults_of_a_host_port(wanted: HostPort, found: tuple[str, int, str]) -> None:
    assert slot(wanted) == found


def test_three_of_many_terms_and_requirements_are_told() -> None:
    def wants(count: int, each: int = 1) -> str:
        terms = tuple(
            NodeSelectorTerm(
                labels=tuple(Requirement(f"k{i}-{j}", "Exists", ()) for j in range(each))
            )
            for i in range(count)
        )
        return why_not(PodShape(node_terms=terms), node("n")) or ""

    assert wants(3).count("k") == wants(5).count("k") == 3
    assert wants(1, each=3).count("k") == wants(1, each=5).count("k") == 3
    assert "more" in wants(5)
    assert "more" in wants(1, each=5)
    assert "more" not in wants(3) + wants(1, each=3)
