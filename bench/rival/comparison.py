"""One run's results: what was measured, and the questions asked of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bench.rival.bed import Contender
from bench.rival.outcome import Optimum, Outcome


class Compared(Struct, frozen=True):
    """One state and what everybody made of it."""

    name: str
    kind: str
    """"named", or for the trace mix its number of nodes."""
    about: str
    gang: int
    """Members of the urgent gang."""
    optimum: Optimum
    outcomes: dict[Contender, Outcome]

    def more_than(self, rival: Contender) -> bool:
        """Whether the extender evicted more pods than a rival that also got the gang to run."""
        ours, theirs = self.outcomes["extender"], self.outcomes.get(rival)
        return (
            theirs is not None and ours.ran and theirs.ran and ours.damage.pods > theirs.damage.pods
        )

    @property
    def as_planned(self) -> bool:
        """Whether the extender did on the control plane just what the offline plan costs."""
        ours = self.outcomes["extender"]
        return (
            ours.ran == self.optimum.possible
            and ours.damage.vector == self.optimum.damage.vector
            and ours.damage.half_broken == 0
        )


class Run(Struct, frozen=True):
    """Everything one command measured."""

    command: str
    machine: str
    versions: str
    input: str
    seconds: float
    compared: tuple[Compared, ...]


def broken_promises(compared: Iterable[Compared]) -> list[str]:
    """Return what the extender did that it must never do, one sentence each.

    More pods than pod-by-pod preemption is no such thing: that one leaves gangs half
    broken, which may take fewer pods.
    """
    found: list[str] = []
    for each in compared:
        ours = each.outcomes["extender"]
        if each.optimum.possible and not ours.ran:
            found.append(f"{each.name}: a plan exists, but the gang does not run")
        if ours.for_nothing:
            found.append(f"{each.name}: {ours.damage.pods} pods went and the gang does not run")
        if ours.damage.half_broken:
            found.append(f"{each.name}: {ours.damage.half_broken} gangs are half broken")
        if ours.damage.vector != each.optimum.damage.vector:
            found.append(
                f"{each.name}: (priority, gangs, pods) {ours.damage.vector} evicted, "
                f"{each.optimum.damage.vector} suffice"
            )
        if each.more_than("workload-aware"):
            theirs = each.outcomes["workload-aware"].damage.pods
            found.append(f"{each.name}: {ours.damage.pods} pods, {theirs} by workload-aware")
    return found


def pods_in_both(compared: Sequence[Compared], rival: Contender) -> tuple[int, int, int]:
    """Return (cases, our pods, their pods) over the cases in which both got the gang to run."""
    both = [
        each
        for each in compared
        if rival in each.outcomes and each.outcomes["extender"].ran and each.outcomes[rival].ran
    ]
    return (
        len(both),
        sum(each.outcomes["extender"].damage.pods for each in both),
        sum(each.outcomes[rival].damage.pods for each in both),
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
