"""The trace mix: a cluster drawn from public traces, and an urgent gang that wants in.

    python -m bench.inputs.mix --nodes 1000 --fill 0.9 --gang 8 --seed 1

Drawn from the traces (bench/inputs/data/README.md)
- Node shapes and background pods: openb-2023. Running training jobs: itp-2021, one
  pod for each 8 GPUs, on 8-GPU nodes; a job of several pods is a gang that goes
  whole. A running job is drawn by count times mean duration (a snapshot in time
  meets long jobs more often), its age evenly from what it lives for.
- Size of the urgent gang, unless given: itp-2021's jobs of more than 8 GPUs.

Assumed, because no trace says it
- Priorities: levels 100, 200, ...; each level half as frequent as the one below
  it (``level_weights``). The urgent gang is at 1000, and a share of the
  background pods (``equal_share``) too, so these are not to be evicted.
- CPU and memory of a job's members: one of openb's own 8-GPU pod shapes a job.
- Where pods sit: jobs on nodes drawn evenly from the empty ones. Background pods
  ``spread`` (the roomier of two nodes drawn from those that fit) or ``pack`` (the
  fullest node that fits, as GPU clusters are often run).
- ``fillers``: further small pods a node (agents, sidecars); synthetic.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from bench.inputs.data import derive
from bench.inputs.state import Amounts, GroupState, NodeState, PodState, State, gang_of, gpus

URGENT = 1000
LEVEL = 100
GPUS_PER_MEMBER = 8
FILLER = Amounts(50, 64)
GIVE_UP = 200
"""So many background pods in a row that fit nowhere: the cluster is as full as it gets."""


class Distributions(Struct, frozen=True):
    """What the traces say, as counts."""

    nodes: tuple[tuple[Amounts, str, int], ...]
    """Shape, GPU model, count."""
    pods: tuple[tuple[Amounts, int], ...]
    """Shape, count."""
    jobs: tuple[tuple[int, int, tuple[int, ...]], ...]
    """GPUs, count, quantiles of the duration in seconds."""

    @classmethod
    def load(cls, traces: Path | None = None) -> Distributions:
        """From the counts kept here, or counted anew in a folder of full traces."""
        if traces is None:
            openb, itp = (_read(name) for name in ("openb-2023", "itp-2021"))
        else:
            openb, itp = derive.openb(traces / "openb-2023"), derive.itp(traces / "itp-2021")
        return cls(
            nodes=tuple(
                (Amounts(cpu, memory, gpu), model, count)
                for cpu, memory, gpu, model, count in openb["nodes"]
            ),
            pods=tuple(
                (Amounts(cpu, memory, gpu), count) for cpu, memory, gpu, count in openb["pods"]
            ),
            jobs=tuple((gpu, count, tuple(ran)) for gpu, count, ran in itp["jobs"]),
        )


class MixSettings(Struct, frozen=True, kw_only=True):
    """What to draw. Raises ValueError for a value outside its range."""

    nodes: int = 40
    fill: float = 0.8
    """Share of all GPUs that are in use."""
    gang_share: float = 0.5
    """Share of the GPUs in use that jobs from itp-2021 hold; the rest is background."""
    levels: int = 4
    """Priority levels of the victims."""
    level_weights: tuple[float, ...] = ()
    """Weight of each level from the lowest; empty: 1, 1/2, 1/4, ..."""
    equal_share: float = 0.05
    """Share of the background pods that are as urgent as the gang."""
    gang: int = 0
    """Members of the urgent gang; 0: drawn from itp-2021's jobs of several pods."""
    placement: Literal["spread", "pack"] = "spread"
    fillers: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        rules = (
            (self.nodes >= 1, "nodes must be at least 1"),
            (0 <= self.fill <= 1, "fill must be 0..1"),
            (0 <= self.gang_share <= 1, "gang_share must be 0..1"),
            (0 <= self.equal_share <= 1, "equal_share must be 0..1"),
            (1 <= self.levels < URGENT // LEVEL, f"levels must be 1..{URGENT // LEVEL - 1}"),
            (
                len(self.level_weights) in (0, self.levels),
                f"level_weights must have {self.levels} entries, one a level",
            ),
            (self.gang >= 0 and self.fillers >= 0, "gang and fillers must not be negative"),
        )
        wrong = [text for fine, text in rules if not fine]
        if wrong:
            raise ValueError("; ".join(wrong))


def mix(settings: MixSettings, traces: Distributions | None = None) -> State:
    """Return the drawn state: equal settings and counts give an equal state."""
    return _Draw(settings, traces or Distributions.load()).state()


class _Draw:
    """One draw: the nodes' room shrinks as pods are placed."""

    def __init__(self, settings: MixSettings, traces: Distributions) -> None:
        self.settings = settings
        self.traces = traces
        self.rng = random.Random(repr(settings))
        self.nodes: list[NodeState] = []
        self.room: dict[str, Amounts] = {}
        self.pods: list[PodState] = []
        self.groups: list[GroupState] = []
        self.weights = settings.level_weights or tuple(0.5**i for i in range(settings.levels))

    def state(self) -> State:
        s = self.settings
        self._draw_nodes()
        total = sum(node.size.gpu for node in self.nodes)
        self._place_jobs(s.fill * s.gang_share * total)
        self._place_background(s.fill * total)
        for node in self.nodes:
            for i in range(s.fillers):
                self._put(f"filler-{node.name}-{i}", FILLER, node.name, LEVEL)
        size = s.gang or self.rng.choices(*zip(*self._gang_sizes(), strict=True))[0]
        gang, members = gang_of("urgent", size, self._member_shape(), URGENT)
        used = gpus(self.pods)
        return State(
            name=f"mix-{s.nodes}-{s.placement}-{s.fill:g}-g{size}-s{s.seed}",
            nodes=tuple(self.nodes),
            pods=tuple(self.pods),
            groups=tuple(self.groups),
            gang=gang,
            members=members,
            about=f"{used} of {total} GPUs in use, {len(self.pods)} pods, "
            f"{len(self.groups)} gangs; gang of {size} x 8 GPUs",
        )

    def _draw_nodes(self) -> None:
        shapes = self.traces.nodes
        drawn = self.rng.choices(shapes, [count for _, _, count in shapes], k=self.settings.nodes)
        pods = max(110, self.settings.fillers + 60)
        for i, (size, model, _) in enumerate(drawn):
            node = NodeState(f"node-{i:05}", size, pods, model)
            self.nodes.append(node)
            self.room[node.name] = size

    def _gang_sizes(self) -> list[tuple[int, int]]:
        """Members and number of itp-2021's jobs of several full nodes."""
        return [
            (gpu // GPUS_PER_MEMBER, count)
            for gpu, count, _ in self.traces.jobs
            if gpu > GPUS_PER_MEMBER
        ]

    def _member_shape(self) -> Amounts:
        """One of openb's 8-GPU pod shapes, of those that the most common 8-GPU node takes."""
        node = next(size for size, _, _ in self.traces.nodes if size.gpu == GPUS_PER_MEMBER)
        shapes = [
            (shape, count)
            for shape, count in self.traces.pods
            if shape.gpu == GPUS_PER_MEMBER and shape.fits(node)
        ]
        return self.rng.choices([s for s, _ in shapes], [n for _, n in shapes])[0]

    def _place_jobs(self, wanted: float) -> None:
        jobs = [job for job in self.traces.jobs if job[0] >= GPUS_PER_MEMBER]
        weights = [count * sum(ran) for _, count, ran in jobs]
        names = [node.name for node in self.nodes if node.size.gpu >= GPUS_PER_MEMBER]
        self.rng.shuffle(names)
        held = made = 0
        while held < wanted:
            gpu, _, ran = self.rng.choices(jobs, weights)[0]
            shape = self._member_shape()
            fitting = [name for name in names if shape.fits(self.room[name])]
            size = min(gpu // GPUS_PER_MEMBER, len(fitting))
            if size == 0:
                return
            # A longer life is met more often in just the same proportion.
            age = int(self.rng.random() * self.rng.choices(ran, ran)[0])
            priority = self._priority()
            name = f"job-{made:04}"
            made += 1
            if size > 1:
                self.groups.append(GroupState(name, size, priority))
            for i, node in enumerate(fitting[:size]):
                group = name if size > 1 else ""
                self._put(f"{name}-{i}", shape, node, priority, group, age)
                names.remove(node)
            held += size * GPUS_PER_MEMBER

    def _place_background(self, wanted: float) -> None:
        shapes = [shape for shape, _ in self.traces.pods]
        weights = [count for _, count in self.traces.pods]
        lives = next(ran for gpu, _, ran in self.traces.jobs if gpu == 1)
        held, made, failed = gpus(self.pods), 0, 0
        while held < wanted and failed < GIVE_UP:
            shape = self.rng.choices(shapes, weights)[0]
            node = self._node_for(shape)
            if node is None:
                failed += 1
                continue
            failed = 0
            equal = self.rng.random() < self.settings.equal_share
            priority = URGENT if equal else self._priority()
            age = int(self.rng.random() * self.rng.choices(lives, lives)[0])
            self._put(f"pod-{made:05}", shape, node, priority, "", age)
            held += shape.gpu
            made += 1

    def _node_for(self, shape: Amounts) -> str | None:
        """A node with room, by the settings' way to place; GPU nodes are for GPU pods first."""
        fitting = [node for node in self.nodes if shape.fits(self.room[node.name])]
        if shape.gpu == 0:
            fitting = [node for node in fitting if node.size.gpu == 0] or fitting
        if not fitting:
            return None
        if self.settings.placement == "pack":
            return min(fitting, key=lambda node: (self._free(node, shape), node.name)).name
        two = self.rng.choices(fitting, k=2)
        return max(two, key=lambda node: self._free(node, shape)).name

    def _free(self, node: NodeState, shape: Amounts) -> float:
        """Free share of the scarcer kind of resource the pod asks for."""
        room = self.room[node.name]
        return room.gpu / node.size.gpu if shape.gpu else room.cpu / node.size.cpu

    def _priority(self) -> int:
        return LEVEL * (1 + self.rng.choices(range(len(self.weights)), self.weights)[0])

    def _put(
        self, name: str, wants: Amounts, node: str, priority: int, group: str = "", age: int = 0
    ) -> None:
        self.pods.append(PodState(name, wants, priority, node, group, age))
        self.room[node] = self.room[node].minus(wants)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((derive.HERE / f"{name}.json").read_text())
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a mix."""
    parser.add_argument("--fill", type=float, default=0.8)
    parser.add_argument("--gang-share", type=float, default=0.5)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--gang", type=int, default=0, help="0: drawn from the trace")
    parser.add_argument("--placement", choices=("spread", "pack"), default="spread")
    parser.add_argument("--fillers", type=int, default=0)
    parser.add_argument("--traces", type=Path, help="count in these full traces instead")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw one state and print what it is made of, as JSON."""
    parser = argparse.ArgumentParser(description="Draw one cluster state from the traces.")
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    add_options(parser)
    options = vars(parser.parse_args(arguments))
    folder = options.pop("traces")
    try:
        state = mix(MixSettings(**options), Distributions.load(folder))
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    print(json.dumps(_summary(state), indent=2))
    return 0


def _summary(state: State) -> dict[str, Any]:
    sizes: Iterable[int] = (group.min_count for group in state.groups)
    return {
        "name": state.name,
        "about": state.about,
        "node GPUs": dict(sorted(Counter(node.size.gpu for node in state.nodes).items())),
        "pod GPUs": dict(sorted(Counter(pod.wants.gpu for pod in state.pods).items())),
        "priorities": dict(sorted(Counter(pod.priority for pod in state.pods).items())),
        "gang sizes": dict(sorted(Counter(sizes).items())),
    }


if __name__ == "__main__":
    sys.exit(main())
