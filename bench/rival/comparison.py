"""One run's results: what was measured, and the questions asked of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bench.rival.anatomy import Anatomy
from bench.rival.bed import Rival
from bench.rival.outcome import ContenderOutcome, Optimum

WAP: Rival = "workload-aware"
FEWEST = "fewest-pods"
BY_PRIORITY = "gangs-by-priority"
"""The order that counts gangs and pods. The product's default counts ages, which the offline plan
and the control plane do not share."""
NOT_MEASURED = "not measured"
"""How the problem of an attempt begins that could not be made."""


class Drawn(Struct, frozen=True):
    """What a state of the trace mix was drawn by."""

    nodes: int
    gang_share: float
    placement: str
    fill: float


class Compared(Struct, frozen=True):
    """One state and what everybody made of it."""

    name: str
    about: str
    gang: int
    """Members of the urgent gang."""
    plans: dict[str, Optimum]
    """Cost order -> the offline plan's optimum; always has ``gangs-by-priority`` and
    ``fewest-pods``."""
    ours: dict[str, ContenderOutcome]
    """Cost order -> what the extender did with it."""
    rivals: dict[Rival, ContenderOutcome]
    drawn: Drawn | None = None
    """None for a named case."""
    anatomy: Anatomy | None = None
    """Of workload-aware preemption's victims, where its gang ran."""

    @property
    def possible(self) -> bool:
        """Whether there is a plan; no cost order decides that."""
        return self.plans[BY_PRIORITY].possible

    @property
    def measured(self) -> bool:
        """Whether every attempt was made."""
        attempts = (*self.ours.values(), *self.rivals.values())
        return not any(each.problem.startswith(NOT_MEASURED) for each in attempts)

    def both_ran(self, order: str, rival: Rival) -> bool:
        """Whether the gang ran with the extender in this order, and with the rival."""
        theirs = self.rivals.get(rival)
        return theirs is not None and theirs.ran and self.ours[order].ran

    def more_than(self, order: str, rival: Rival) -> bool:
        """Whether the extender evicted more pods than a rival that also got the gang to run."""
        return (
            self.both_ran(order, rival)
            and self.ours[order].damage.pods > self.rivals[rival].damage.pods
        )

    def dearer_than(self, order: str, rival: Rival) -> bool:
        """Whether what the extender evicted costs more, in its own order, than the rival's."""
        return self.both_ran(order, rival) and self.ours[order].damage.cost(order) > self.rivals[
            rival
        ].damage.cost(order)

    def as_planned(self, order: str) -> bool:
        """Whether the extender did on the control plane just what the offline plan costs."""
        ours, plan = self.ours[order], self.plans[order]
        return (
            ours.ran == plan.possible
            and ours.damage.cost(order) == plan.damage.cost(order)
            and ours.damage.half_broken == 0
        )


class Run(Struct, frozen=True):
    """Everything one command measured."""

    command: str
    machine: str
    versions: str
    input: str
    seconds: float
    orders: tuple[str, ...]
    compared: tuple[Compared, ...]


def broken_promises(compared: Iterable[Compared]) -> list[str]:
    """Return what the extender did that it must never do, one sentence each.

    Against workload-aware preemption: never dearer in the configured order, which for
    ``fewest-pods`` means never more pods. Being dearer than pod-by-pod preemption breaks
    no promise: that one leaves gangs half broken, which may take fewer pods.
    """
    found: list[str] = []
    for each in compared:
        for order, ours in each.ours.items():
            name = f"{each.name}, {order}"
            if each.possible and not ours.ran:
                found.append(f"{name}: a plan exists, but the gang does not run")
            if ours.for_nothing:
                found.append(f"{name}: {ours.damage.pods} pods went and the gang does not run")
            if ours.damage.half_broken:
                found.append(f"{name}: {ours.damage.half_broken} gangs are half broken")
            plan = each.plans[order].damage
            if ours.damage.cost(order) != plan.cost(order):
                found.append(
                    f"{name}: {ours.damage.cost(order)} evicted, {plan.cost(order)} suffice"
                )
            if each.dearer_than(order, WAP):
                theirs = each.rivals[WAP].damage
                found.append(
                    f"{name}: {ours.damage.cost(order)} evicted, "
                    f"{theirs.cost(order)} by workload-aware"
                )
            if order == FEWEST and each.more_than(order, WAP):
                found.append(
                    f"{name}: {ours.damage.pods} pods, "
                    f"{each.rivals[WAP].damage.pods} by workload-aware"
                )
    return found


def pods_in_both(compared: Sequence[Compared], order: str, rival: Rival) -> tuple[int, int, int]:
    """Return (cases, our pods, their pods) over the cases in which both got the gang to run."""
    both = [each for each in compared if each.both_ran(order, rival)]
    return (
        len(both),
        sum(each.ours[order].damage.pods for each in both),
        sum(each.rivals[rival].damage.pods for each in both),
    )


def machine() -> str:
    """Processor, cores, memory and Python, as a reader needs them to judge a time."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}; everything on this one machine"
    )
