"""What has become of groups and of their Workloads, step by step, from watches of both.

The tables of docs/measurements.md are its ``table``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.clients.kueue_controller import MANAGED
from tests.clients.kueue_objects import WORKLOAD
from tests.controlplane.cluster import Cluster
from tests.controlplane.watching import Event

Obj = dict[str, Any]
TOLD = ("QuotaReserved", "Admitted", "Evicted", "Preempted", "WaitingForReplacementPods")
MARKS = ("TerminationTarget", "DisruptionTarget")


class Step(NamedTuple):
    """Something that was seen."""

    at: float
    """Seconds since the history began."""
    of: str
    """A group; for its Workload ``workload GROUP``."""
    what: str
    name: str


class History:
    """Follows a cluster's pods and Workloads from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.watch("Pod")
        self._workloads = cluster.watch(WORKLOAD)
        self._since: float | None = None

    @property
    def steps(self) -> list[Step]:
        """Everything so far, in order."""
        found = _steps(self._pods.events, _pod_facts) + _steps(self._workloads.events, _facts)
        found.sort(key=lambda step: step.at)
        began = found[0].at if found else 0.0
        return [step._replace(at=step.at - began) for step in found]

    def order(self, of: str) -> list[str]:
        """What happened to a group or a Workload, each thing once, by when it happened first."""
        return list(dict.fromkeys(step.what for step in self.steps if step.of == of))

    def last(self, of: str, what: str) -> float:
        """When a thing happened last."""
        return max(step.at for step in self.steps if (step.of, step.what) == (of, what))

    def first(self, of: str, what: str) -> float:
        """When it happened first."""
        return min(step.at for step in self.steps if (step.of, step.what) == (of, what))

    def table(self) -> str:
        """A line for each thing: when, to whom, what, how often until something else came."""
        lines: list[list[Any]] = []
        for step in self.steps:
            same = next((line for line in lines[-3:] if line[2:4] == [step.of, step.what]), None)
            if same:
                same[1], same[4] = step.at, same[4] + 1
            else:
                lines.append([step.at, step.at, step.of, step.what, 1])
        return "\n".join(
            f"| {first:6.2f}"
            + (f"-{last:.2f}" if count > 1 else "")
            + f" | {of} | {count} x {what} |"
            for first, last, of, what, count in lines
        )


def _steps(events: list[Event], facts: Any) -> list[Step]:
    """One step for each fact that an object did not have before."""
    had: dict[str, dict[str, str]] = {}
    found: list[Step] = []
    for event in events:
        of, now = facts(event.object)
        before = had.get(event.uid, {})
        if event.type == "DELETED":
            now = {**now, "gone": "gone"}
        for key, what in now.items():
            if before.get(key) != what and what:
                found.append(Step(event.at, of, what, event.name))
        had[event.uid] = now
    return found


def _pod_facts(pod: Obj) -> tuple[str, dict[str, str]]:
    meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
    gates = [
        each["name"].removeprefix("kueue.x-k8s.io/") for each in spec.get("schedulingGates", ())
    ]
    kept = MANAGED in meta.get("finalizers", ())
    marks = {
        each["type"]: f"marked {each['type']} ({each.get('reason', '')})"
        for each in status.get("conditions") or ()
        if each["type"] in MARKS and each["status"] == "True"
    }
    phase = status.get("phase", "")
    return meta["labels"].get("gang", ""), {
        "made": f"made, gates {' and '.join(gates)}, finalizer" if gates and kept else "",
        "gate": "" if gates else "gates lifted",
        "node": "bound" if spec.get("nodeName") else "",
        "phase": "" if phase == "Pending" else phase,
        "deleted": "deletion asked for" if meta.get("deletionTimestamp") else "",
        "finalizer": "" if kept else "finalizer taken off",
        **marks,
    }


def _facts(workload: Obj) -> tuple[str, dict[str, str]]:
    said = {
        each["type"]: f"{each['type']}={each['status']} ({each['reason']})"
        for each in workload.get("status", {}).get("conditions", ())
        if each["type"] in (*TOLD, "Finished")
    }
    return f"workload {workload['metadata']['name']}", {"made": "made", **said}
