"""Short ways to write a problem by hand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from extender.search import solver
from extender.search.problem import Limits, MemberClass, Problem, Unit, Vector

COMPILED = solver.BACKEND == "compiled"
WORK = Limits(branch_nodes=20_000 if COMPILED else 20)
"""Enough for the compiled core to prove most of ``medium``; the plain search is slower."""

LEVELS = ("pdb", "gangs@5", "pods@5", "gangs@1", "pods@1")


def cost(priority: int, pods: int, gangs: int = 0) -> Vector:
    """Levels as LEVELS: gangs broken and pods evicted at priority 5 or 1."""
    return (0, gangs, pods, 0, 0) if priority == 5 else (0, 0, 0, gangs, pods)


def single(uid: str, node: int, cpu: int, priority: int = 1) -> Unit:
    return Unit(uid, ((node, (cpu,)),), cost(priority, 1))


def gang(uid: str, nodes: Sequence[int], cpu: int, priority: int = 1) -> Unit:
    return Unit(
        uid, tuple((n, (cpu,)) for n in nodes), cost(priority, len(nodes), 1), pods=len(nodes)
    )


def cluster(
    free: Sequence[int], units: Sequence[Unit], *, need: int, cpu: int, count: int = 0
) -> Problem:
    """One class, one resource; ``need`` members of ``cpu`` each."""
    return Problem(
        resources=("cpu",),
        nodes=tuple(f"n{i}" for i in range(len(free))),
        free=(array("q", free),),
        classes=(MemberClass("worker", (cpu,), count or need, bytes([1]) * len(free)),),
        need=need,
        units=tuple(units),
        levels=LEVELS,
    )
