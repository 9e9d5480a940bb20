"""What people and controllers change while plans are under way: groups, sizes, names, records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from extender.sandbox.api_status import StatusError
from extender.sandbox.resources import BUDGETS, CONFIG_MAPS, LEASES, NODES, PLUGIN_POD_GROUPS, PODS
from tests.simulation import dialects
from tests.simulation.cluster import POD_GROUPS
from tests.simulation.happening import Happening
from tests.simulation.objects import MAP_KEY, MERGE, PLAN, PROTECTED, Work
from tests.simulation.state import Seen

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

FLICKERS = 6


class Edits:
    """Happenings of ``MORE["edits"]``; each is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._api = simulation.server.api

    # -- whom ---------------------------------------------------------------------------------

    def work_of(self, happening: Happening) -> Work | None:
        """A gang that wants seats, one that is to go, or any, as ``name`` says."""
        sim = self._sim
        wanted: set[str] = set()
        if sim.host.coordinator is not None:
            for preemption in sim.host.coordinator.reservations:
                plan = preemption.plan
                pods = plan.victims if happening.name == "victim" else plan.seats
                wanted |= {pod.uid for pod in pods}
        works = {p.work.name: p.work for uid, p in sim.state.pods.items() if uid in wanted}
        found = {name: work for name, work in works.items() if work.gang} or {
            p.work.name: p.work for p in sim.state.pods.values() if p.work.gang
        }
        return sim.chance.pick("edits-whom", sorted(found.items()))[1] if found else None

    def changed(self, old: Work, new: Work) -> None:
        """From now on the work is another one to whoever looks at it."""
        sim = self._sim
        sim.state.works[new.name] = new
        if old.name in sim.cluster.works:
            sim.cluster.works[new.name] = new
        for pod in sim.state.of_work(old.name):
            pod.work = new
        unit = sim.checks.units.get(old.name)
        if unit is not None:
            unit.work = new
        sim.calm.disturbed.append((sim.loop.time(), old.name))

    # -- groups -------------------------------------------------------------------------------

    def drop_group_of(self, work: Work) -> None:
        resource = PLUGIN_POD_GROUPS if work.dialect == dialects.PLUGIN else POD_GROUPS
        self._api.delete(resource, "default", work.name)

    def make_group(self, work: Work) -> None:
        group = dialects.group_of(
            work.dialect, work.name, work.quorum, whole=work.whole, cls=work.cls
        )
        if group is not None and work.name in self._sim.state.works:
            resource = PLUGIN_POD_GROUPS if work.dialect == dialects.PLUGIN else POD_GROUPS
            try:
                self._api.create(resource, "default", group)
            except StatusError as error:
                if error.reason == "AlreadyExists":
                    return  # the storage was put back to when it was there
                if error.reason != "Forbidden":
                    raise
                # Its PriorityClass is not there.
                self._sim.loop.call_later(0.5, self.make_group, work)

    def has_group(self, work: Work | None) -> bool:
        return work is not None and work.dialect in (dialects.CORE, dialects.PLUGIN)

    def resize(self, happening: Happening) -> None:
        """minCount is raised or lowered (by a group made anew where it cannot be changed)."""
        work = self.work_of(happening)
        if work is None or not self.has_group(work) or not work.quorum:
            return
        quorum = max(1, work.quorum + (1 if happening.number > 0 else -1))
        if quorum > work.size:
            return
        new = replace(work, quorum=quorum)
        self._sim.story.tell("world", "minCount of", work.name, "is", str(quorum))
        if work.dialect == dialects.PLUGIN:
            patch = {"spec": {"minMember": quorum}}
            self._api.patch(PLUGIN_POD_GROUPS, "default", work.name, patch, MERGE)
            self.changed(work, new)
        else:
            self.remake_group(work, new)

    def remake_group(self, work: Work, new: Work) -> None:
        """Its PodGroup is deleted, and another one made for what it is now."""
        self.drop_group_of(work)
        self.changed(work, new)
        self.make_group(new)

    def drop_group(self, happening: Happening) -> None:
        """The PodGroup is deleted, and made again ``number`` seconds later."""
        work = self.work_of(happening)
        if work is None or not self.has_group(work):
            return
        self._sim.story.tell("world", "the group of", work.name, "is deleted")
        self.drop_group_of(work)
        self._sim.calm.disturbed.append((self._sim.loop.time() + happening.number, work.name))
        self._sim.loop.call_later(happening.number, self.make_group, work)

    # -- pods ---------------------------------------------------------------------------------

    def grow(self, happening: Happening) -> None:
        """A work is scaled up by one."""
        work = self.work_of(happening)
        if work is None or work.name not in self._sim.cluster.works:
            return
        new = replace(work, size=work.size + 1, on=())
        if work.sizeless and work.quorum:
            new = replace(new, quorum=new.size)
        self._sim.story.tell("world", work.name, "grows")
        self.changed(work, new)
        self._sim.cluster.again(new)

    def lessen(self, happening: Happening) -> None:
        """A work is scaled down by one: the newest goes."""
        work = self.work_of(happening)
        if work is None or work.name not in self._sim.cluster.works or work.size < 2:
            return
        new = replace(work, size=work.size - 1, on=())
        if work.sizeless and work.quorum:
            new = replace(new, quorum=new.size)
        elif work.quorum > new.size:
            return
        pods = [pod for pod in self._sim.state.of_work(work.name) if not pod.going]
        if not pods:
            return
        self._sim.story.tell("world", work.name, "lessens")
        self.changed(work, new)
        newest = max(pods, key=lambda pod: (pod.made, pod.name))
        self._api.delete(PODS, "default", newest.name, uid=newest.uid)

    def suspend(self, happening: Happening) -> None:
        """A work's pods are deleted, and made again ``number`` seconds later."""
        work = self.work_of(happening)
        if work is None or self._sim.cluster.works.pop(work.name, None) is None:
            return
        sim = self._sim
        new = replace(work, on=())
        sim.story.tell("world", work.name, "is suspended")
        sim.calm.disturbed.append((sim.loop.time(), work.name))
        for pod in sim.cluster.pods_of(work.name):
            sim.cluster.delete(pod)

        def resume() -> None:
            sim.story.tell("world", work.name, "is resumed")
            sim.cluster.works[work.name] = new
            self.changed(work, new)
            for _ in range(new.size):
                sim.cluster.again(new)

        sim.loop.call_later(happening.number, resume)

    def replace_pod(self, happening: Happening) -> None:
        """A pod is deleted at once and another one has its name a moment later."""
        sim = self._sim
        work = self.work_of(happening)
        pods = [] if work is None else sim.state.of_work(work.name)
        if work is None or not pods or work.name not in sim.cluster.works:
            return
        pod: Seen = sim.chance.pick("edits-pod", sorted(pods, key=lambda pod: pod.name))
        sim.calm.disturbed.append((sim.loop.time(), work.name))
        sim.story.tell("world", "replaces", pod.name)
        self._api.delete(PODS, "default", pod.name, uid=pod.uid, grace=0)
        sim.loop.call_later(happening.number, sim.cluster.again, work, pod.name)

    def unprotect(self, happening: Happening) -> None:
        """Nobody is protected any more."""
        for pod in [pod for pod in self._sim.state.pods.values() if pod.protected]:
            patch = {"metadata": {"annotations": {PROTECTED: None}}}
            self._api.patch(PODS, "default", pod.name, patch, MERGE)

    def unbudget(self, happening: Happening) -> None:
        """All disruption budgets are deleted."""
        for budget in list(self._sim.server.storage.all(BUDGETS.key, "default")):
            self._api.delete(BUDGETS, "default", budget["metadata"]["name"])

    # -- nodes --------------------------------------------------------------------------------

    def flicker(self, happening: Happening) -> None:
        """A node is closed and opened again and again."""
        sim = self._sim
        name = sim.doings.node(happening)
        for turn in range(FLICKERS):
            flick = partial(self._flick, name, closed=turn % 2 == 0)
            sim.loop.call_later(turn * happening.number, flick)

    def _flick(self, name: str, *, closed: bool) -> None:
        if name in self._sim.state.sizes:
            self._sim.doings.mark(name, closed=closed)

    def shrink(self, happening: Happening) -> None:
        """A node reports less for a while, as when devices fail."""
        sim = self._sim
        name = sim.doings.node(happening)
        if not name:
            return
        sim.checks.standing.shrunk.add(name)
        sim.calm.disturbed.append((sim.loop.time(), ""))
        self._allocatable(name, 1)
        sim.loop.call_later(happening.number, self._allocatable, name, 4)

    def _allocatable(self, name: str, cpu: int) -> None:
        if name in self._sim.state.sizes:
            node = self._api.get(NODES, "", name)
            self._sim.story.tell("world", "node", name, "has", str(cpu))
            self._sim.calm.disturbed.append((self._sim.loop.time(), ""))
            self._api.set_status(NODES, node, {"allocatable": {"cpu": str(cpu), "pods": "110"}})

    # -- what is ours -------------------------------------------------------------------------

    def drop_records(self, happening: Happening) -> None:
        """Somebody deletes all plan records."""
        self._sim.checks.hands_off = False
        # Else they do not meet a crash: see more.py.
        self._sim.checks.standing.records_lost = self._sim.script.flaky
        for item in list(self._sim.server.storage.all(MAP_KEY)):
            meta = item["metadata"]
            if PLAN in (meta.get("labels") or {}):
                self._sim.story.tell("world", "deletes the record", meta["name"])
                self._api.delete(CONFIG_MAPS, meta["namespace"], meta["name"])

    def touch_records(self, happening: Happening) -> None:
        """Somebody writes an annotation onto all plan records, so that versions do not match."""
        for item in list(self._sim.server.storage.all(MAP_KEY)):
            meta = item["metadata"]
            if PLAN in (meta.get("labels") or {}):
                patch = {"metadata": {"annotations": {"simulation/touched": str(happening.number)}}}
                self._api.patch(CONFIG_MAPS, meta["namespace"], meta["name"], patch, MERGE)

    def drop_lease(self, happening: Happening) -> None:
        """Somebody deletes the lease."""
        for item in list(self._sim.server.storage.all(LEASES.key)):
            meta = item["metadata"]
            self._sim.checks.lease.dropped = self._sim.loop.time()
            self._api.delete(LEASES, meta["namespace"], meta["name"])

    def restart_scheduler(self, happening: Happening) -> None:
        """kube-scheduler is killed, and starts again ``number`` seconds later."""
        sim = self._sim
        sim.calm.disturbed.append((sim.loop.time(), "" if not sim.calm.held_for else "nobody"))
        sim.scheduler.restart(happening.number)
