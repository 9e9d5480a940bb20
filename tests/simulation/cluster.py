"""Kubelets, the controllers that make lost pods again, pod garbage collection, budgets.

All of them act some time after what they see, by callbacks of the storage.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.eviction import recount
from extender.sandbox.resources import PLUGIN_POD_GROUPS, PODS, core_pod_groups
from extender.sandbox.rest import FINISHED
from extender.sandbox.storage import ADDED, DELETED, StorageChange
from tests.simulation import dialects, objects
from tests.simulation.chance import Chance
from tests.simulation.loop import SimLoop
from tests.simulation.objects import (
    BUDGET_KEY,
    FINALIZER,
    MERGE,
    MINOR,
    NODE_KEY,
    OWNER,
    POD_KEY,
    Work,
)
from tests.simulation.server import Server

POD_GROUPS = core_pod_groups(MINOR)
STALE_MARK_SECONDS = 120.0
"""stalePodDisruptionTimeout in pkg/controller/disruption."""


Key = tuple[str, str]
"""Namespace and name of a pod."""


def _going(pod: Obj) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _cpu(pod: Obj) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def _marked(pod: Obj) -> bool:
    return any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in pod.get("status", {}).get("conditions", ())
    )


class Cluster:
    """What happens in a cluster by itself."""

    def __init__(self, loop: SimLoop, server: Server, chance: Chance) -> None:
        self.works: dict[str, Work] = {}
        """What somebody wants to run, by name; deleting it takes it out."""
        self._loop = loop
        self._server = server
        self._api = server.api
        self._chance = chance
        self._count: dict[str, int] = {}
        self.lost: dict[str, float] = {}
        """Node -> until when its kubelet does nothing."""
        self.admits = False
        """Whether kubelets refuse pods for which their node has no room."""
        self.profiles: tuple[str, ...] = ()
        """Scheduler names that pods are given one after the other; none: the default."""
        self._made = 0
        self._ending: set[str] = set()
        self._counting = False
        server.storage.observe(self._see)

    # -- what people do ---------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        """Create a work's group and pods."""
        self.works[work.name] = work
        if work.gang:
            group = dialects.group_of(
                work.dialect, work.name, work.quorum, whole=work.whole, cls=work.cls
            )
            if group is not None:
                resource = PLUGIN_POD_GROUPS if work.dialect == dialects.PLUGIN else POD_GROUPS
                self._api.create(resource, "default", group)
        for index in range(work.size):
            if work.on:
                self._create(work, work.on[index])
            else:
                # Whoever creates pods does it one after the other.
                pause = self._chance.draw("submit") ** 2 * 0.3 * index
                self._loop.call_later(pause, self._create, work)

    def withdraw(self, work: Work) -> None:
        """Delete a work with its pods; nothing is made again."""
        self.works.pop(work.name, None)
        for pod in self.pods_of(work.name):
            self.delete(pod)

    def delete(self, pod: Obj, grace: int | None = None) -> None:
        """Delete a pod as a person does."""
        meta = pod["metadata"]
        try:
            self._api.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace=grace)
        except StatusError:
            return

    def pods_of(self, name: str) -> list[Obj]:
        """Return a work's unfinished pods, by name."""
        return [
            pod
            for pod in self._server.storage.all(POD_KEY)
            if pod["metadata"]["labels"].get(OWNER) == name
        ]

    def release(self, pod: Obj) -> None:
        """Take the finalizer off."""
        meta = pod["metadata"]
        try:
            self._api.patch(
                PODS,
                meta["namespace"],
                meta["name"],
                {"metadata": {"uid": meta["uid"], "finalizers": None}},
                MERGE,
            )
        except StatusError:
            return

    # -- what follows from it ---------------------------------------------------------------

    def again(self, work: Work, name: str = "") -> None:
        """Make one more pod of a work, where it lacks one."""
        self._create(self.works.get(work.name, work), name=name)

    def _create(self, work: Work, on: str = "", name: str = "") -> None:
        if self.works.get(work.name) is not work:
            return
        alive = sum("deletionTimestamp" not in p["metadata"] for p in self.pods_of(work.name))
        if alive >= work.size:
            return
        if name and self._server.storage.get(POD_KEY, work.namespace, name) is not None:
            self._loop.call_later(0.5, self._create, work, on, name)
            return
        if not name:
            number = self._count.get(work.name, 0)
            self._count[work.name] = number + 1
            name = f"{work.name}-{number}"
        pod = objects.pod(work, name, on)
        if self.profiles:
            pod["spec"]["schedulerName"] = self.profiles[self._made % len(self.profiles)]
            self._made += 1
        try:
            self._api.create(PODS, work.namespace, pod)
        except StatusError as error:
            if error.reason != "Forbidden":
                raise
            # Its PriorityClass is not there.
            self._loop.call_later(0.5, self._create, work, on, name)

    def _see(self, change: StorageChange) -> None:
        if change.resource == POD_KEY:
            self._see_pod(change)
        elif change.resource == NODE_KEY and change.type == DELETED:
            self._collect_soon(change.new["metadata"]["name"])
        counts = change.resource in (POD_KEY, BUDGET_KEY) and not self._counting
        if counts and self._server.storage.all(BUDGET_KEY):
            self._loop.call_later(self._chance.draw("budget") * 0.2, self._recount, change)

    def _recount(self, change: StorageChange) -> None:
        self._counting = True
        try:
            recount(self._api, change)
        finally:
            self._counting = False

    def _see_pod(self, change: StorageChange) -> None:
        pod = change.new
        meta = pod["metadata"]
        if change.type == DELETED:
            self._ending.discard(meta["uid"])
            work = self.works.get(meta["labels"].get(OWNER, ""))
            if work is not None and work.restarts:
                self._restarted(work)
            elif work is not None and work.again:
                self._loop.call_later(self._chance.between("again", 0.1, 3.0), self.again, work)
            return
        work = self.works.get(meta["labels"].get(OWNER, ""))
        goes = (
            "deletionTimestamp" in meta
            and "deletionTimestamp" not in (change.old or pod)["metadata"]
        )
        if work is not None and work.restarts and goes:
            rest = [other["metadata"]["uid"] for other in self.pods_of(work.name)]
            pause = self._chance.between("restart", 0.02, 1.0)
            self._loop.call_later(pause, self._restart, work.name, rest)
        if not pod["spec"].get("nodeName"):
            return
        key = meta["namespace"], meta["name"]
        if "deletionTimestamp" in meta:
            if meta["uid"] not in self._ending:
                self._ending.add(meta["uid"])
                grace = meta.get("deletionGracePeriodSeconds", 0)
                # A process may end well before its grace period, or need all of it.
                share = self._chance.draw("end")
                pause = 0.05 + (grace if share < 0.5 else grace * share)
                self._loop.call_later(pause, self._end, key, meta["uid"])
        elif pod["status"].get("phase") == "Pending" and (
            change.type == ADDED or not (change.old or {})["spec"].get("nodeName")
        ):
            pause = self._chance.between("run", 0.02, 0.8)
            self._loop.call_later(pause, self._run, key, meta["uid"])
        if _marked(pod) and not _marked(change.old or {}):
            self._loop.call_later(STALE_MARK_SECONDS, self._take_mark_back, meta)

    def _restart(self, name: str, uids: list[str]) -> None:
        """What JobSet does when one of its Jobs has failed: all pods of that time are deleted."""
        for pod in self.pods_of(name):
            meta = pod["metadata"]
            if meta["uid"] in uids and "deletionTimestamp" not in meta:
                self.delete(pod)

    def _restarted(self, work: Work) -> None:
        """Make all pods anew once the last one is gone."""
        if self.pods_of(work.name):
            return
        pause = self._chance.between("again", 0.1, 3.0)
        for index in range(work.size):
            self._loop.call_later(pause + 0.05 * index, self.again, work)

    def _put_off(self, node: str, what: Callable[[Key, str], None], key: Key, uid: str) -> bool:
        """Whether the kubelet is lost that would do this; then it is done when it is back."""
        until = self.lost.get(node, 0.0)
        if until <= self._loop.time():
            return False
        self._loop.call_at(until + 0.02, what, key, uid)
        return True

    def _take_mark_back(self, meta: Obj) -> None:
        """What kube-controller-manager's disruption controller does with a stale mark."""
        try:
            pod = self._api.get(PODS, meta["namespace"], meta["name"])
        except StatusError:
            return
        if pod["metadata"]["uid"] == meta["uid"] and "deletionTimestamp" not in pod["metadata"]:
            self._api.set_status(
                PODS, pod, {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}
            )

    def _held(self, key: Key, uid: str) -> Obj | None:
        pod = self._server.storage.get(POD_KEY, *key)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _run(self, key: Key, uid: str) -> None:
        pod = self._held(key, uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        if pod["status"].get("phase") != "Pending" or not pod["spec"].get("nodeName"):
            return
        if self._server.storage.get(NODE_KEY, "", pod["spec"]["nodeName"]) is None:
            self._collect_soon(pod["spec"]["nodeName"])  # it was bound after its node had gone
            return
        if self.lost and self._put_off(pod["spec"]["nodeName"], self._run, key, uid):
            return
        if self.admits and not self._has_room(pod):
            # canAdmitPod in pkg/kubelet; who made it, or garbage collection, deletes it.
            self._api.set_status(PODS, pod, {"phase": "Failed", "reason": "OutOfcpu"})
            self._loop.call_later(self._chance.between("rejected", 0.1, 2.0), self.delete, pod, 0)
            return
        now = self._api.now()
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {"phase": "Running", "startTime": now, "conditions": [ready]}
        self._api.set_status(PODS, pod, status)

    def _has_room(self, pod: Obj) -> bool:
        """Whether a pod fits on its node beside those that its kubelet has admitted."""
        name = pod["spec"]["nodeName"]
        node = self._server.storage.get(NODE_KEY, "", name)
        if node is None:
            return False
        there = [
            other
            for other in self._server.storage.all(POD_KEY)
            if other["spec"].get("nodeName") == name and other is not pod
        ]
        admitted = (
            other
            for other in there
            if other["status"].get("phase") == "Running"
            or (other["status"].get("phase") == "Pending" and _going(other))
        )
        used = sum(map(_cpu, admitted))
        return used + _cpu(pod) <= int(node["status"]["allocatable"]["cpu"])

    def _end(self, key: Key, uid: str) -> None:
        pod = self._held(key, uid)
        if pod is None or "deletionTimestamp" not in pod["metadata"]:
            return
        if self.lost and self._put_off(pod["spec"].get("nodeName", ""), self._end, key, uid):
            return
        try:
            if pod["metadata"].get("finalizers") and pod["status"].get("phase") not in FINISHED:
                return  # its containers have ended, but somebody holds the object
            self._api.delete(PODS, *key, uid=uid, grace=0)
        except StatusError:
            return

    def _collect_soon(self, node: str) -> None:
        self._loop.call_later(self._chance.between("gc", 0.2, 4.0), self._collect, node)

    def _collect(self, node: str) -> None:
        """Delete the pods of a node that is gone, as pod garbage collection does."""
        if self._server.storage.get(NODE_KEY, "", node) is not None:
            return
        for pod in self._server.storage.all(POD_KEY):
            if pod["spec"].get("nodeName") == node:
                self.delete(pod, grace=0)

    def lift(self, name: str) -> None:
        """Take the finalizers off a work's pods, and let those that are due go."""
        for pod in self.pods_of(name):
            if FINALIZER in (pod["metadata"].get("finalizers") or ()):
                self.release(pod)
        for pod in self.pods_of(name):
            if "deletionTimestamp" in pod["metadata"]:
                meta = pod["metadata"]
                self._end((meta["namespace"], meta["name"]), meta["uid"])
