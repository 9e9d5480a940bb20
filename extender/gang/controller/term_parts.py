"""The parts of a term that plan, act and open seats, each made of those before it.

What runs back from a later part to an earlier one goes through the coordinator: ``others`` does
what a step of a plan asks of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.gang.bind_barrier.bindings import Bindings
from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.booking.bookings import Bookings
from extender.gang.controller.answering import Answering
from extender.gang.controller.executor import Executor, ForOthers
from extender.gang.controller.planner_thread import PlannerThread
from extender.gang.controller.planning_rounds import PlanningRounds
from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.scheduling_cycle import SchedulingCycle
from extender.gang.controller.term import Reading, Telling, Term
from extender.gang.controller.verb_patience import VerbPatience
from extender.gang.core.last_check import LastCheck
from extender.gang.core.preconditions import Preconditions
from extender.gang.core.preemption import Plans
from extender.gang.core.refusals import Refusals
from extender.gang.core.refused_seats import RefusedSeats
from extender.gang.core.victim_group import Tables
from extender.gang.fairness.admission import Admission
from extender.gang.fairness.eviction_history import EvictedStore, EvictionHistory
from extender.gang.fairness.suspensions import Suspensions
from extender.gang.plan.planner import Planner


@dataclass(frozen=True)
class Acting:
    """Who may act for which gang, and the plans in flight as transactions."""

    keeper: RecordWriter
    admission: Admission
    executor: Executor
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
    others: Callable[[ForOthers], None],
) -> Acting:
    """Return what acts on plans; nothing is in flight yet."""
    records = term.records
    records.told = lambda aside: telling.notices.record_aside(records.namespace, aside)
    keeper = RecordWriter(records, term.leadership, telling.background)
    history = _eviction_history(term, reading, telling)
    settings, evictor = term.settings, term.evictor
    patience, refusals = settings.seats.victim_slack_seconds, Refusals(term.clocks.monotonic)
    victims = Tables(evictor.concurrency, evictor.attempts, patience, refusals)
    plans = Plans(
        reservations=reading.reservations,
        victims=victims,
        offers=reading.offers,
        settings=settings,
    )
    check = LastCheck(reading.source, reading.gangs, settings)
    preconditions = Preconditions(
        plans, check, reading.offers, reading.evidence, reading.readiness, history
    )
    executor = Executor(term, telling, plans, preconditions, keeper, others)
    admission = Admission(
        settings,
        term.clocks,
        reading.reservations,
        reading.evidence,
        Suspensions(term.suspended, term.leadership, telling.background, term.clocks),
        telling.notices,
    )
    return Acting(keeper, admission, executor, history)


def planning_of(term: Term, reading: Reading, telling: Telling, acting: Acting) -> Planning:
    """Return what answers the question for a plan."""
    thread = PlannerThread(
        lambda: Planner(term.settings, term.resolver),
        term.settings.plan.seconds,
        term.settings.plan.overrun_seconds,
        term.clocks,
        term.heartbeats,
    )
    turns = SchedulingCycle(term, reading, telling, thread, acting.admission, acting.executor)
    bookings = Bookings(
        term.settings,
        reading.reservations,
        acting.executor.preconditions,
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
        acting.executor,
        VerbPatience(telling.background, term.clocks, term.settings.plan.seconds),
    )
    rounds = PlanningRounds(term, reading, acting.admission, turns, answering, bookings, telling)
    return Planning(thread, turns, bookings, answering, rounds)


def seating_of(term: Term, reading: Reading, telling: Telling, executor: Executor) -> Seating:
    """Return what looks after seats from when they are open."""
    refused_seats = RefusedSeats(
        executor, reading.reservations, term.clocks, reading.evidence, telling.notices.calls
    )
    partly_bound = PartlyBound(term, reading, telling, executor)
    bindings = Bindings(term, telling.background, executor, partly_bound, refused_seats)
    return Seating(refused_seats, partly_bound, bindings)


def _eviction_history(term: Term, reading: Reading, telling: Telling) -> EvictionHistory:
    """Return who was evicted before."""
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
    return EvictionHistory(protection, store, term.clocks, reading.gangs)
