"""Mistakes that are put back into the machine of preemptions, to see that each is found."""

from __future__ import annotations

from typing import Any

from extender.gang.core import preemption as machine
from extender.gang.core import victim_group
from extender.gang.core.preemption import Recorded, Rehearsed
from extender.gang.core.reservations import Reservations
from extender.gang.core.victim_group import Released
from extender.gang.tell.preemption_state import PreemptionState
from tests.explorer.mistakes import Mistake, Patches
from tests.explorer.preemption_world import VICTIMS, PreemptionWorld, Setting

Step = machine._Step


def _opens_early() -> Patches:
    """Accepted is as good as gone."""
    advance = Step._advance

    def early(self: Any, preemption: Any, *, checked: bool = False) -> None:
        kept = preemption.victims
        if kept.keys() <= preemption.sent:
            preemption.victims = {}
        advance(self, preemption, checked=checked)
        preemption.victims = kept

    return [(Step, "_advance", early)]


def _record_not_waited_for() -> Patches:
    planned = Step._planned

    def hasty(self: Any, preemption: Any, event: Any) -> None:
        planned(self, preemption, event)
        if isinstance(event, Rehearsed) and not preemption.over:
            planned(self, preemption, Recorded(preemption.id))

    return [(Step, "_planned", hasty)]


def _budgets_are_not_read() -> Patches:
    return [(Step, "_allowed", lambda self, preemption, event: True)]


def _seats_stay() -> Patches:
    return [(Reservations, "close", lambda self, key: None)]


def _member_gone_is_nothing() -> Patches:
    """Neither when it is seen nor when the plan is compared."""

    def problem(self: Any, preemption: Any) -> str:
        return "a node is gone" if self.lost_node in preemption.seats.values() else ""

    lost = (Step, "_member_lost", lambda self, pod: None)
    return [lost, (PreemptionWorld, "problem", problem)]


def _changing_evicts() -> Patches:
    """A plan that is changed lets go of no group, and its requests leave."""
    victims = Step._victims

    def keeps(self: Any, event: Any) -> None:
        changing = any(plan.state is PreemptionState.CHANGING for plan in self.book)
        if not (changing and isinstance(event, Released)):
            victims(self, event)

    def always(plans: Any, uid: str, view: Any) -> Any:
        untouched = victim_group.permits(plans.victims, uid, view)
        return bool(untouched), None

    return [(Step, "_victims", keeps), (machine, "permits", always)]


def _record_is_left() -> Patches:
    return [(Step, "_records_over", lambda self, preemption: None)]


def _ground_is_not_looked_at() -> Patches:
    return [(Step, "_ground", lambda self, preemption: None)]


def _wanted_is_left() -> Patches:
    leave = Step._leave

    def leaves(self: Any, preemption: Any) -> None:
        wanted = {uid: set(keys) for uid, keys in self.plans.wanted.items()}
        leave(self, preemption)
        self.plans.wanted.update(wanted)

    return [(Step, "_leave", leaves)]


def _wanted_by_one_alone() -> Patches:
    """The end of a plan makes pods unwanted that another one wants gone."""
    leave = Step._leave

    def forgets(self: Any, preemption: Any) -> None:
        leave(self, preemption)
        for victim in preemption.plan.victims:
            self.plans.wanted.pop(victim.uid, None)

    return [(Step, "_leave", forgets)]


def _one_plan_lets_go_for_all() -> Patches:
    """The end of a plan releases a victim group for every plan."""
    victims = Step._victims

    def releases(self: Any, event: Any) -> None:
        victims(self, event)
        if isinstance(event, Released):
            for plan_id in list(self.plans.victims.plans):
                victims(self, Released(plan_id))

    return [(Step, "_victims", releases)]


def _tick_does_not_advance() -> Patches:
    return [(Step, "_progress", lambda self, preemption: None)]


def _resumed_is_open() -> Patches:
    """A plan that goes on after a restart is taken for one whose room is there."""
    resume = Step._resume

    def opens(self: Any, preemption: Any) -> None:
        resume(self, preemption)
        if not preemption.over:
            self._enter(preemption, PreemptionState.OPEN)

    return [(Step, "_resume", opens)]


def _unharmed_is_not_watched() -> Patches:
    """After a restart, before its plan claims it."""
    claim = PreemptionWorld.claim

    def begun_alone(self: Any, id: str, uids: frozenset[str]) -> None:
        if self.here != VICTIMS:
            claim(self, id, uids)

    return [(PreemptionWorld, "claim", begun_alone)]


PLAN_MISTAKES = (
    Mistake("the seats open before the last victim is gone", Setting(), _opens_early),
    Mistake("the record is not waited for", Setting(), _record_not_waited_for),
    Mistake("the budgets are not read", Setting(budgets=1), _budgets_are_not_read),
    Mistake("the end leaves the seats held", Setting(), _seats_stay),
    Mistake("a member's end is not the plan's", Setting(deletions=1), _member_gone_is_nothing),
    Mistake("a plan that is changed evicts", Setting(doubts=1), _changing_evicts),
    Mistake("the end leaves the record", Setting(), _record_is_left),
    Mistake("nodes are not looked at again", Setting(nodes=1), _ground_is_not_looked_at),
    Mistake("the end leaves pods wanted gone", Setting(doubts=1), _wanted_is_left),
    Mistake(
        "the end makes pods unwanted for all", Setting(equal=1, doubts=1), _wanted_by_one_alone
    ),
    Mistake(
        "the end lets a group go for all", Setting(equal=1, doubts=1), _one_plan_lets_go_for_all
    ),
    Mistake("a tick does not open the seats", Setting(crowds=1), _tick_does_not_advance),
    Mistake("a plan is open after a restart", Setting(kills=1), _resumed_is_open),
    Mistake(
        "a restart watches no group that is unharmed",
        Setting(rehearsals=1, kills=1),
        _unharmed_is_not_watched,
    ),
    Mistake("a restart forgets the record", Setting(kills=1, forgetful=True)),
    Mistake("the lease is not asked", Setting(leases=1, unasked=True)),
)
