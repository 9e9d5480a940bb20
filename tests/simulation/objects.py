"""The pods, groups and nodes of a simulation, as plain data and as Kubernetes objects."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from extender.sandbox.resources import BUDGETS, CONFIG_MAPS, NODES, PODS, core_pod_groups
from tests.simulation.dialects import CORE, SIZELESS, join

Obj = dict[str, Any]

CLASSES = {"low": 10, "mid": 50, "high": 100, "top": 200}
POD_KEY, NODE_KEY, BUDGET_KEY, MAP_KEY = PODS.key, NODES.key, BUDGETS.key, CONFIG_MAPS.key
"""Under which the storage keeps what changes most."""
MERGE = "application/merge-patch+json"
MINOR = "1.37"
"""Version of Kubernetes that is played."""
GROUP_KEY = core_pod_groups(MINOR).key
OWNER = "simulation/owner"
"""Label: which Work a pod belongs to."""
FINALIZER = "simulation/held"
PROTECTED = "podgroup-extender.io/protected"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ANY_POD: Obj = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchExpressions": [{"key": OWNER, "operator": "Exists"}]},
    "namespaceSelector": {},
}
"""Term of affinity."""
PLAN = "podgroup-extender.io/plan"
"""Label of plan records."""


class Work(Struct, frozen=True, kw_only=True):
    """What somebody wants to run: a gang, or (``gang`` False) pods of no gang."""

    name: str
    size: int
    cls: str
    cpu: int
    gang: bool = True
    quorum: int = 0
    """minCount; 0: a group without a gang policy, whose members start one by one."""
    whole: bool = True
    """It goes whole: disruptionMode all, or what stands for it."""
    dialect: str = CORE
    again: bool = True
    """A controller makes lost pods again."""
    restarts: bool = False
    """When one of its pods goes all are deleted, and made again once the last one is gone."""
    grace: int = 0
    held: bool = False
    """Its pods have a finalizer."""
    on: tuple[str, ...] = ()
    """Nodes its pods run on from the beginning."""
    namespace: str = "default"
    squats: int = 0
    """How many pods its owner puts on nodes of pods that have gone."""
    alone: bool = False
    """What its owner puts there takes no room, and lets no other pod onto its node (required
    anti-affinity)."""

    @property
    def priority(self) -> int:
        """Of its pods and its group."""
        return CLASSES[self.cls]

    @property
    def sizeless(self) -> bool:
        """Whether all pods there are count as the gang, however many were meant."""
        return self.gang and self.dialect in SIZELESS

    def told(self) -> str:
        """Return one line for people."""
        kind = "a single" if not self.gang else "all" if self.whole else "single"
        return (
            f"{self.name}: {self.size} x {self.cpu} CPU, {kind}, priority {self.priority}"
            + (f", minCount {self.quorum}" if self.gang else "")
            + (f", {self.dialect}" if self.gang and self.dialect != CORE else "")
            + (f", on {','.join(self.on)}" if self.on else "")
            + (f", grace {self.grace}" if self.grace else "")
            + (", finalizer" if self.held else "")
            + (", alone" if self.alone else "")
            + (f", squats {self.squats} times" if self.squats else "")
            + (", restarts" if self.restarts else ", made again" if self.again else "")
        )


def node(name: str, cpu: int) -> Obj:
    """Return a node."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
    }


def pod(work: Work, name: str, on: str = "") -> Obj:
    """Return one pod."""
    requests = {"requests": {"cpu": str(work.cpu)}}
    spec: Obj = {
        "containers": [{"name": "c", "image": "i", "resources": requests}],
        "terminationGracePeriodSeconds": work.grace,
        "priorityClassName": work.cls,
    }
    if on:
        spec["nodeName"] = on
    meta: Obj = {"name": name, "labels": {OWNER: work.name}}
    if work.held:
        meta["finalizers"] = [FINALIZER]
    made: Obj = {"metadata": meta, "spec": spec}
    if work.gang:
        join(work.dialect, work.name, work.quorum, made)
    return made


def alone(work: Work, name: str, on: str) -> Obj:
    """Return a pod that takes no room and lets no other pod onto its node."""
    made = pod(replace(work, cpu=0), name, on)
    made["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [ANY_POD]}}
    return made


def budget(work: Work, least: int) -> Obj:
    """Return a PodDisruptionBudget over a work's pods."""
    return {
        "metadata": {"name": work.name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {OWNER: work.name}}},
    }
