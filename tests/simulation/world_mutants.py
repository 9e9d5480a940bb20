"""Mistakes that only the worlds of ``--more`` can find: one and more for each."""

from __future__ import annotations

import asyncio
from typing import Any

from extender.cache.reflector import Reflector
from extender.gang.controller.preconditions import Preconditions
from extender.gang.core.last_check import LastCheck
from extender.gang.core.preemption import _Step
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.scheduler_view.node_lists import NodeLists
from tests.simulation.client import SimClient
from tests.simulation.host import Host, fill
from tests.simulation.mutant import Mutant

Patches = list[tuple[Any, str, Any]]


def _acts_for_whom_it_was_to() -> Patches:
    """Whom it acts for is looked at when a plan is made, and never again."""
    return [(LastCheck, "not_for", lambda self, namespace: "")]


def _observe_mode_acts() -> Patches:
    """A process with mode observe has a coordinator."""

    async def act(self: Any, client: SimClient, stop: asyncio.Event) -> None:
        cache = self._cache_of(client, self._random())
        coordinator = self._coordinate(client, cache, self._random(), None)
        self._listen(cache, coordinator)
        await fill(cache)
        await self._act(coordinator, stop)

    return [(Host, "_observe", act)]


def _urgent_for_ever() -> Patches:
    """How urgent a victim is is looked at when a plan is made, and never again."""
    return [
        (LastCheck, "of_victim", lambda self, victim, priority, *, alone: ""),
        (LastCheck, "of_unit", lambda self, victims, priority, shown: ""),
    ]


def _as_urgent_as_it_was() -> Patches:
    """So is how urgent the gang of a plan is."""
    no_longer = Preconditions.no_longer

    def asked(self: Any, preemption: Any, *, evicts: bool = False) -> str:
        return no_longer(self, preemption)

    return [(Preconditions, "no_longer", asked)]


def _goes_on_from_what_is_lost() -> Patches:
    """A watch goes on from its version whatever has become of the storage."""

    async def never(self: Any) -> None:
        return

    return [(Reflector, "_ask_version", never)]


def _resized_unseen() -> Patches:
    """Plans are not compared when a pod is resized."""
    return [(_Step, "_resized", lambda self, old, pod: None)]


def _refused_for_good() -> Patches:
    """A refusal for want of a scheduler stands though that one asks."""
    return [(NodeLists, "version", lambda self: 0)]


def _robbed_and_to_blame() -> Patches:
    """Who came to a seat without an offer is not noted: the gang itself has failed."""
    return [(Reservations, "unadmitted", lambda self, pod: None)]


def _rules_asked_once() -> Patches:
    """What keeps members off open seats by a rule is kube-scheduler's secret."""
    ground = _Step._ground

    def unasked(self: _Step, preemption: Preemption) -> None:
        preemption.unchecked = False
        ground(self, preemption)

    return [(_Step, "_ground", unasked)]


def _past_budgets() -> Patches:
    """No pod counts as covered by a budget when it goes."""
    return [(LastCheck, "budgeted", lambda self, victims, priority: frozenset())]


WORLD_MUTANTS = tuple(
    Mutant(name, 0, rules, patches, seeds, more=(more,))
    for name, rules, patches, seeds, more in (
        ("acts-for-whom-it-was-to", ("unchosen",), _acts_for_whom_it_was_to, (7, 24), "enforcing"),
        ("observe-mode-acts", ("wrote",), _observe_mode_acts, (1, 6), "enforcing"),
        ("urgent-for-ever", ("priority",), _urgent_for_ever, (93,), "priorities"),
        ("as-urgent-as-it-was", ("overrated",), _as_urgent_as_it_was, (618,), "priorities"),
        ("goes-on-from-what-is-lost", ("blind",), _goes_on_from_what_is_lost, (71,), "restored"),
        ("resized-unseen", ("partial",), _resized_unseen, (1283,), "resizes"),
        ("refused-for-good", ("preempts",), _refused_for_good, (10,), "profiles"),
        ("robbed-and-to-blame", ("preempts",), _robbed_and_to_blame, (1770,), "squatters"),
        ("rules-asked-once", ("preempts",), _rules_asked_once, (131,), "squatters-by-rule"),
        ("past-budgets", ("budget",), _past_budgets, (14, 34), "budgets"),
    )
)
