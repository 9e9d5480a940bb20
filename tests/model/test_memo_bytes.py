"""What is remembered of tenants' objects is bounded by bytes, not by their number alone.

See docs/security.md, row 3: the pods are gone, and what was remembered of them stays.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from msgspec.structs import replace

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
from extender.model.objects import PodShape
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.fit.builders import node, pod
from tests.gang import world

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
