"""The cluster as it truly is, indexed as it changes, for those who check it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from extender.sandbox.api_status import Obj
from extender.sandbox.rest import FINISHED
from extender.sandbox.storage import DELETED, Storage, StorageChange
from tests.simulation.broken import Unit
from tests.simulation.objects import GROUP_KEY, MAP_KEY, NODE_KEY, OWNER, POD_KEY, PROTECTED, Work

LONG_AGO = -1000.0
"""When pods were bound that run from the beginning."""


class Seen(Struct):
    """One unfinished pod."""

    uid: str
    name: str
    work: Work
    node: str = ""
    going: bool = False
    made: float = 0.0
    bound: float = 0.0
    """When it was bound."""
    protected: bool = False
    nominated: str = ""
    marked: bool = False
    """Condition DisruptionTarget is True."""
    priority: int = 0
    """spec.priority, as it was when the pod was created."""
    preempts: bool = True
    cpu: int = 0
    """What counts of it: what it asks for, or has, whatever is more."""
    granted: int = 0
    """What its kubelet has granted."""
    alone: bool = False
    """It lets no other pod onto its node."""

    @property
    def runs(self) -> bool:
        """On a node, and not on its way out."""
        return bool(self.node) and not self.going


class State:
    """Pods and nodes. ``works`` must hold every work that ever was."""

    def __init__(self, storage: Storage, time: Callable[[], float]) -> None:
        self.works: dict[str, Work] = {}
        self.pods: dict[str, Seen] = {}
        self.of: dict[str, dict[str, Seen]] = {}
        """Work name -> its pods by uid."""
        self.nodes: dict[str, int] = {}
        """Node -> CPU, of nodes that take pods."""
        self.sizes: dict[str, int] = {}
        """Node -> CPU, of all nodes."""
        self.whole: dict[str, float] = {}
        """Work -> when it last had its quorum."""
        self.changed = 0.0
        """When a pod, node or plan record last changed."""
        self._stated: dict[str, int] = {}
        """Work -> priority of its PodGroup."""
        self._time = time
        storage.observe(self._see)

    def of_work(self, name: str) -> list[Seen]:
        """Return a work's pods."""
        return list(self.of.get(name, {}).values())

    def free(self, without: frozenset[str] = frozenset()) -> dict[str, int]:
        """Return the free CPU of the nodes that take pods, less some pods."""
        free = dict(self.nodes)
        for pod in self.pods.values():
            if pod.node in free and pod.uid not in without:
                free[pod.node] -= pod.cpu
        for pod in self.pods.values():
            if pod.alone and pod.node in free and pod.uid not in without:
                free[pod.node] = min(free[pod.node], 0)
        return free

    def wants(self, work: Work) -> int:
        """Return the priority at which a gang may evict: its group's, else the least of its pods'.

        docs/choices.md, which priority counts.
        """
        stated = self._stated.get(work.name) if work.gang else None
        found = [pod.priority for pod in self.of_work(work.name) if not pod.going]
        return min(found, default=work.priority) if stated is None else stated

    def stays_below(self, pod: Seen) -> int:
        """Return the priority above which a pod may be evicted: its own, or its group's."""
        stated = self._stated.get(pod.work.name) if pod.work.gang else None
        return pod.priority if stated is None else max(pod.priority, stated)

    def stays_for(self, unit: Unit) -> bool:
        """Whether none of what is left may be evicted at the plan's priority, where one is known.

        Promise 4 counts when a pod goes, not when others of its unit went; and so it is with the
        priority of whoever they go for, at the latest in the next life.
        """
        preemptor = self.works.get(unit.preemptor)
        priority = unit.priority
        if preemptor is not None and any(not pod.going for pod in self.of_work(preemptor.name)):
            priority = min(priority, self.wants(preemptor))
        return all(0 < priority <= self.stays_below(self.pods[uid]) for uid in unit.left)

    def told(self) -> list[str]:
        """Return a line a node, and one of the pods that wait."""
        lines = []
        for node in [*sorted(self.sizes), ""]:
            pods = sorted(p.name for p in self.pods.values() if p.node == node)
            where = f"{node} ({self.nodes.get(node, 0)} CPU)" if node else "waiting"
            lines.append(f"{where}: {', '.join(pods)}")
        return lines

    def _see(self, change: StorageChange) -> None:
        if change.resource == POD_KEY:
            self._see_pod(change)
        elif change.resource == NODE_KEY:
            name = change.new["metadata"]["name"]
            self.nodes.pop(name, None)
            self.sizes.pop(name, None)
            if change.type != DELETED:
                self.sizes[name] = int(change.new["status"]["allocatable"]["cpu"])
                if not change.new["spec"].get("unschedulable"):
                    self.nodes[name] = self.sizes[name]
        elif change.resource == GROUP_KEY:
            name = change.new["metadata"]["name"]
            self._stated.pop(name, None)
            if change.type != DELETED:
                self._stated[name] = change.new["spec"]["priority"]
            return
        elif change.resource != MAP_KEY:
            return
        self.changed = self._time()

    def _see_pod(self, change: StorageChange) -> None:
        obj = change.new
        meta = obj["metadata"]
        uid = meta["uid"]
        held = self.pods.get(uid)
        if change.type == DELETED or obj["status"].get("phase") in FINISHED:
            if held is not None:
                del self.pods[uid], self.of[held.work.name][uid]
            return
        if held is None:
            work = self.works[meta["labels"][OWNER]]
            held = self.pods[uid] = Seen(uid, meta["name"], work, made=self._time())
            self.of.setdefault(work.name, {})[uid] = held
        node = obj["spec"].get("nodeName", "")
        held.going = "deletionTimestamp" in meta
        held.protected = (meta.get("annotations") or {}).get(PROTECTED) == "true"
        held.nominated = obj["status"].get("nominatedNodeName") or ""
        held.marked = _marked(obj)
        held.priority = obj["spec"]["priority"]
        held.preempts = obj["spec"]["preemptionPolicy"] != "Never"
        held.cpu, held.granted = _amounts(obj)
        held.alone = "affinity" in obj["spec"]
        if node and not held.node:
            held.node, held.bound = node, self._time() if change.old else LONG_AGO
            work = held.work
            if work.quorum:
                running = sum(pod.runs for pod in self.of[work.name].values())
                if running >= work.quorum:
                    self.whole[work.name] = self._time()


def _amounts(obj: Obj) -> tuple[int, int]:
    """Return the CPU that counts of a pod, and what is granted (docs of KEP-1287)."""
    asked = int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    reports = obj["status"].get("containerStatuses")
    if not reports:
        return asked, asked
    granted = int(reports[0]["allocatedResources"]["cpu"])
    refused = any(
        condition["type"] == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in obj["status"].get("conditions") or ()
    )
    return granted if refused else max(asked, granted), granted


def _marked(obj: Obj) -> bool:
    return any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in obj["status"].get("conditions") or ()
    )
