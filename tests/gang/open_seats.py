"""A gang of two with open seats, for tests of what kube-scheduler makes of them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from msgspec.structs import replace

from extender.gang.controller.hints import Requeuing
from extender.gang.core.preemption import DoesNotHold
from extender.gang.core.refused_seats import RefusedSeats
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import Pod
from tests.gang.world import bare_plan, gang_key, pod


class Seats:
    """Refused seats of a gang of two, on a clock of their own; nobody is really called."""

    def __init__(self) -> None:
        self.now = 100.0
        self.called: list[str] = []
        self.changed: list[str] = []
        self.masked: dict[str, frozenset[str]] = {}
        """What the last change leaves out whatever comes."""
        self.ends: list[Callable[[], None]] = []
        """What is to be done when a put-off ends."""
        self.one, self.other = pod("one"), pod("other")
        self.preemption = Preemption(
            plan=bare_plan(gang_key("g")),
            pods={each.uid: each for each in (self.one, self.other)},
            seats={self.one.uid: "n1", self.other.uid: "n2"},
            state=PreemptionState.OPEN,
            since=0.0,
        )
        self.reservations = reservations = Reservations()
        reservations.open_preemption(self.preemption, ())
        calls = SimpleNamespace(
            needs_nominations=lambda: True,
            again=lambda preemption, uid: None,
            after=lambda preemption, seconds, work: self.ends.append(work),
            now=lambda preemption, uids: self.called.extend(uids),
        )
        self.evidence = NodeLists(Clocks(lambda: self.now))
        self.refused = RefusedSeats(
            self,
            reservations,
            Clocks(lambda: self.now),
            self.evidence,
            cast(Requeuing, calls),
        )

    def starts(self) -> bool:
        """Whether the start may begin with the one."""
        return self.refused.starts_with(self.preemption, self.one, alone=True)

    def misses(self, *others: str) -> None:
        """The other is not offered its seat: a list has only ``others``; none: it is to preempt."""
        self.refused.seat_not_offered(self.preemption, self.other, frozenset(others))
        self.checked()

    def clears(self, member: Pod) -> None:
        """The nomination of a member to its seat is cleared."""
        seat = self.preemption.seats[member.uid]
        self.refused.observe(replace(member, nominated=seat), member)
        self.checked()

    def checked(self) -> None:
        """Our own rules have nothing against the seats."""
        self.preemption.unchecked, self.preemption.clear_from = False, self.now

    def feed(self, event: DoesNotHold) -> None:
        """A seat is refused: the plan is to be changed."""
        self.changed.append(event.why)
        self.masked = dict(event.masks or {})

    def waits_on(self, node: str, priority: int, gang: str = "another") -> None:
        """Another gang has a seat there, and waits for a pod to go from it."""
        waits = pod(f"{gang}-waits", priority=priority)
        preemption = Preemption(
            plan=replace(bare_plan(gang_key(gang)), priority=priority),
            pods={waits.uid: waits},
            seats={waits.uid: node},
            state=PreemptionState.WAITING,
            since=0.0,
        )
        self.reservations.open_preemption(preemption, [(node, "going", (("cpu", 2000),))])

    def left_out(self) -> frozenset[str]:
        """The nodes that do not count for members like the other."""
        gang = Gang(key=gang_key("g"), members=(self.other,), min_count=1)
        return self.evidence.masks(gang, ("n1", "n2")).get(self.other.uid, frozenset())
