"""The parts of a term that plan, act and open seats, each made of those before it.

What runs back from a later part to an earlier one goes through the coordinator: ``ended`` notes
each preemption that ends, ``search_again`` searches for another plan in the place of one that does
not hold any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from extender.gang.bind_barrier.bindings import Bindings
from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.booking.bookings import Bookings
from extender.gang.controller.answering import Answering
from extender.gang.controller.planner_thread import PlannerThread
from extender.gang.controller.planning_rounds import PlanningRounds
from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.controller.verb_patience import VerbPatience
from extender.gang.core.preemptions import PreemptionEnded, Preemptions, SearchAgain
from extender.gang.core.refused_seats import RefusedSeats
from extender.gang.fairness.admission import Admission
from extender.gang.fairness.eviction_history import EvictedStore, EvictionHistory
from extender.gang.fairness.suspensions import Suspensions
from extender.gang.plan.planner import Planner


@dataclass(frozen=True)
class Acting:
    """Who may act for which gang, and the plans in flight as transactions."""

    keeper: RecordWriter
    admission: Admission
    preemptions: Preemptions
    eviction_history: EvictionHistory


@dataclass(frozen=True)
class Planning:
    """From a gang that waits to a plan: who is asked, in which turn, by which thread."""

    thread: PlannerThread
    turns: SchedulingCycle
    bookings: Bookings
    answering: Answering
    rounds: PlanningRounds


@dataclass(frozen=True)
class Seating:
    """What becomes of open seats: refused by kube-scheduler, or bound."""

    refused_seats: RefusedSeats
    partly_bound: PartlyBound
    bindings: Bindings


def acting_of(
    term: Term,
    reading: Reading,
    telling: Telling,
    *,
    ended: PreemptionEnded,
    search_again: SearchAgain,
) -> Acting:
    """Return what acts on plans; nothing is in flight yet."""
    records = term.records
    records.told = lambda aside: telling.notices.record_aside(records.namespace, aside)
    keeper = RecordWriter(records, term.leadership, telling.background)
    preemptions = Preemptions(term, reading, telling, keeper, ended, search_again)
    return Acting(
        keeper=keeper,
        admission=Admission(
            term.settings,
            term.clocks,
            reading.reservations,
            reading.evidence,
            Suspensions(term.suspended, term.leadership, telling.background, term.clocks),
            telling.notices,
        ),
        preemptions=preemptions,
        eviction_history=_eviction_history(term, reading, telling, preemptions),
    )


def planning_of(term: Term, reading: Reading, telling: Telling, acting: Acting) -> Planning:
    """Return what answers the question for a plan."""
    thread = PlannerThread(
        lambda: Planner(term.settings, term.resolver),
        term.settings.plan.seconds,
        term.settings.plan.overrun_seconds,
        term.clocks,
        term.heartbeats,
    )
    turns = SchedulingCycle(term, reading, telling, thread, acting.admission, acting.preemptions)
    bookings = Bookings(
        term.settings,
        reading.reservations,
        acting.preemptions.preconditions,
        reading.gangs,
        term.source,
        term.clocks,
    )
    turns.booked = bookings.holds_against
    answering = Answering(
        reading,
        telling.decisions,
        acting.admission,
        turns,
        VerbPatience(telling.background, term.clocks, term.settings.plan.seconds),
    )
    rounds = PlanningRounds(term, reading, acting.admission, turns, answering, bookings, telling)
    return Planning(thread, turns, bookings, answering, rounds)


def seating_of(term: Term, reading: Reading, telling: Telling, preemptions: Preemptions) -> Seating:
    """Return what looks after seats from when they are open."""
    refused_seats = RefusedSeats(preemptions, term.clocks, reading.evidence, telling.notices.calls)
    partly_bound = PartlyBound(term, reading, telling, preemptions)
    bindings = Bindings(term, telling.background, preemptions, partly_bound, refused_seats)
    return Seating(refused_seats, partly_bound, bindings)


def _eviction_history(
    term: Term, reading: Reading, telling: Telling, preemptions: Preemptions
) -> EvictionHistory:
    """Return who was evicted before, which ``preemptions`` adds to and is spared by."""
    protection = term.settings.fairness.protection
    store = None
    if term.evicted is not None and protection.enabled:
        records = term.records
        store = EvictedStore(
            term.evicted,
            records.namespace,
            records.signer,
            term.leadership,
            telling.background,
        )
    history = EvictionHistory(protection, store, term.clocks, reading.gangs)
    preemptions.units.taken, preemptions.units.sent = history.taken, history.sent
    preemptions.preconditions.spared = history.spared
    return history
