"""Mistakes that are put back into the machine of victim groups, to see that each is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import PropertyMock

from msgspec import Struct

from extender.gang.core import victim_group as machine
from extender.gang.core.victim_group import Phase, Tables, VictimGroup
from tests.explorer import preemption_world
from tests.explorer.victim_world import Setting, VictimWorld
from tests.simulation.mutant import made

Patches = list[tuple[Any, str, Any]]
NONE = Setting(plans=1, kills=0, lost=0, strangers=0, refusals=0)


class Mistake(Struct, frozen=True):
    """A patch of the machine, or of what is around it, and a world that is small enough."""

    name: str
    setting: Setting | preemption_world.Setting
    patches: Callable[[], Patches] = lambda: []

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make it for a while."""
        with made(self.patches()):
            yield


def _lets_go_in_doubt() -> Patches:
    return [(VictimGroup, "in_doubt", PropertyMock(return_value=False))]


def _record_forgets_doubt() -> Patches:
    def owed(self: Tables, plan_id: str) -> list[Any]:
        states = [s for g in self.of_plan(plan_id) for s in g.there(g.claims[plan_id])]
        return [s.victim for s in states if s.must and s.phase is not Phase.ACCEPTED]

    return [(Tables, "owed", owed)]


def _seen_going_is_not_ours() -> Patches:
    def seen(tables: Tables, state: Any) -> None:
        machine._enter(tables, state, Phase.ACCEPTED)

    return [(machine, "_seen", seen)]


def _seen_going_is_ours() -> Patches:
    apply = machine._apply

    def hasty(tables: Tables, event: Any, now: float, view: Any, out: Any) -> None:
        apply(tables, event, now, view, out)
        seen = isinstance(event, machine.SeenGoing | machine.SeenGone)
        if seen and (state := tables.left.get(event.uid)) is not None:
            machine._touch(tables, state)

    return [(machine, "_apply", hasty)]


def _no_watch() -> Patches:
    return [(machine, "_watch", lambda group, now, out: None)]


def _touches_one() -> Patches:
    return [(machine, "_touch", lambda tables, state: machine._must(state))]


def _one_end_for_all() -> Patches:
    apply = machine._apply

    def released(tables: Tables, event: Any, now: float, view: Any, out: Any) -> None:
        apply(tables, event, now, view, out)
        if isinstance(event, machine.Released):
            for group in tables.of_plan(event.plan_id):
                for claim in group.claims.values():
                    claim.released = True

    return [(machine, "_apply", released)]


def _refused_for_good() -> Patches:
    def rest(state: Any, now: float, out: Any, asked: float = 0.0) -> None:
        state.resting = True

    return [(machine, "_rest", rest)]


def _not_there_was_never_ours() -> Patches:
    """A 404 to a request that is sent again says nothing of the one before it."""
    apply = machine._apply

    def forgets(tables: Tables, event: Any, now: float, view: Any, out: Any) -> None:
        if isinstance(event, machine.Answered) and event.answer is machine.Answer.GONE:
            state = tables.left[event.uid]
            state.was_unknown = False
            for group in state.groups:
                group.watched_until = 0.0
        apply(tables, event, now, view, out)

    return [(machine, "_apply", forgets)]


def _nobody_is_on_its_way() -> Patches:
    return [(VictimWorld, "on_its_way", lambda self, name: False)]


MISTAKES = (
    Mistake(
        "evicts before the record is there",
        Setting(plans=1, kills=0, lost=0, strangers=0, refusals=0, hasty=True),
    ),
    Mistake("lets go of pods while one is asked for", NONE, _lets_go_in_doubt),
    Mistake(
        "the record forgets pods in doubt",
        Setting(plans=1, kills=1, lost=0, strangers=0, refusals=0),
        _record_forgets_doubt,
    ),
    Mistake(
        "a restart forgets what has gone",
        Setting(plans=1, kills=1, lost=0, strangers=0, refusals=0, forgetful=True),
    ),
    Mistake(
        "a pod seen going while it is asked for is not ours",
        Setting(plans=1, kills=0, lost=1, strangers=0, refusals=0),
        _seen_going_is_not_ours,
    ),
    Mistake(
        "a pod seen going while it is asked for is ours, whatever the answer",
        Setting(plans=1, kills=0, lost=0, strangers=1, refusals=1),
        _seen_going_is_ours,
    ),
    Mistake(
        "a lost request is not watched for",
        Setting(plans=1, kills=0, lost=1, strangers=0, refusals=0),
        _no_watch,
    ),
    Mistake("only the pod itself must finish", NONE, _touches_one),
    Mistake(
        "one plan's end is the end of all",
        Setting(plans=2, kills=0, lost=0, strangers=0, refusals=0),
        _one_end_for_all,
    ),
    Mistake(
        "a refusal is for good",
        Setting(plans=1, kills=0, lost=0, strangers=0, refusals=1),
        _refused_for_good,
    ),
    Mistake(
        "a request sent twice that finds nothing is not ours",
        Setting(plans=1, kills=0, lost=1, strangers=0, refusals=0),
        _not_there_was_never_ours,
    ),
    Mistake(
        "a member on its way is not waited for",
        Setting(plans=1, kills=0, lost=0, strangers=0, refusals=0, late=True),
        _nobody_is_on_its_way,
    ),
)
