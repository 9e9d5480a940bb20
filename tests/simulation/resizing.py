"""``MORE["resizes"]``: what pods ask for is changed in place (KEP-1287), also while plans wait.

A pod that waits is changed at once. Of one that runs the kubelet grants what its node has room for,
a while later: until then what it has counts as well, and of what can never be granted only that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.resources import PODS
from tests.simulation.chance import Chance
from tests.simulation.happening import Happening
from tests.simulation.moments import several, with_happenings
from tests.simulation.objects import MERGE, POD_KEY
from tests.simulation.script import Script
from tests.simulation.state import Seen

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

KINDS = ("resize-pod", "resize-pod", "resize-all", "shrink")
AMOUNTS = (1, 2, 3, 4, 5)
KUBELET = (0.1, 3.0)


def resizes(script: Script, chance: Chance) -> Script:
    """One to four pods, gangs or nodes become smaller or larger."""
    many = chance.number("resizes", 1, 4)
    found = several(chance, "resize", many, KINDS, ("victim", "member", ""), (0.05, 0.5, 3.0))
    # A node's name is drawn when it shrinks.
    found = [each if each.kind != "shrink" else replace(each, name="") for each in found]
    return with_happenings(script, found, lasting=4.0)


class Resizing:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._api = simulation.server.api

    def resize_pod(self, happening: Happening) -> None:
        """One pod asks for more, or less."""
        pods = self._whom(happening)
        if pods:
            self._resize([self._sim.chance.pick("resize-whom", pods)])

    def resize_all(self, happening: Happening) -> None:
        """All pods of a work do."""
        pods = self._whom(happening)
        if pods:
            work = self._sim.chance.pick("resize-whom", pods).work.name
            self._resize(sorted(self._sim.state.of_work(work), key=lambda pod: pod.name))

    def _whom(self, happening: Happening) -> list[Seen]:
        doings = self._sim.doings
        found = {"victim": doings.victims, "member": doings.members}.get(happening.name)
        pods = found() if found is not None else list(self._sim.state.pods.values())
        return sorted((pod for pod in pods if not pod.going), key=lambda pod: pod.name)

    def _resize(self, pods: list[Seen]) -> None:
        sim = self._sim
        cpu = sim.chance.pick("resize-cpu", AMOUNTS)
        # Who starts meanwhile, and who was to have the room, is somebody else's doing.
        sim.calm.disturbed.append((sim.loop.time(), ""))
        for pod in pods:
            there = sim.server.storage.get(POD_KEY, "default", pod.name)
            if there is None or there["metadata"]["uid"] != pod.uid:
                continue
            sim.story.tell("world", pod.name, "asks for", str(cpu))
            if not pod.node:
                sim.checks.standing.grown[pod.uid] = sim.loop.time()
            else:
                sim.checks.standing.shrunk.add(pod.node)
                had = _asked(there)
                there = self._api.set_status(PODS, there, {"containerStatuses": [_report(had)]})
            containers = [{**there["spec"]["containers"][0], "resources": _cpu(cpu)}]
            patch = {"spec": {"containers": containers}}
            self._api.patch(PODS, "default", pod.name, patch, MERGE)
            pause = sim.chance.between("resize-kubelet", *KUBELET)
            sim.loop.call_later(pause, self._grant, pod.uid, cpu)

    def _grant(self, uid: str, cpu: int) -> None:
        """What the kubelet does: grant it, put it off, or refuse it for good."""
        sim = self._sim
        pod = sim.state.pods.get(uid)
        if pod is None or not pod.node or pod.going:
            return
        there = sim.server.storage.get(POD_KEY, "default", pod.name)
        size = sim.state.sizes.get(pod.node)
        if there is None or size is None or _asked(there) != cpu:
            return
        others = sum(p.granted for p in sim.state.pods.values() if p.node == pod.node and p != pod)
        status: Obj = {}
        if cpu + others <= size:
            status = {"containerStatuses": [_report(cpu)]}
        elif cpu > size:
            why = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
            status = {"conditions": [why]}
        else:
            sim.loop.call_later(5.0, self._grant, uid, cpu)  # put off: it is tried again
            return
        sim.calm.disturbed.append((sim.loop.time(), ""))
        try:
            self._api.set_status(PODS, there, status)
        except StatusError:
            return


def _asked(pod: Obj) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def _cpu(cpu: int) -> Obj:
    return {"requests": {"cpu": str(cpu)}}


def _report(cpu: int) -> Obj:
    return {"name": "c", "allocatedResources": {"cpu": str(cpu)}, "resources": _cpu(cpu)}
