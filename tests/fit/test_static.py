from __future__ import annotations

import pytest

from extender.fit import static
from extender.fit.static import static_allowed, static_mask
from extender.fit.taint_toleration import tolerates
from extender.model.objects import (
    Node,
    NodeSelectorTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from tests.fit.builders import node, pod, requests, selector, term

GPU = Taint("dedicated", "gpu", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True),
        (Toleration("dedicated", "", "gpu", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "gpu", ""), True),
        (Toleration("dedicated", "Equal", "cpu", "NoSchedule"), False),
        (Toleration("dedicated", "Exists", "", "NoSchedule"), True),
        (Toleration("dedicated", "Exists", "", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("dedicated", "Gt", "1", "NoSchedule"), False),
        (Toleration("dedicated", "Lt", "1", "NoSchedule"), False),
    ],
)
def test_tolerations(toleration: Toleration, *, expected: bool) -> None:
    assert tolerates(toleration, GPU) is expected


def test_numeric_toleration_stays_off_as_its_gate() -> None:
    assert not tolerates(Toleration("tier", "Gt", "1"), Taint("tier", "5"))


TERM_A = NodeSelectorTerm((Requirement("zone", "In", ("a",)),))
TERM_B = NodeSelectorTerm((Requirement("zone", "In", ("b",)),))


@pytest.mark.parametrize(
    ("shape", "made", "reason"),
    [
        (PodShape(), node("n"), None),
        (PodShape(), node("n", unschedulable=True), "NodeUnschedulable: the node is cordoned"),
        (
            PodShape(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),)),
            node("n", unschedulable=True),
            None,
        ),
        (
            PodShape(),
            node("n", taints=[GPU]),
            "TaintToleration: taint dedicated=gpu:NoSchedule is not tolerated",
        ),
        (PodShape(), node("n", taints=[Taint("soft", "", "PreferNoSchedule")]), None),
        (
            PodShape(tolerations=(Toleration("dedicated", "Exists"),)),
            node("n", taints=[GPU, Taint("broken", "", "NoExecute")]),
            "TaintToleration: taint broken:NoExecute is not tolerated",
        ),
        (
            PodShape(node_selector=(("zone", "a"),)),
            node("n", labels={"zone": "b"}),
            "NodeAffinity: the node selector wants zone=a, it is b",
        ),
        (
            PodShape(node_selector=(("zone", "a"),)),
            node("n"),
            "NodeAffinity: the node selector wants zone=a, the label is missing",
        ),
        (PodShape(node_terms=(TERM_B, TERM_A)), node("n", labels={"zone": "a"}), None),
        (
            PodShape(node_terms=(TERM_B, TERM_A)),
            node("n", labels={"zone": "c"}),
            "NodeAffinity: the required affinity wants zone=b or zone=a",
        ),
        (
            PodShape(node_terms=()),
            node("n"),
            "NodeAffinity: the required affinity wants nothing",
        ),
        (
            PodShape(node_terms=(NodeSelectorTerm(),)),
            node("n"),
            "NodeAffinity: the required affinity wants nothing",
        ),
        (
            PodShape(node_selector=(("disk", "ssd"),), node_terms=(TERM_A,)),
            node("n", labels={"zone": "a", "disk": "hdd"}),
            "NodeAffinity: the node selector wants disk=ssd, it is hdd",
        ),
        (
            PodShape(node_selector=(("disk", "ssd"),), node_terms=(TERM_A,)),
            node("n", labels={"zone": "b", "disk": "ssd"}),
            "NodeAffinity: the required affinity wants zone=a",
        ),
        (
            PodShape(affinity=(term("rack", app="db"),)),
            node("n"),
            "InterPodAffinity: the node has no label rack, which the required affinity "
            "to app=db needs",
        ),
        (PodShape(anti_affinity=(term("rack", app="db"),)), node("n"), None),
        (
            PodShape(spread=(SpreadConstraint("rack", 1, selector(app="db")),)),
            node("n"),
            "PodTopologySpread: the node has no label rack",
        ),
    ],
)
def test_static_rules(shape: PodShape, made: Node, reason: str | None) -> None:
    each = pod("p", shape=shape)
    assert static_allowed(each, made) == reason
    assert static_mask(each, [made]) == (b"\0" if reason else b"\1")


def test_request_beyond_the_whole_node() -> None:
    each = pod("p", wants=requests(cpu=6000, gpu=1))
    assert static_allowed(each, node("n", cpu=4000)) == (
        "NodeResourcesFit: 2 CPU short (wants 6, 4 free); 1 example.com/gpu short (wants 1, 0 free)"
    )
    assert static_allowed(each, node("n", cpu=6000, gpu=1)) is None


def test_node_without_pod_slots_takes_nobody() -> None:
    each = pod("p", wants=requests())
    assert static_allowed(each, node("n", pods=0)) == (
        "NodeResourcesFit: no free pod slot (0 of 0 taken)"
    )


def test_pod_that_names_its_node() -> None:
    each = pod("p", "n1")
    nodes = [node("n0"), node("n1")]
    assert static_allowed(each, nodes[0]) == "NodeName: the pod names node n1"
    assert static_mask(each, nodes) == b"\0\1"
    assert static_mask(pod("q"), nodes) == b"\1\1"


def test_mask_follows_a_changed_node() -> None:
    each = pod("p", shape=PodShape(node_selector=(("zone", "a"),)))
    before = [node("n", labels={"zone": "a"}), node("m", labels={"zone": "a"})]
    assert static_mask(each, before) == b"\1\1"
    after = [node("n", labels={"zone": "b"}), before[1]]
    assert static_mask(each, after) == b"\0\1"
    assert static_mask(each, [after[0], node("m", labels={"zone": "a"}, taints=[GPU])]) == b"\0\0"


def test_masks_of_nodes_that_come_and_go_stay_right() -> None:
    """Records are freed and their ids used again: an answer must not outlive its node."""
    each = pod("p", shape=PodShape(node_selector=(("zone", "a"),)))
    for i in range(2000):
        zone = "a" if i % 3 else "b"
        assert static_mask(each, [node(f"n{i}", labels={"zone": zone})]) == bytes([zone == "a"])


def test_field_terms_tell_equal_nodes_apart() -> None:
    fields = (Requirement("metadata.name", "In", ("n1",)),)
    each = pod("p", shape=PodShape(node_terms=(NodeSelectorTerm(fields=fields),)))
    assert static_mask(each, [node("n0"), node("n1"), node("n2")]) == b"\0\1\0"


def test_full_memory_is_emptied_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_MAX_SIGNATURES", 3)
    each = pod("p", shape=PodShape(node_selector=(("disk", "ssd"),)))
    made = [node(f"n{i}", labels={"disk": ("ssd", "hdd", f"d{i}")[i % 3]}) for i in range(12)]
    for _ in range(2):
        assert static_mask(each, made) == b"\1\0\0" * 4


def test_many_classes_do_not_mix() -> None:
    made = [node(f"n{i}", labels={"zone": str(i)}) for i in range(5)]
    for _ in range(2):
        for i in range(100):
            each = pod("p", shape=PodShape(node_selector=(("zone", str(i % 7)),)))
            assert static_mask(each, made) == bytes(j == i % 7 for j in range(5))
