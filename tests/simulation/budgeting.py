"""``MORE["budgets"]``: disruption budgets of several kinds, and pods that are not ready at times.

A budget covers all pods of a work, and lets none, some or all of them go; some let those go that
are not ready, whatever they count. The sandbox answers evictions as the Eviction API does, and
counts as the disruption controller does. Nothing may pass a budget over by a plain DELETE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from extender.sandbox.list_selectors import selects
from extender.sandbox.resources import BUDGETS, PODS
from extender.sandbox.storage import ADDED, Storage, StorageChange
from tests.simulation import objects
from tests.simulation.chance import Chance
from tests.simulation.client import Request
from tests.simulation.happening import Happening
from tests.simulation.moments import near, with_happenings
from tests.simulation.objects import BUDGET_KEY
from tests.simulation.script import Script

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

KNOWN = 3.0
"""Seconds after which a budget is known to who has been shown something meanwhile."""
ALWAYS = "AlwaysAllow"


def budgeting(script: Script, chance: Chance) -> Script:
    """One to four budgets over what runs, half of them from the start, and pods not ready."""
    found = []
    for _ in range(chance.number("budgets", 1, 4)):
        one = Happening(
            kind="cover",
            at=0.1,
            name=chance.pick("budget-policy", ("", "", ALWAYS)),
            number=chance.pick("budget-spares", (0.0, 0.0, 1.0, 2.0, 9.0)),
        )
        found.append(one if chance.hit("budget-early", 0.5) else near(chance, "budget-at", one))
    for _ in range(chance.number("unready", 1, 4)):
        seconds = chance.pick("unready-for", (0.5, 3.0, 20.0))
        found.append(near(chance, "unready", Happening(kind="unready", at=0.0, number=seconds)))
    return with_happenings(script, found)


class Budgeting:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._api = simulation.server.api

    def cover(self, happening: Happening) -> None:
        """A work whose pods run, or are victims, gets a budget that spares ``number`` of them."""
        pods = self._sim.doings.victims()
        pods.sort(key=lambda pod: pod.name)
        if not pods:
            return
        work = self._sim.chance.pick("covered", pods).work
        made = objects.budget(work, max(0, work.size - int(happening.number)))
        if happening.name:
            made["spec"]["unhealthyPodEvictionPolicy"] = happening.name
        self._api.create(BUDGETS, work.namespace, made)

    def unready(self, happening: Happening) -> None:
        """A pod that runs, or is a victim, is not ready for ``number`` seconds."""
        pods = sorted(self._sim.doings.victims(), key=lambda pod: pod.name)
        if pods:
            pod = self._sim.chance.pick("not-ready", pods)
            self._set(pod.uid, pod.work.namespace, pod.name, "False")
            self._sim.loop.call_later(
                happening.number, self._set, pod.uid, pod.work.namespace, pod.name, "True"
            )

    def _set(self, uid: str, namespace: str, name: str, ready: str) -> None:
        pod = self._api.storage.get(PODS.key, namespace, name)
        if (
            pod is not None
            and pod["metadata"]["uid"] == uid
            and pod["status"]["phase"] == "Running"
        ):
            self._sim.story.tell("world", name, "is ready" if ready == "True" else "is not ready")
            self._api.set_status(PODS, pod, {"conditions": [{"type": "Ready", "status": ready}]})


class BudgetChecks:
    """No pod that a known budget covers goes without the Eviction API being asked."""

    def __init__(
        self, storage: Storage, broken: Callable[[str, str], None], time: Callable[[], float]
    ) -> None:
        self._storage = storage
        self._broken = broken
        self._time = time
        self._since: dict[str, float] = {}
        """Uid of a budget -> when it was made."""
        storage.observe(self._see)

    def sent(self, request: Request) -> None:
        """A request leaves."""
        if not request.evicts or request.budgeted or request.dry:
            return
        namespace = request.path.split("/namespaces/")[1].split("/")[0]
        pod = self._storage.get(PODS.key, namespace, request.pod_name)
        if pod is None or pod["metadata"]["uid"] != request.uid:
            return
        if pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
            return  # the Eviction API asks no budget about it
        least = self._time() - request.age - KNOWN
        for budget in self._storage.all(BUDGET_KEY, namespace):
            covers = selects(budget["spec"].get("selector"), pod["metadata"]["labels"])
            if covers and self._since.get(budget["metadata"]["uid"], 0.0) < least:
                self._broken("budget", f"{request.pod_name} goes past its budget")

    def _see(self, change: StorageChange) -> None:
        if change.resource == BUDGET_KEY and change.type == ADDED:
            self._since[change.new["metadata"]["uid"]] = self._time()
