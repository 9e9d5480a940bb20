"""What machines and networks do that no other happening does: ``MORE["flaky"]`` draws them.

Processes stand still, kubelets are lost, answers to kube-scheduler are lost or asked for twice,
nodes come back under their names, records are spoilt, clocks of two machines jump apart.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from msgspec.structs import replace

from extender.sandbox.resources import BUDGETS, CONFIG_MAPS, NODES
from tests.simulation import dialects, objects
from tests.simulation.happening import Happening
from tests.simulation.objects import MAP_KEY, MERGE, PLAN
from tests.simulation.replicas import Replicas

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

JUMPS = (-86400.0, -3600.0, -30.0, -3.0, 3.0, 30.0, 600.0, 86400.0)
SPOILS = ("cut", "garbage", "emptied", "renamed")


class Mishaps:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._api = simulation.server.api

    # -- processes ----------------------------------------------------------------------------

    def freeze(self, happening: Happening) -> None:
        """The process that acts stands still for ``number`` seconds (SIGSTOP), and goes on."""
        sim = self._sim
        host = sim.host
        one = (host.leader or host.replicas[0]) if isinstance(host, Replicas) else host
        if not one.alive:
            return
        until = sim.loop.freeze(one.owner, happening.number)
        sim.story.tell("world", "a process stands still until", until)
        sim.checks.standing.stands_still(until)
        # What happens in the meantime is news only then.
        sim.calm.disturbed.append((sim.loop.time(), ""))
        sim.calm.disturbed.append((until, ""))

    def clocks(self, happening: Happening) -> None:
        """The clocks of all machines are set, each to another time."""
        host = self._sim.host
        for one in host.replicas if isinstance(host, Replicas) else (host,):
            one.clock.ahead += self._sim.chance.pick("jump", JUMPS)

    def lose_kubelet(self, happening: Happening) -> None:
        """Pods of a node neither start nor end for ``number`` seconds."""
        sim = self._sim
        name = sim.doings.node(happening)
        if name:
            sim.story.tell("world", "the kubelet of", name, "is lost")
            sim.cluster.lost[name] = sim.loop.time() + happening.number

    def lift(self, happening: Happening) -> None:
        """Who holds pods by a finalizer lets go."""
        for work in list(self._sim.state.works.values()):
            if work.held:
                self._sim.cluster.lift(work.name)

    # -- between kube-scheduler and the extender ------------------------------------------------

    def lose_answers(self, happening: Happening) -> None:
        """For ``number`` seconds half of the answers to kube-scheduler are lost."""
        sim = self._sim
        sim.asking.lost_until = sim.loop.time() + happening.number
        sim.calm.disturbed.append((sim.loop.time() + happening.number, ""))

    def ask_again(self, happening: Happening) -> None:
        """Something between the two repeats questions of a while ago; nobody hears the answers."""
        self._sim.asking.repeat()

    # -- objects ------------------------------------------------------------------------------

    def remake_node(self, happening: Happening) -> None:
        """A node is deleted, and one of its name registers ``number`` seconds later."""
        sim = self._sim
        name = sim.doings.node(happening)
        if not name:
            return
        cpu = sim.chance.pick("remade", (4, 4, 3, 2))
        sim.checks.standing.shrunk.add(name)
        sim.calm.disturbed.append((sim.loop.time(), ""))
        sim.calm.disturbed.append((sim.loop.time() + happening.number, ""))
        sim.story.tell("world", "node", name, "is deleted")
        self._api.delete(NODES, "", name)

        def register() -> None:
            if name not in sim.state.sizes:
                sim.story.tell("world", "node", name, "is back with", str(cpu))
                self._api.create(NODES, "", objects.node(name, cpu))

        sim.loop.call_later(happening.number, register)

    def loosen(self, happening: Happening) -> None:
        """A PodGroup that goes whole is made anew as one whose pods go one by one."""
        sim, edits = self._sim, self._sim.doings.edits
        work = edits.work_of(happening)
        if work is None or work.dialect != dialects.CORE or not work.whole:
            return
        sim.story.tell("world", work.name, "goes one by one from now on")
        edits.remake_group(work, replace(work, whole=False))

    def remake_namespace(self, happening: Happening) -> None:
        """The namespace is deleted, and all that was in it made anew under the same names."""
        sim, edits = self._sim, self._sim.doings.edits
        works = [work for work in sim.cluster.works.values() if sim.cluster.pods_of(work.name)]
        names = {work.name: [_name(p) for p in sim.cluster.pods_of(work.name)] for work in works}
        again = sim.loop.time() + happening.number
        for work in works:
            del sim.cluster.works[work.name]
            sim.story.tell("world", work.name, "goes with its namespace")
            sim.calm.disturbed += [(sim.loop.time(), work.name), (again, work.name)]
            if work.gang and edits.has_group(work):
                edits.drop_group_of(work)
            for pod in sim.cluster.pods_of(work.name):
                sim.cluster.delete(pod)
        for budget in list(sim.server.storage.all(BUDGETS.key, "default")):
            self._api.delete(BUDGETS, "default", _name(budget))

        def back() -> None:
            for work in works:
                new = replace(work, on=())
                edits.changed(work, new)
                sim.cluster.works[work.name] = new
                if work.gang:
                    edits.make_group(new)
                for name in names[work.name]:
                    sim.cluster.again(new, name)

        sim.loop.call_at(again, back)

    def spoil_records(self, happening: Happening) -> None:
        """Somebody writes nonsense into the plan records."""
        sim = self._sim
        sim.checks.hands_off = False
        sim.checks.standing.records_lost = True
        for item in list(sim.server.storage.all(MAP_KEY)):
            meta = item["metadata"]
            if PLAN not in (meta.get("labels") or {}):
                continue
            how = sim.chance.pick("spoil", SPOILS)
            sim.story.tell("world", "spoils", meta["name"], how)
            patch = _spoilt(item, how)
            sim.checks.spoilt.add(meta["name"])
            self._api.patch(CONFIG_MAPS, meta["namespace"], meta["name"], patch, MERGE)


def _name(obj: objects.Obj) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _spoilt(item: objects.Obj, how: str) -> objects.Obj:
    key = "binaryData" if item.get("binaryData") else "data"
    data = item.get(key) or {}
    if how == "renamed":
        marks = dict.fromkeys(item["metadata"].get("annotations") or {}, "nonsense")
        return {"metadata": {"annotations": marks}}
    if how == "emptied":
        return {key: dict.fromkeys(data)}
    if how == "cut":
        return {key: {name: text[: len(text) // 8 * 4] for name, text in data.items()}}
    nonsense = base64.b64encode(b"\x00nonsense").decode()
    return {key: dict.fromkeys(data, nonsense)}
