"""Named cases: small states whose best answer is known by hand.

The first five were measured on 1.37.0 while the project began; the others are
reports from the field, named after them. ``least`` is how many pods have to go.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from bench.inputs.mix import URGENT
from bench.inputs.state import Amounts, GroupState, NodeState, PodState, State, gang_of

LOW, MIDDLE = 100, 500


class NamedCase(Struct, frozen=True):
    """A state and its best answer."""

    state: State
    least: int | None
    """Fewest pods that have to go; None when the gang cannot run at all."""


def named_cases() -> list[NamedCase]:
    """All of them, smallest first."""
    return [
        NamedCase(made, least)
        for made, least in (
            (two_free(8, singles=6, gang=3), 1),
            (gang_beside_singles(), 2),
            (two_priorities(), 4),
            (two_free(40, singles=32, gang=10), 2),
            (spread_gangs(), 4),
            (surplus_first(), 1),
            (one_gang_of_ten(), 10),
            (idle_and_freed(), 1),
            (packed(11), 44),
            (packed(10), None),
            (fragmented(), 2),
        )
    ]


def two_free(nodes: int, singles: int, gang: int) -> State:
    """Free nodes for a part of the gang; a single low pod fills each other node."""
    three = Amounts(3000, 1024)
    pods = [PodState(f"low-{i}", three, LOW, f"n{i}") for i in range(singles)]
    return _state(f"{nodes}-nodes-{nodes - singles}-free", nodes, 4, pods, (), gang, three)


def gang_beside_singles() -> State:
    """A gang of four that goes whole on half the nodes, singles of its priority on the rest."""
    three = Amounts(3000, 1024)
    pods = [PodState(f"g-{i}", three, LOW, f"n{i}", "g") for i in range(4)]
    pods += [PodState(f"low-{i}", three, LOW, f"n{i + 4}") for i in range(4)]
    return _state("gang-beside-singles", 8, 4, pods, (GroupState("g", 4, LOW),), 2, three)


def two_priorities() -> State:
    """Priority 500 on half the nodes, priority 100 on the other half."""
    three = Amounts(3000, 1024)
    pods = [PodState(f"p-{i}", three, MIDDLE if i < 4 else LOW, f"n{i}") for i in range(8)]
    return _state("two-priorities", 8, 4, pods, (), 4, three)


def spread_gangs() -> State:
    """Eight gangs of four on 32 nodes, eight nodes free; the gang needs four more than these."""
    three = Amounts(3000, 1024)
    pods = [PodState(f"g{i % 8}-{i // 8}", three, LOW, f"n{i}", f"g{i % 8}") for i in range(32)]
    groups = [GroupState(f"g{i}", 4, LOW) for i in range(8)]
    return _state("eight-spread-gangs", 40, 4, pods, groups, 12, three)


def surplus_first() -> State:
    """volcano-sh/volcano#5984: a gang of eleven that needs one; one pod wants in."""
    one = Amounts(1000, 512)
    pods = [PodState(f"g-{i:02}", one, LOW, "n0", "g") for i in range(11)]
    groups = (GroupState("g", 1, LOW, whole=False),)
    return _state("volcano-5984-surplus", 1, 11, pods, groups, 1, one)


def one_gang_of_ten() -> State:
    """volcano-sh/volcano#4607: ten gangs, each with a pod on every node; ten pods want in."""
    one = Amounts(1000, 512)
    pods = [
        PodState(f"g{g}-{node}", one, LOW, f"n{node}", f"g{g}")
        for g in range(10)
        for node in range(10)
    ]
    groups = [GroupState(f"g{g}", 10, LOW) for g in range(10)]
    return _state("volcano-4607-ten-gangs", 10, 10, pods, groups, 10, one)


def idle_and_freed() -> State:
    """volcano-sh/volcano#3291: one node is free, the other one has to be freed."""
    three = Amounts(3000, 1024)
    pods = [PodState("low-0", three, LOW, "n0")]
    return _state("volcano-3291-idle-and-freed", 2, 4, pods, (), 2, three)


def packed(nodes: int) -> State:
    """NVIDIA/KAI-Scheduler#1591: four 1-GPU singles on every node; eleven members of 4 GPUs."""
    pods = [
        PodState(f"low-{node}-{i}", Amounts(1000, 512, 1), LOW, f"n{node}")
        for node in range(nodes)
        for i in range(4)
    ]
    name = "kai-1591-packed" if nodes >= 11 else "kai-1591-one-node-short"
    return _state(name, nodes, 8, pods, (), 11, Amounts(1000, 512, 4), gpus=4)


def fragmented() -> State:
    """kubernetes-sigs/kueue#5243: 1-GPU singles, 8, 6, 4 and 2 to a node; one pod of 8 GPUs."""
    pods = [
        PodState(f"low-{node}-{i}", Amounts(1000, 512, 1), LOW, f"n{node}")
        for node, count in enumerate((8, 6, 4, 2))
        for i in range(count)
    ]
    return _state("kueue-5243-fragmented", 4, 32, pods, (), 1, Amounts(1000, 512, 8), gpus=8)


def _state(
    name: str,
    nodes: int,
    cpu: int,
    pods: Iterable[PodState],
    groups: Iterable[GroupState],
    gang: int,
    wants: Amounts,
    gpus: int = 0,
) -> State:
    waiting, members = gang_of("urgent", gang, wants, URGENT)
    size = Amounts(cpu * 1000, 65536, gpus)
    return State(
        name=name,
        nodes=tuple(NodeState(f"n{i}", size) for i in range(nodes)),
        pods=tuple(pods),
        groups=tuple(groups),
        gang=waiting,
        members=members,
    )
