from __future__ import annotations

from extender.cache.node_columns import ColumnStore

MAX = 2**63 - 1


def test_sums_beyond_int64_are_held_at_its_end_and_come_back_exactly() -> None:
    columns = ColumnStore()
    columns.set_node("n", None, (("cpu", 10),))
    for _ in range(3):
        columns.add("n", (("cpu", MAX), ("pods", 1)), 1)
    assert columns.free("n") == {"cpu": 10 - MAX, "pods": -3}
    columns.add("n", (("cpu", 5),), 1)
    for _ in range(3):
        columns.add("n", (("cpu", MAX), ("pods", 1)), -1)
    assert columns.free("n") == {"cpu": 5}


def test_a_slot_is_clean_when_it_is_used_again() -> None:
    columns = ColumnStore()
    columns.set_node("old", None, (("cpu", 10), ("gpu", 2)))
    columns.add("old", (("cpu", 3),), 1)
    columns.set_node("old", (("cpu", 10), ("gpu", 2)), None)
    assert columns.free("old") == {"cpu": -3}, "its pods outlive a node for a while"
    columns.add("old", (("cpu", 3),), -1)
    assert columns.free("old") is None
    columns.set_node("new", None, (("cpu", 1),))
    assert columns.free("new") == {"cpu": 1}
    assert columns.short("new", (("gpu", 1),)) == "gpu"


def test_a_changed_node_keeps_what_is_used_there() -> None:
    columns = ColumnStore()
    columns.set_node("n", None, (("cpu", 10), ("gpu", 1)))
    columns.add("n", (("cpu", 3),), 1)
    columns.set_node("n", (("cpu", 10), ("gpu", 1)), (("cpu", 8),))
    assert columns.free("n") == {"cpu": 5}
