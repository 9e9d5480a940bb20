"""Rounds of booked starts by hand: real searches on a cluster that a test changes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from extender.gang.act.book import Book
from extender.gang.act.bookings import FAILED_SECONDS, Bookings
from extender.gang.act.clocks import Clocks
from extender.gang.act.planner_thread import Overran
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.fairness import FairnessSettings
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Node, Pod, PodShape
from extender.model.plan import Code, Hold, Plan, Refusal
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot
from tests.gang.world import NOW, gang_key, group, node, pod, snapshot


class Desk:
    """Bookings over a cluster of nodes that batch pods fill; all its gangs were refused."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod], **settings: float) -> None:
        self.nodes = list(nodes)
        self.pods = list(pods)
        self.groups: list[GroupObject] = []
        self.seconds = 0.0
        self.asked: list[GangKey] = []
        self.failed: list[str] = []
        self.beats = 0
        self.search_seconds = 0.0
        """For how long the planner works on a question."""
        self.unreadable: set[str] = set()
        """Gangs that cannot be resolved."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while the planner works."""
        self._generation = 0
        self._resolver = Resolver(Settings().groups)
        self._planner = Planner(Settings(), self._resolver)
        self.book = Book()
        self.state = self.look()
        wanted = {"patience_seconds": 1.0, "idle_share": 1.0, **settings}
        self.bookings = Bookings(
            FairnessSettings(booking=True, **wanted),  # type: ignore[arg-type]
            self.book,
            Clocks(monotonic=lambda: self.seconds, wall=lambda: NOW + self.seconds),
            lambda: self.state,
            self.resolve,
            lambda key: Refusal(gang=key, code=Code.INFEASIBLE, message="it fits nowhere"),
            self.search,
            beat=self.beat,
            failed=lambda key, error: self.failed.append(f"{key.name}: {error}"),
        )

    def beat(self) -> None:
        self.beats += 1

    def look(self) -> Snapshot:
        """The cluster as it is now."""
        self._generation += 1
        self.state = snapshot(
            self.nodes,
            self.pods,
            self.groups,
            generation=self._generation,
            now=NOW + self.seconds,
        )
        return self.state

    def resolve(self, key: GangKey) -> Gang:
        if key.name in self.unreadable:
            raise ValueError("unreadable")
        return self._resolver.resolve(key, self.state)

    async def search(self, gang: Gang, state: Snapshot, holds: tuple[Hold, ...]) -> Plan | Refusal:
        self.asked.append(gang.key)
        self.seconds += self.search_seconds
        answer = self._planner.plan(GangQuestion(gang, state, holds))
        self.meanwhile()
        return answer

    def gang(self, name: str, count: int, priority: int, zone: str = "") -> None:
        """A gang whose members need a whole node each; ``zone``: of those with that label."""
        shape = PodShape(node_selector=(("zone", zone),)) if zone else None
        self.groups.append(group(name, count, priority=priority))
        self.pods += [
            pod(f"{name}-{i}", group=name, priority=priority, shape=shape) for i in range(count)
        ]
        self.look()

    async def round(self, seconds: float = 0.0) -> None:
        """One round, after so long."""
        self.seconds += seconds
        self.look()
        await self.bookings.round([gang_key(each.name) for each in self.groups])

    @property
    def booked(self) -> set[str]:
        told = self.bookings.describe()
        return {each["gang"].split("/")[-1] for each in told if each["booked"]}


def batch(name: str, on: str, **how: object) -> Pod:
    """A pod that is made to end, nobody knows when, and that no gang here may evict."""
    return replace(pod(name, on=on, priority=9, cpu=4), **how)


def full(count: int, **how: object) -> tuple[list[Node], list[Pod]]:
    nodes = [node(f"n{i}", labels={"zone": "even" if i % 2 == 0 else "odd"}) for i in range(count)]
    return nodes, [batch(f"b{i}", f"n{i}", **how) for i in range(count)]


async def test_who_cannot_be_booked_displaces_nobody() -> None:
    nodes, pods = full(3)
    pods[2] = replace(pods[2], endless=True)
    desk = Desk(nodes, pods)
    desk.gang("fits", 2, 5)
    desk.gang("never", 3, 6)
    await desk.round()
    assert desk.booked == {"fits"}
    [before] = (each for each in desk.bookings.describe() if each["booked"])
    for _ in range(20):
        await desk.round(3.0)
        [now] = (each for each in desk.bookings.describe() if each["booked"])
        assert (now["gang"], now["since"]) == (before["gang"], before["since"])
    assert desk.asked.count(gang_key("never")) > 2, "it was tried again meanwhile"


async def test_who_is_more_urgent_and_can_be_booked_displaces() -> None:
    desk = Desk(*full(2))
    desk.gang("fits", 2, 5)
    await desk.round()
    assert desk.booked == {"fits"}
    desk.gang("more", 2, 6)
    await desk.round(3.0)
    assert desk.booked == {"more"}
    await desk.round(3.0)
    assert desk.booked == {"more"}


async def test_all_that_are_beside_make_way() -> None:
    desk = Desk(*full(2))
    desk.gang("even", 1, 5, "even")
    desk.gang("odd", 1, 4, "odd")
    await desk.round()
    assert desk.booked == {"even", "odd"}, "they share no node"
    desk.gang("both", 2, 6)
    await desk.round(3.0)
    assert desk.booked == {"both"}


async def test_nobody_makes_way_where_one_of_them_is_not_less_urgent() -> None:
    desk = Desk(*full(4))
    desk.gang("even", 1, 7, "even")
    desk.gang("odd", 1, 4, "odd")
    await desk.round()
    assert desk.booked == {"even", "odd"}
    desk.gang("both", 1, 6)
    await desk.round(3.0)
    assert desk.booked == {"even", "odd"}


async def test_an_enforced_end_stays_sure_where_an_earlier_one_is_likely() -> None:
    desk = Desk(*full(2, limit=5000), idle_share=0.2)
    desk.bookings.run_times.ended(pod("q", on="n0", started=NOW - 600), NOW)
    desk.gang("big", 2, 5)
    await desk.round()
    assert desk.booked == {"big"}, "nobody has to guess until when room could stand idle"
    [told] = desk.bookings.describe()
    assert [each["sure"] for each in told["waitsFor"]] == [True, True]


async def test_who_was_let_in_is_counted_on_whatever_is_observed_later() -> None:
    desk = Desk(*full(2, limit=5000))
    desk.gang("big", 2, 5)
    await desk.round()
    desk.pods = [each for each in desk.pods if each.name != "b0"]
    desk.pods.append(batch("between", "n0", limit=3000, started=NOW))
    desk.look()
    desk.bookings.run_times.ended(pod("q", on="n0", started=NOW - 600), NOW)
    asked = len(desk.asked)
    await desk.round(3.0)
    assert desk.booked == {"big"}
    assert len(desk.asked) == asked, "nothing has to be worked out again"
    assert [each for name in ("n0", "n1") for each in desk.book.booked.on(name)] == []


def cordoned(desk: Desk) -> None:
    desk.nodes[0] = replace(desk.nodes[0], unschedulable=True)


def shrunk(desk: Desk) -> None:
    desk.pods = [each for each in desk.pods if each.name != "big-0"]


def more_urgent(desk: Desk) -> None:
    desk.pods.append(pod("urgent", on="n0", priority=10, cpu=4))


def grown(desk: Desk) -> None:
    desk.pods = [
        replace(each, requests=(("cpu", 9000), ("pods", 1))) if each.name == "big-0" else each
        for each in desk.pods
    ]


@pytest.mark.parametrize("change", [cordoned, shrunk, more_urgent, grown])
async def test_what_changed_while_it_was_worked_out_is_not_booked(
    change: Callable[[Desk], None],
) -> None:
    desk = Desk(*full(2))
    desk.gang("big", 2, 5)

    def meanwhile() -> None:
        change(desk)
        desk.look()
        desk.meanwhile = lambda: None

    desk.meanwhile = meanwhile
    await desk.bookings.round([gang_key("big")])
    assert desk.asked
    assert desk.booked == set()
    assert desk.book.booked.nodes() == set()


async def test_a_gang_whose_search_fails_keeps_no_other_from_its_turn() -> None:
    desk = Desk(*full(2))
    desk.gang("bad", 2, 6)
    desk.gang("good", 2, 5)

    def fails() -> None:
        if desk.asked[-1].name == "bad":
            raise ValueError("no such thing")

    desk.meanwhile = fails
    for _ in range(20):
        await desk.round(3.0)
    assert desk.booked == {"good"}
    assert desk.failed == ["bad: no such thing"], "it is not tried again for some minutes"
    [told] = (each for each in desk.bookings.describe() if not each["booked"])
    assert "could not be worked out" in told["why"]
    desk.meanwhile = lambda: None
    await desk.round(FAILED_SECONDS)
    assert desk.booked == {"bad"}


async def test_a_gang_that_cannot_be_read_keeps_no_other_from_its_turn() -> None:
    desk = Desk(*full(4))
    desk.gang("bad", 1, 6, "even")
    desk.gang("good", 1, 5, "odd")
    await desk.round()
    assert desk.booked == {"bad", "good"}
    desk.unreadable.add("bad")
    desk.gang("later", 1, 4)
    await desk.round(3.0)
    assert desk.booked == {"good"}, "what is kept for it is given back"
    assert set(desk.failed) == {"bad: unreadable"}


async def test_each_question_beats_and_many_moments_are_not_all_asked_about() -> None:
    nodes = [node("n0"), node("n1")]
    pods = [
        replace(pod(f"b{i}", on=f"n{i % 2}", priority=9, cpu=0.25), limit=1000 + 100 * i)
        for i in range(32)
    ]
    desk = Desk(nodes, pods)
    desk.gang("big", 2, 5)
    desk.search_seconds = 0.6
    await desk.round()
    assert desk.beats == len(desk.asked) <= 3
    assert desk.booked == {"big"}, "with a start that may not be the earliest"
    [told] = desk.bookings.describe()
    assert told["start"] is not None


async def test_starts_that_do_not_hold_are_worked_out_again_a_tenth_of_the_time() -> None:
    desk = Desk(*full(8), booked_per_domain=4)
    for i in range(4):
        desk.gang(f"g{i}", 1, 5)
    await desk.round()
    assert len(desk.booked) == 4
    used = {seat for each in desk.bookings.describe() for seat in each["seats"].values()}
    desk.nodes = [replace(each, unschedulable=each.name in used) for each in desk.nodes]
    desk.asked.clear()
    desk.search_seconds = 0.6
    began = desk.seconds + 3.0
    await desk.round(3.0)
    assert len(desk.asked) <= 2, "one of the four"
    for _ in range(100):
        await desk.round(0.1)
    spent = len(desk.asked) * desk.search_seconds
    assert len(desk.asked) >= 2, "one after the other"
    assert spent <= (desk.seconds - began) / 5 + 2 * desk.search_seconds


async def test_a_search_that_does_not_end_pauses_the_booking_and_nothing_else() -> None:
    desk = Desk(*full(2))
    desk.gang("large", 2, 6)
    desk.gang("good", 2, 5)

    def overruns() -> None:
        if desk.asked[-1].name == "large":
            raise Overran

    desk.meanwhile = overruns
    for _ in range(10):
        await desk.round(3.0)
    assert desk.booked == {"good"}
    assert desk.asked.count(gang_key("large")) == 1
    assert desk.failed == [], "it is no fault"
    [told] = (each for each in desk.bookings.describe() if not each["booked"])
    assert "did not end" in told["why"]
