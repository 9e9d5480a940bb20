"""What is free on each node, whatever is asked for there.

See docs/security.md, row 3.
"""

from __future__ import annotations

import tracemalloc

from extender.cache.node_amounts import NodeAmounts

MAX = 2**63 - 1


def test_sums_beyond_int64_are_exact() -> None:
    amounts = NodeAmounts()
    amounts.set_node("n", None, (("cpu", 10),))
    for _ in range(3):
        amounts.add("n", (("cpu", MAX), ("pods", 1)), 1)
    assert amounts.free("n") == {"cpu": 10 - 3 * MAX, "pods": -3}
    amounts.add("n", (("cpu", 5),), 1)
    for _ in range(3):
        amounts.add("n", (("cpu", MAX), ("pods", 1)), -1)
    assert amounts.free("n") == {"cpu": 5}


def test_nothing_is_left_of_a_node_once_its_pods_are_gone() -> None:
    amounts = NodeAmounts()
    amounts.set_node("old", None, (("cpu", 10), ("gpu", 2)))
    amounts.add("old", (("cpu", 3),), 1)
    amounts.set_node("old", (("cpu", 10), ("gpu", 2)), None)
    assert amounts.free("old") == {"cpu": -3}, "its pods outlive a node for a while"
    amounts.add("old", (("cpu", 3),), -1)
    assert amounts.free("old") is None
    amounts.set_node("new", None, (("cpu", 1),))
    assert amounts.free("new") == {"cpu": 1}
    assert amounts.short("new", (("gpu", 1),)) == "gpu"


def test_a_changed_node_keeps_what_is_used_there() -> None:
    amounts = NodeAmounts()
    amounts.set_node("n", None, (("cpu", 10), ("gpu", 1)))
    amounts.add("n", (("cpu", 3),), 1)
    amounts.set_node("n", (("cpu", 10), ("gpu", 1)), (("cpu", 8),))
    assert amounts.free("n") == {"cpu": 5}


def test_a_name_that_a_pod_makes_up_costs_that_pod_alone() -> None:
    """A column of all nodes for each name, kept for good: 5,000 nodes, 50 pods of 120 names,
    half a gigabyte."""
    amounts = NodeAmounts()
    for i in range(1000):
        amounts.set_node(f"n{i}", None, (("cpu", 10),))
    pods = [tuple((f"example.com/r{i}-{j}", 1) for j in range(120)) for i in range(20)]
    tracemalloc.start()
    try:
        for i, requests in enumerate(pods):
            amounts.add(f"n{i}", requests, 1)
        held = tracemalloc.get_traced_memory()[0]
        for i, requests in enumerate(pods):
            amounts.add(f"n{i}", requests, -1)
        left = amounts.free("n0")
    finally:
        tracemalloc.stop()
    assert held < 400 * sum(map(len, pods))
    assert left == {"cpu": 10}
