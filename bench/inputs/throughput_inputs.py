"""What bench.rival.throughput schedules: plain pods, and gangs beside seats held meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bench.inputs.state import (
    GPU,
    Amounts,
    GroupState,
    NodeState,
    PodState,
    State,
    class_name,
    gang_of,
)
from tests.controlplane.objects import Object, make_pod

PRIORITY, LOW, HIGH = 100, 50, 200
"""Of what is measured; of the pods that do not go; of the gang that waits for their room."""
GANG = 8
"""Members of each gang that is measured."""
HELD_SHARE = 20
"""Of so many nodes one has a seat that is held."""
GPUS = 16
"""Of a node with a seat: all are the low pod's, then the seat's. No other pod wants any."""
GRACE = 3600
STAYS = "example.com/stays"


class Input(Struct, frozen=True):
    """Nodes and pods that all fit, and what holds seats meanwhile."""

    state: State
    """Its pods are what is measured, its gang what waits."""
    staying: tuple[PodState, ...]
    """Bound pods that are evicted for the gang and do not go."""

    @property
    def measured(self) -> frozenset[str]:
        """Names of the pods that are measured."""
        return frozenset(pod.name for pod in self.state.pods)

    def staying_documents(self) -> Iterator[Object]:
        """The staying pods, as Kubernetes objects."""
        for pod in self.staying:
            document = make_pod(
                pod.name,
                f"{pod.wants.cpu}m",
                f"{pod.wants.memory}Mi",
                resources={GPU: pod.wants.gpu},
                priority_class=class_name(pod.priority),
                node=pod.node,
                grace=GRACE,
            )
            document["metadata"]["finalizers"] = [STAYS]
            yield document


def waiting(nodes: int, pods: int, share: float = 0.0) -> Input:
    """Empty nodes and waiting pods; ``share`` (0 to 1) of the pods are in gangs.

    With gangs there are further nodes, one for HELD_SHARE, each with a pod that a more urgent gang
    evicts and that does not go: so a seat is held there, beside which there is room for others.
    """
    held = max(2, nodes // HELD_SHARE) if share else 0
    count = int(pods * share / GANG)
    groups = tuple(GroupState(f"gang-{i:04}", GANG, PRIORITY) for i in range(count))
    step = pods // count if count else 1
    # The first pods of every so many are a gang: gangs come all the time, not at the end.
    of_gangs = {i * step + k: groups[i].name for i in range(count) for k in range(GANG)}
    size = Amounts(96_000, 393_216, 8)
    gang, members = gang_of("holder", held, Amounts(1000, 1024, GPUS), HIGH)
    full = Amounts(size.cpu, size.memory, GPUS)
    state = State(
        name="gangs" if share else "plain",
        nodes=(
            *(NodeState(f"n{i:05}", size) for i in range(nodes)),
            *(NodeState(f"held-{i:04}", full) for i in range(held)),
        ),
        pods=tuple(
            PodState(f"pod-{i:05}", Amounts(500, 512), PRIORITY, group=of_gangs.get(i, ""))
            for i in range(pods)
        ),
        groups=groups,
        gang=gang,
        members=members,
    )
    staying = tuple(
        PodState(f"stays-{i:04}", Amounts(1000, 1024, GPUS), LOW, node=f"held-{i:04}")
        for i in range(held)
    )
    return Input(state, staying)
