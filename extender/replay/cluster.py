"""The cluster that a replay fills: which members hold which GPUs. Plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from extender.replay.trace import Job


class Work(Struct, eq=False):
    """One job and how far it has come."""

    job: Job
    number: int
    """Its place among all jobs, by submission."""
    left: float
    """Seconds of its run that are not done and saved."""
    queued_at: float
    """Since when it waits, or waited last."""
    nodes: list[int]
    """By member: the index of its node, -1 while it waits."""
    running_since: float | None = None
    """Since when it makes progress: all members run, and a restart is over. It may lie ahead."""
    held_since: float = 0.0
    """Since when the members that have a node hold it without progress."""
    ready_at: float = 0.0
    """When the room of the last member that got a node is free."""
    started: float | None = None
    """When it made progress for the first time."""
    ended: float | None = None
    runs: int = 0
    """How often all of its members had a node. An end that was set for an earlier run is void."""

    @property
    def whole(self) -> bool:
        """Whether every member has a node."""
        return -1 not in self.nodes

    @property
    def waiting(self) -> list[int]:
        """The members without a node."""
        return [at for at, node in enumerate(self.nodes) if node < 0]

    @property
    def held(self) -> int:
        """GPUs of the members that have a node."""
        return self.job.gpus * (len(self.nodes) - self.nodes.count(-1))

    def saved(self, now: float, checkpoint: float) -> float:
        """Seconds of progress that a checkpoint keeps; ``checkpoint``: seconds between two of
        them, 0 for none."""
        if self.running_since is None or not checkpoint:
            return 0.0
        ran = max(0.0, now - self.running_since)
        return min(self.left, ran // checkpoint * checkpoint)


class Member(Struct, frozen=True, gc=False):
    """One pod on a node."""

    work: Work
    at: int


class Cluster:
    """Nodes of equally many GPUs. Changed by its methods alone."""

    def __init__(self, nodes: int, gpus: int) -> None:
        self.gpus = gpus
        self.free = [gpus] * nodes
        self.on: list[list[Member]] = [[] for _ in range(nodes)]
        self.leaving = [0] * nodes
        """GPUs that members which are ending hold, and nobody has been promised."""

    def put(self, work: Work, at: int, node: int) -> None:
        """Give a member a node. Raises ValueError where there is no room."""
        if work.nodes[at] >= 0 or self.free[node] < work.job.gpus:
            raise ValueError(f"member {at} of {work.job.name} does not fit on node {node}")
        work.nodes[at] = node
        self.free[node] -= work.job.gpus
        self.on[node].append(Member(work, at))

    def take(self, work: Work, at: int) -> int:
        """Take a member off its node, and return the node. Its room is free at once."""
        node, work.nodes[at] = work.nodes[at], -1
        self.on[node] = [each for each in self.on[node] if (each.work, each.at) != (work, at)]
        self.free[node] += work.job.gpus
        return node

    def hold(self, node: int, gpus: int) -> None:
        """Keep GPUs from everybody while the members that had them end."""
        self.free[node] -= gpus
        self.leaving[node] += gpus

    def let_go(self, node: int, gpus: int) -> None:
        """They have ended."""
        self.free[node] += gpus
        self.leaving[node] -= gpus

    def victims(self, priority: int) -> Iterator[Member]:
        """Yield the members that a preemptor of this priority may evict."""
        for members in self.on:
            for member in members:
                if member.work.job.priority < priority:
                    yield member

    def could_fit(self, gpus: int, members: int, priority: int) -> bool:
        """Whether so many members would fit if all victims were gone: False is certain."""
        found = 0
        for free, on in zip(self.free, self.on, strict=True):
            room = free + sum(
                each.work.job.gpus for each in on if each.work.job.priority < priority
            )
            found += room // gpus
            if found >= members:
                return True
        return False


class Placement(Struct, frozen=True):
    """What a scheduler decides for one job at one moment."""

    seats: Sequence[tuple[int, int]]
    """Member and node."""
    victims: Sequence[Member] = ()
    bounded: bool = False
    """Of a planner: the victims are not proved to be the least."""
