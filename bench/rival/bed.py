"""The control plane of a comparison: build a state, let one contender have it, clean up.

Every attempt starts from objects made anew, so that no contender profits from what
another one left, and pods' ages are alike for all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

from msgspec import Struct

from bench.inputs.state import State
from bench.rival.outcome import ContenderOutcome, damage
from bench.rival.serving import serving
from tests.controlplane.cleaning import Baseline
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.harness import ControlPlane
from tests.controlplane.objects import Object
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config
from tests.controlplane.watching import Watch

Rival = Literal["workload-aware", "pod-by-pod"]
RIVALS: tuple[Rival, ...] = ("workload-aware", "pod-by-pod")
"""kube-scheduler's own group preemption; its preemption without groups."""


EVERY_NODE = {"percentageOfNodesToScore": 100}
"""Plans are compared, not speed: both sides see all nodes."""


class Ours(Struct, frozen=True):
    """The extender with one of its cost orders."""

    order: str = "gangs-by-priority"


Contender = Ours | Rival

NAMESPACE = "bench"
WRITERS = 8
STATE_SECONDS = 300.0


class Bed:
    """A running control plane, cleaned after every attempt."""

    def __init__(self, control_plane: ControlPlane, priorities: Iterable[int]) -> None:
        """Make namespace, rights and priority classes, which stay for all attempts."""
        self.control_plane = control_plane
        self.client: Client = control_plane.client(NAMESPACE)
        cluster = Cluster(control_plane, self.client, NAMESPACE)
        cluster.make_namespace()
        cluster.priority_classes(**{f"level-{value}": value for value in sorted(set(priorities))})
        grant_manifest(self.client, barrier=True)
        self._baseline = Baseline(control_plane.client())
        self._pool = ThreadPoolExecutor(WRITERS)

    def close(self) -> None:
        """Give threads and connections back."""
        self._pool.shutdown()
        self.client.close()

    def attempt(
        self, state: State, contender: Contender, *, quiet: float = 12.0, timeout: float = 120.0
    ) -> ContenderOutcome:
        """Build the state, let the contender's scheduler loose, create the gang, count.

        It is over when all members run, or when no pod has changed for ``quiet``
        seconds (kube-scheduler backs off for ten at most), or after ``timeout``.
        """
        self.control_plane.stop_scheduler()
        with contextlib.ExitStack() as stack:
            stack.callback(self._clean)
            self._build(state)
            stack.enter_context(self._scheduler(contender))
            watch = Watch(self.client)
            stack.callback(watch.stop)
            began = time.monotonic()
            group, *members = state.gang_documents(self.control_plane.release)
            self.client.create(group)
            self.create(members)
            return self._judge(state, watch, began, quiet, timeout)

    def create(self, documents: Iterable[Object]) -> None:
        """Create objects of which the order does not matter, several at a time."""
        for _ in self._pool.map(self.client.create, documents):
            pass

    def remove_pods(self) -> None:
        """Delete all pods at once, one by one: a whole collection can take more than a call may."""
        names = [pod["metadata"]["name"] for pod in self.client.list("Pod")]
        delete = partial(self.client.delete, "Pod", grace=0, missing_ok=True)
        for _ in self._pool.map(delete, names):
            pass

    def wait_nodes(self) -> None:
        """Wait until every node is Ready."""
        self.client.wait_for(
            lambda: all(map(_ready, self.client.list("Node", ""))), STATE_SECONDS, "nodes ready"
        )

    def _build(self, state: State) -> None:
        self.create(state.node_documents())
        self.create(state.group_documents(self.control_plane.release))
        self.create(state.pod_documents())
        self.client.wait_for(lambda: self._running(state), STATE_SECONDS, "the state to run")
        self.wait_nodes()

    def _running(self, state: State) -> bool:
        time.sleep(0.1)  # Whole lists are dear; nobody waits for the last millisecond here.
        pods = self.client.list("Pod")
        running = sum(pod["status"].get("phase") == "Running" for pod in pods)
        return bool(running == len(state.pods))

    @contextlib.contextmanager
    def _scheduler(self, contender: Contender) -> Iterator[None]:
        gates = self.control_plane.release.wap_gates if contender == "workload-aware" else ()
        if not isinstance(contender, Ours):
            self.control_plane.restart_scheduler(scheduler_config() | EVERY_NODE, gates=gates)
            yield
            return
        with serving(
            self.control_plane.workdir,
            self.control_plane.extender_kubeconfig,
            NAMESPACE,
            contender.order,
        ) as served:
            self.control_plane.restart_scheduler(
                scheduler_config(served.url) | EVERY_NODE, gates=()
            )
            yield
            self.control_plane.stop_scheduler()

    def _judge(
        self, state: State, watch: Watch, began: float, quiet: float, timeout: float
    ) -> ContenderOutcome:
        waiting = {pod.name for pod in state.members}
        bound: dict[str, tuple[float, str]] = {}
        running: set[str] = set()
        gone: set[str] = set()
        seen, changed = 0, time.monotonic()
        problem = ""
        while True:
            events = watch.events
            for event in events[seen:]:
                name = event.name
                if name not in waiting:
                    if event.type == "DELETED" or "deletionTimestamp" in event.object["metadata"]:
                        gone.add(name)
                elif event.type == "DELETED":
                    bound.pop(name, None)
                    running.discard(name)
                else:
                    node = event.object["spec"].get("nodeName")
                    if node:
                        bound.setdefault(name, (event.at, node))
                    if event.object["status"].get("phase") == "Running":
                        running.add(name)
            now = time.monotonic()
            if len(events) > seen:
                seen, changed = len(events), now
            ran = running == waiting
            # A second more for an eviction that nobody would have needed.
            if now - changed > (1.0 if ran else quiet):
                break
            if now - began > timeout:
                problem = "" if ran else f"still changing after {timeout:g} s"
                break
            time.sleep(0.02)
        return ContenderOutcome(
            damage=damage(state, gone),
            members=len(running),
            ran=ran,
            seconds=round(max(at for at, _ in bound.values()) - began, 3) if ran else None,
            problem=problem,
            seats=tuple(sorted(node for _, node in bound.values())),
        )

    def _clean(self) -> None:
        self.control_plane.stop_scheduler()
        self._baseline.clean(STATE_SECONDS)


def _ready(node: Object) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
