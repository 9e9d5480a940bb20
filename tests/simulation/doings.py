"""Carries out what a script says: at its time, or when its moment comes."""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING

from extender.sandbox.api_status import StatusError
from extender.sandbox.resources import BUDGETS, NODES, PODS
from extender.sandbox.storage import DELETED, StorageChange
from tests.simulation import objects
from tests.simulation.announcing import Announcing
from tests.simulation.budgeting import Budgeting
from tests.simulation.edits import Edits
from tests.simulation.enforcing import Enforcing
from tests.simulation.happening import Happening
from tests.simulation.mishaps import Mishaps
from tests.simulation.objects import MERGE, POD_KEY, PROTECTED
from tests.simulation.priorities import Priorities
from tests.simulation.resizing import Resizing
from tests.simulation.restoring import Restoring
from tests.simulation.script import FLAP_SECONDS, FLAPS
from tests.simulation.squatting import Squatting
from tests.simulation.state import Seen

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

DOWN = (0.1, 6.0)
"""How long the process stays down."""
WITHOUT_STORAGE = (2.0, 6.0)
"""For how many seconds a server that comes back lacks its storage."""
FAILED_BIND = 15.0
"""How many seconds a failed bind may cost: kube-scheduler's longest pause, and its own."""


class Doings:
    """What people, machines and misfortune do."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._loop = simulation.loop
        self._api = simulation.server.api
        self._waiting: dict[str, list[Happening]] = {}
        self._counts: dict[str, int] = {}
        self._over = False
        self.edits = Edits(simulation)
        self._others = (
            Mishaps(simulation),
            Restoring(simulation),
            Enforcing(simulation),
            Priorities(simulation),
            Resizing(simulation),
            Squatting(simulation),
            Budgeting(simulation),
            Announcing(simulation),
        )
        self._world = Context() if simulation.script.flaky else None
        """A happening is no part of the process that it follows: that may stand still."""
        simulation.checks.moment = self.moment
        simulation.server.storage.observe(self._see)

    def begin(self) -> None:
        """Set the cluster up and plan what is to come."""
        sim = self._sim
        for name, cpu in sim.script.nodes.items():
            self._api.create(NODES, "", objects.node(name, cpu))
        for work in sim.script.works:
            sim.story.tell("world", "runs", work.told())
            sim.state.works[work.name] = work
            sim.cluster.submit(work)
        for fault in sim.script.faults:
            self._loop.call_at(fault.at, sim.story.tell, "fault", fault.told())
        for happening in sim.script.happenings:
            if happening.after:
                self._waiting.setdefault(happening.after, []).append(happening)
            else:
                self._loop.call_at(happening.at, self.do, happening)

    def moment(self, name: str) -> None:
        """Something has happened that happenings may follow."""
        waiting = self._waiting.get(name)
        if not waiting:
            return
        count = self._counts[name] = self._counts.get(name, 0) + 1
        for happening in waiting:
            if happening.nth == count:
                self._loop.call_later(happening.at, self.do, happening, context=self._world)

    def bound(self, pod: str) -> None:
        """A pod was bound."""
        sim = self._sim
        held = next((p for p in sim.state.pods.values() if p.name == pod), None)
        if held is None:
            return
        if held.work.gang:
            self.moment("bound")
        sat = [p for p in sim.state.of_work(held.work.name) if p.node and p.uid != held.uid]
        if held.work.quorum and len(sat) < held.work.quorum:
            return  # the extender has given it its seat, so nobody else's
        # A more urgent pod may take what was held for others.
        for work in sim.state.works.values():
            if work.priority < held.priority:
                sim.calm.disturbed.append((self._loop.time(), work.name))

    def not_bound(self, pod: str) -> None:
        """A bind has failed, and the pod backs off for as long as kube-scheduler likes."""
        held = next((p for p in self._sim.state.pods.values() if p.name == pod), None)
        if held is not None:
            self._disturb(held.work.name)

    def _see(self, change: StorageChange) -> None:
        if change.resource != POD_KEY:
            return
        meta = change.new["metadata"]
        old = change.old
        before = (old or change.new)["metadata"]
        uid = meta["uid"]
        going = change.type == DELETED or (
            "deletionTimestamp" in meta and "deletionTimestamp" not in before
        )
        ours = uid in self._sim.checks.ours
        if going:
            what = "is gone" if change.type == DELETED else "is going"
            self._sim.story.tell("pod", meta["name"], what)
        elif old is None:
            self._sim.story.tell("pod", meta["name"], "is made")
        if going and not ours:
            self._sim.calm.disturbed.append((self._loop.time(), meta["labels"][objects.OWNER]))
        if change.type == DELETED and ours:
            self.moment("gone")

    def settle(self) -> None:
        """Nothing more happens: the extender comes back, what was held is let go."""
        self._over = True
        self._sim.cluster.lost.clear()
        seats = self._sim.script.settings.seats
        # One that fails may take all others along. Else one failed seven times in a row (251523);
        # after each kube-scheduler pauses ten seconds, however little time is left (396922).
        together = self._sim.scheduler.bind_verb or seats.rollback == "delete"
        self._sim.scheduler.most_fails = 0 if together else seats.bind_seconds // FAILED_BIND
        for work in list(self._sim.state.works.values()):
            self._sim.cluster.lift(work.name)
        if not self._sim.host.alive:
            self._sim.host.start()

    # -- doing ------------------------------------------------------------------------------

    def do(self, happening: Happening) -> None:
        """Let something happen, unless nothing more is to."""
        if self._over:
            return
        self._sim.story.tell("world", happening.told())
        kind = happening.kind.replace("-", "_")
        found = (getattr(each, kind, None) for each in (self.edits, *self._others))
        doing = next((each for each in found if each is not None), None)
        doing = doing or getattr(self, "_" + kind)
        try:
            doing(happening)
        except StatusError as error:
            self._sim.story.tell("world", "in vain:", error.message)

    def _disturb(self, name: str = "") -> None:
        self._sim.calm.disturbed.append((self._loop.time(), name))

    def _arrive(self, happening: Happening) -> None:
        assert happening.work is not None
        self._sim.state.works[happening.work.name] = happening.work
        self._sim.cluster.submit(happening.work)

    def _pick(self, pods: list[Seen]) -> Seen | None:
        pods.sort(key=lambda pod: pod.name)
        return self._sim.chance.pick("whom", pods) if pods else None

    def members(self) -> list[Seen]:
        """Members that hold a seat, else members of gangs that wait."""
        sim = self._sim
        seated = set()
        if sim.host.coordinator is not None:
            for preemption in sim.host.coordinator.reservations:
                seated |= set(preemption.seats)
        found = [pod for uid, pod in sim.state.pods.items() if uid in seated]
        return found or [p for p in sim.state.pods.values() if not p.node and p.work.gang]

    def victims(self) -> list[Seen]:
        """Pods that a plan wants gone and that are not going, else pods of gangs that run."""
        sim = self._sim
        named = set()
        if sim.host.coordinator is not None:
            for preemption in sim.host.coordinator.reservations:
                named |= {victim.uid for victim in preemption.plan.victims}
        found = [pod for uid, pod in sim.state.pods.items() if uid in named and not pod.going]
        return found or [p for p in sim.state.pods.values() if p.runs and p.work.gang]

    def node(self, happening: Happening) -> str:
        """A seat's node, else any."""
        sim = self._sim
        names = set()
        if sim.host.coordinator is not None:
            for preemption in sim.host.coordinator.reservations:
                names |= set(preemption.seats.values())
        found = sorted(names & sim.state.sizes.keys()) or sorted(sim.state.sizes)
        return happening.name or (sim.chance.pick("which", found) if found else "")

    def _delete(self, pod: Seen | None) -> None:
        if pod is not None:
            self._disturb(pod.work.name)
            self._sim.story.tell("world", "deletes", pod.name)
            self._api.delete(PODS, pod.work.namespace, pod.name, uid=pod.uid)

    def _delete_member(self, happening: Happening) -> None:
        self._delete(self._pick(self.members()))

    def _delete_victim(self, happening: Happening) -> None:
        self._delete(self._pick(self.victims()))

    def _withdraw(self, happening: Happening) -> None:
        members = self._sim.state.of_work(happening.name) if happening.name else self.members()
        pod = self._pick(members)
        if pod is not None:
            self._disturb(pod.work.name)
            self._sim.story.tell("world", "withdraws", pod.work.name)
            self._sim.cluster.withdraw(pod.work)

    def _finish(self, happening: Happening) -> None:
        """A running work ends: its pods succeed."""
        pods = [p for p in self._sim.state.pods.values() if p.runs]
        pod = self._pick(pods)
        if pod is None:
            return
        work = pod.work
        self._disturb(work.name)
        self._sim.cluster.works.pop(work.name, None)
        self._sim.story.tell("world", "ends", work.name)
        for each in self._sim.state.of_work(work.name):
            raw = self._api.get(PODS, work.namespace, each.name)
            if each.runs:
                self._api.set_status(PODS, raw, {"phase": "Succeeded"})
            else:
                self._api.delete(PODS, work.namespace, each.name, uid=each.uid)

    def _cordon(self, happening: Happening) -> None:
        self.mark(self.node(happening), closed=True)

    def _uncordon(self, happening: Happening) -> None:
        sim = self._sim
        for name in sorted(sim.state.sizes.keys() - sim.state.nodes.keys()):
            self.mark(name, closed=False)

    def mark(self, name: str, *, closed: bool) -> None:
        """Cordon a node, or take that back."""
        if not name:
            return
        self._disturb()
        self._sim.story.tell("world", "node", name, "closed" if closed else "opened")
        patch = {"spec": {"unschedulable": closed or None}}
        self._api.patch(NODES, "", name, patch, MERGE)

    def _delete_node(self, happening: Happening) -> None:
        name = self.node(happening)
        if name and len(self._sim.state.sizes) > 1:
            self._disturb()
            self._sim.story.tell("world", "node", name, "is deleted")
            self._api.delete(NODES, "", name)

    def _add_node(self, happening: Happening) -> None:
        name = f"x{len(self._sim.story.entries)}"
        self._api.create(NODES, "", objects.node(name, 4))

    def _protect(self, happening: Happening) -> None:
        pod = self._pick(self.victims())
        if pod is not None:
            self._sim.story.tell("world", "protects", pod.name)
            patch = {"metadata": {"annotations": {PROTECTED: "true"}}}
            self._api.patch(PODS, pod.work.namespace, pod.name, patch, MERGE)

    def _budget(self, happening: Happening) -> None:
        pod = self._pick(self.victims())
        if pod is not None:
            self._sim.story.tell("world", "budget for", pod.work.name)
            self._api.create(BUDGETS, pod.work.namespace, objects.budget(pod.work, pod.work.size))

    # -- the process ------------------------------------------------------------------------

    def _crash(self, happening: Happening) -> None:
        loop = self._loop

        def crash() -> None:
            if self._over:
                return
            self._sim.story.tell("world", "the extender is killed")
            self._sim.host.crash()
            loop.call_later(self._sim.chance.between("down", *DOWN), self.start)

        loop.stopped = crash
        loop.stop_at = loop.steps + 1 + int(happening.number)

    def _stop(self, happening: Happening) -> None:
        if self._sim.host.alive:
            down = self._sim.chance.between("down", *DOWN)
            self._loop.create_task(self._restart(self._loop.time() + down))

    async def _restart(self, at: float) -> None:
        """Stop, and start ``at`` that time or when it has stopped: it may stand still meanwhile."""
        await self._sim.host.stop()
        self._loop.call_at(max(at, self._loop.time()), self.start)

    def start(self) -> None:
        """Start the extender, if it does not run."""
        if not self._sim.host.alive:
            self._sim.story.tell("world", "the extender starts")
            self._sim.host.start()

    def _clock(self, happening: Happening) -> None:
        self._sim.host.clock.ahead += happening.number

    # -- watches ----------------------------------------------------------------------------

    def _cut(self, happening: Happening) -> None:
        self._sim.server.cut(happening.name)

    def _break(self, happening: Happening) -> None:
        self._sim.server.cut(happening.name, broken=True)

    def _flap(self, happening: Happening) -> None:
        """Cut the watches again and again, each time after they were open for a while."""
        for turn in range(FLAPS):
            self._loop.call_later(FLAP_SECONDS * turn, self._break, happening)

    def _expire(self, happening: Happening) -> None:
        self._sim.server.expire()

    def _lose_storage(self, happening: Happening) -> None:
        now = self._loop.time()
        self._sim.server.lose_storage(happening.number)
        self._sim.faults.storage_lost(now, now + happening.number)
        # What happens in the meantime is news only then, or when the state is read again; until it
        # is, what was seen before may be acted by for as long as the settings say.
        acted_by = now + self._sim.script.settings.cache.stale_seconds
        self._sim.calm.disturbed += [(now + happening.number, ""), (acted_by, "")]

    def _lose_server(self, happening: Happening) -> None:
        """Nothing can be read; then the server is back before its storage is."""
        now, away = self._loop.time(), happening.number
        without = self._sim.chance.between("without-storage", *WITHOUT_STORAGE)
        self._sim.faults.away(now + away, happening.name)
        self._sim.server.cut(happening.name, broken=True)
        self._loop.call_later(away, self._sim.server.lose_storage, without, happening.name)
        self._sim.faults.storage_lost(now, now + away + without)
        acted_by = now + self._sim.script.settings.cache.stale_seconds
        self._sim.calm.disturbed += [(now + away + without, ""), (acted_by, "")]

    def _silent(self, happening: Happening) -> None:
        until = self._loop.time() + happening.number
        for stream in self._sim.server.streams:
            if happening.name in ("", stream.resource.plural):
                stream.silent_until = until
                # What happens in the meantime is news only then.
                self._sim.calm.disturbed.append((until, ""))
