"""What preempt leaves to kube-scheduler, and when the search decides, question by question."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from extender.verbs.filter import _waits_for
from extender.verbs.verbs import ExtenderVerbs
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.world import gang_key, pod
from tests.verbs.preempt_desk import SINGLE, Desk, alone, flying, goes_whole, member, plan_over


@pytest.mark.parametrize(
    ("nominated", "nodes", "said"),
    [
        ("n0", 101, "not offered"),
        ("n1", 101, "not tried"),
        ("n0", 100, "not offered"),
        ("n1", 100, "not offered"),
    ],
)
async def test_a_member_that_is_to_preempt_had_its_seat_refused_or_not_tried(
    nominated: str, nodes: int, said: str
) -> None:
    """Among more than a hundred nodes only a nominated seat has surely been tried."""
    desk = Desk(nodes=nodes)
    desk.preemptions[SINGLE.uid] = cast(Preemption, SimpleNamespace(seats={SINGLE.uid: "n0"}))
    victim = alone("v", "n1")
    desk.pods[victim.uid] = victim
    assert await desk.asked(replace(SINGLE, nominated=nominated), n1=victim) == []
    assert desk.said == [(said,)]


async def test_nobody_is_answered_before_recovery() -> None:
    desk = Desk()
    desk.ready = False
    with pytest.raises(NotReady):
        await desk.asked(SINGLE)
    assert desk.said == []


async def test_candidates_are_nodes_that_kube_scheduler_accepts() -> None:
    one, two = alone("one", "n0"), alone("two", "n1")
    desk = Desk(one, two)
    assert await desk.asked(SINGLE, n0=one, n1=two) == ["n0", "n1"]
    assert desk.accepted == [["n0", "n1"]]


async def test_one_that_was_not_offered_every_node_yet_evicts_nobody() -> None:
    one = alone("one", "n0")
    desk = Desk(one)
    desk.goes_on = True
    assert await desk.asked(SINGLE, n0=one) == []
    assert desk.said == [("again", "n0")]


async def test_one_that_was_kept_off_by_our_word_alone_is_tried_again_and_evicts_nobody() -> None:
    one = alone("one", "n0")
    desk = Desk(one)
    desk.withheld = SINGLE.uid
    assert await desk.asked(SINGLE, n0=one) == []
    assert desk.said == [("again", "n0")]


async def test_who_acts_for_everybody_acts_for_each_namespace() -> None:
    one, two = member("one", "n0"), member("two", "n1")
    desk = Desk(one, two)
    desk.acts, desk.everybody = False, True
    desk.whole["low"] = goes_whole(one, two)
    await desk.asked(SINGLE, n0=one)
    assert desk.said[0][0] == "ask", "the search compares"


@pytest.mark.parametrize(("starts_whole", "left"), [(False, ["n1"]), (True, [])])
async def test_a_member_beyond_a_quorum_that_started_whole_evicts_nobody(
    *, starts_whole: bool, left: list[str]
) -> None:
    runs, old = member("m-0", "n0", "g"), alone("old", "n1")
    desk = Desk(runs, old)
    waits = pod("m-1", priority=9, group="g")
    desk.whole["g"] = Gang(
        key=gang_key("g"), members=(runs, waits), min_count=1, starts_whole=starts_whole
    )
    assert await desk.asked(waits, n1=old) == left


@pytest.mark.parametrize("acts", [True, False])
async def test_a_node_without_victims_is_not_answered(*, acts: bool) -> None:
    """Only we refused it: to offer it would undo that."""
    desk = Desk()
    desk.acts, desk.held = acts, {"n0"}
    result = await desk.preempt.answer(PreemptArgs(SINGLE, {"n0": NodeVictims(())}))
    assert result.candidates == {}


async def test_one_victim_that_must_stay_keeps_the_others_on_its_node() -> None:
    plain, seated = alone("a", "n0"), member("s", "n0", "on")
    system = pod("u", on="n0", namespace="kube-system")
    desk = Desk(plain, system, seated)
    desk.binding = {"on"}
    for victims, left in (
        ([plain], ["n0"]),
        ([plain, system], []),
        ([plain, seated], []),
    ):
        named = {"n0": NodeVictims(tuple(each.uid for each in victims))}
        result = await desk.preempt.answer(PreemptArgs(SINGLE, named))
        assert list(result.candidates) == left


@pytest.mark.parametrize("acts", [True, False])
async def test_one_refused_for_now_is_remembered_with_a_node_that_it_may_have_later(
    *, acts: bool
) -> None:
    """A victim that is being seated, and one that is placed and whose binding does not show."""
    seated, placed = member("s", "n0", "on"), alone("p", "")
    protected = pod("u", on="n2", namespace="kube-system")
    desk = Desk(seated, placed, protected)
    desk.acts, desk.binding, desk.held = acts, {"on"}, {"n1"}
    assert await desk.asked(SINGLE, n0=seated) == []
    assert desk.parked == {SINGLE.uid: ("n0", set())}
    assert await desk.asked(SINGLE, n1=placed) == []
    assert desk.parked == {SINGLE.uid: ("n1", {placed.uid})}


async def test_one_refused_for_good_is_not_remembered() -> None:
    protected = pod("u", on="n0", namespace="kube-system")
    desk = Desk(protected)
    assert await desk.asked(SINGLE, n0=protected) == []
    assert desk.parked == {}


class TestNotActedFor:
    """Its namespace is not chosen: kube-scheduler does as it would, seats apart."""

    async def test_the_choice_is_kube_schedulers(self) -> None:
        one, two = alone("one", "n0"), member("two", "n1")
        desk = Desk(one, two)
        desk.acts = False
        desk.whole["low"] = goes_whole(two, member("three", "n2"))
        assert await desk.asked(SINGLE, n0=one, n1=two) == ["n0", "n1"]
        assert desk.said == [("offered", "n0", "n1")]

    async def test_nodes_with_seats_need_room_beside_them(self) -> None:
        one, two, three = (alone(f"v{i}", f"n{i}") for i in range(3))
        desk = Desk(one, two, three)
        desk.acts = False
        desk.held, desk.full = {"n0", "n1"}, {"n0", "n2"}
        assert await desk.asked(SINGLE, n0=one, n1=two, n2=three) == ["n1", "n2"]

    async def test_nodes_with_seats_whose_victims_are_not_known_there(self) -> None:
        known, moved = alone("known", "n0"), alone("moved", "n3")
        desk = Desk(known, moved)
        desk.acts = False
        desk.held = {"n1", "n2"}
        stranger = alone("stranger", "n2")
        assert await desk.asked(SINGLE, n0=known, n1=moved, n2=stranger) == ["n0"]

    async def test_nobody_goes_whose_gang_is_being_seated(self) -> None:
        seated, idle, stranger = member("s", "n0", "on"), member("i", "n1"), alone("x", "n2")
        desk = Desk(seated, idle)
        desk.acts = False
        desk.binding = {"on"}
        assert await desk.asked(SINGLE, n0=seated, n1=idle, n2=stranger) == ["n1", "n2"]
        both = {"n0": NodeVictims((seated.uid, idle.uid))}
        result = await desk.preempt.answer(PreemptArgs(SINGLE, both))
        assert result.candidates == {}

    async def test_a_pod_that_has_not_seen_all_nodes_waits(self) -> None:
        one = alone("one", "n0")
        desk = Desk(one)
        desk.acts, desk.goes_on = False, True
        assert await desk.asked(SINGLE, n0=one) == []
        assert desk.said == [("again", "n0")]


class TestBreakingAGang:
    """A victim of a gang that goes whole: the search compares."""

    async def asks(self, desk: Desk) -> bool:
        """Whether the search was asked about a victim of gang low on n0."""
        await desk.asked(SINGLE, n0=next(iter(desk.pods.values())))
        return any(words[0] == "ask" for words in desk.said)

    async def test_only_where_it_goes_whole_is_more_than_one_and_may_be_evicted(self) -> None:
        one, two, three = member("one", "n0"), member("two", "n1"), member("three", "n2")
        for bound, whole, evictable, expected in (
            ((one, two), True, True, True),
            ((one, two, three), True, True, True),
            ((one,), True, True, False),
            ((one, two), False, True, False),
            ((one, two), True, False, False),
        ):
            desk = Desk(one)
            desk.whole["low"], desk.evictable = goes_whole(*bound, whole=whole), evictable
            assert await self.asks(desk) is expected, (len(bound), whole, evictable)
        assert not await self.asks(Desk(one)), "its gang is not known any more"
        assert not await self.asks(Desk(alone("one", "n0")))

    def desk(self) -> tuple[Desk, dict[str, Pod]]:
        """n0 breaks a gang, n1 and n2 do not; n3 is no candidate."""
        broken, clean, other = member("b", "n0"), alone("c", "n1"), alone("d", "n2")
        desk = Desk(broken, clean, other)
        desk.whole["low"] = goes_whole(broken, member("b2", "n3"))
        return desk, {"n0": broken, "n1": clean, "n2": other}

    async def test_a_stale_cache_leaves_what_breaks_nothing(self) -> None:
        desk, candidates = self.desk()
        desk.stale = "a watch is down"
        assert await desk.asked(SINGLE, **candidates) == ["n1", "n2"]
        assert desk.said == [("offered", "n1", "n2")]

    async def test_no_plan_leaves_what_breaks_nothing(self) -> None:
        desk, candidates = self.desk()
        assert await desk.asked(SINGLE, **candidates) == ["n1", "n2"]
        assert desk.said == [("ask", "n0", "n1", "n2"), ("offered", "n1", "n2")]

    async def test_a_node_that_breaks_nothing_and_is_cheapest_is_kube_schedulers(self) -> None:
        desk, candidates = self.desk()
        desk.cheap = plan_over(candidates["n1"], alone("more", "n2"))
        assert await desk.asked(SINGLE, **candidates) == ["n1", "n2"]
        assert desk.said == [("ask", "n0", "n1", "n2"), ("offered", "n1", "n2")]

    async def test_a_whole_gang_that_is_cheapest_is_evicted_by_us(self) -> None:
        desk, candidates = self.desk()
        desk.cheap = plan_over(candidates["n0"])
        desk.answer = flying(desk.cheap)
        assert await desk.asked(SINGLE, **candidates) == []
        assert desk.said == [("ask", "n0", "n1", "n2"), ("ensure", Verb.PREEMPT, "n0", "n1", "n2")]

    async def test_what_is_refused_after_all_leaves_what_breaks_nothing(self) -> None:
        desk, candidates = self.desk()
        desk.cheap = plan_over(candidates["n0"])
        assert await desk.asked(SINGLE, **candidates) == ["n1", "n2"]
        assert desk.said[1:] == [
            ("ensure", Verb.PREEMPT, "n0", "n1", "n2"),
            ("offered", "n1", "n2"),
        ]

    async def test_without_another_node_even_a_plan_without_victims_is_carried_out(self) -> None:
        desk, candidates = self.desk()
        desk.cheap = plan_over()
        desk.answer = flying(desk.cheap)
        assert await desk.asked(SINGLE, n0=candidates["n0"]) == []
        assert desk.said == [("ask", "n0"), ("ensure", Verb.PREEMPT, "n0")]

    @pytest.mark.parametrize("breaking", [False, True])
    async def test_where_seats_came_to_be_held_during_the_search_is_not_left(
        self, *, breaking: bool
    ) -> None:
        desk, candidates = self.desk()
        if breaking:
            desk.cheap = plan_over(candidates["n0"])
        desk.during = lambda: desk.full.add("n1")
        assert await desk.asked(SINGLE, **candidates) == ["n2"]


@pytest.mark.parametrize(
    ("state", "victims", "waits", "told"),
    [
        (PreemptionState.EVICTING, 2, 1, "waits for 3 pods to terminate (grace up to 45 s)"),
        (PreemptionState.WAITING, 1, 0, "waits for 1 pod to terminate (grace up to 45 s)"),
        (PreemptionState.PLANNED, 0, 0, "its plan is being recorded"),
        (PreemptionState.CHANGING, 2, 1, "which is no longer sure: another plan is searched for"),
        (PreemptionState.CHANGING, 0, 0, "which is no longer sure: another plan is searched for"),
    ],
)
def test_what_a_plan_waits_for_is_told(
    state: PreemptionState, victims: int, waits: int, told: str
) -> None:
    plan = SimpleNamespace(longest_grace=45)
    going, leaving = dict.fromkeys(range(victims)), dict.fromkeys(range(waits))
    preemption = SimpleNamespace(state=state, victims=going, waits=leaving, plan=plan)
    assert _waits_for(cast(Preemption, preemption)) == told


class TestWaitingGang:
    """Who is treated as a member of a gang that lacks its quorum."""

    def gang(self, desk: Desk, **more: Any) -> Gang:
        waits = pod("m", group="low")
        found = Gang(key=gang_key("low"), members=(waits,), min_count=1, **more)
        desk.whole["low"] = found
        return found

    def asked(self, desk: Desk, group: str = "low") -> Gang | None:
        return desk.preempt._context.waiting_gang(pod("m", group=group))

    def test_a_member_that_the_quorum_lacks(self) -> None:
        desk = Desk()
        gang = self.gang(desk, starts_whole=True)
        assert self.asked(desk) is gang
        assert self.asked(desk, "") is None
        assert self.asked(desk, "unknown") is None
        desk.acts = False
        assert self.asked(desk) is None

    def test_a_gang_that_starts_one_by_one_or_runs_already(self) -> None:
        desk = Desk()
        self.gang(desk, starts_whole=False)
        assert self.asked(desk) is None
        there = member("m", "n0")
        desk.whole["low"] = runs = Gang(
            key=gang_key("low"), members=(there,), min_count=1, starts_whole=True
        )
        assert self.asked(desk) is None
        desk.going.add(str(gang_key("low")))
        assert self.asked(desk) is runs, "who comes to it now would have to go with it"

    def test_nobody_waits_for_a_unit_that_may_not_be_evicted(self) -> None:
        """Its namespace had been chosen when a part of it went (710278 with enforcing, sparing)."""
        desk = Desk()
        self.gang(desk, starts_whole=True)
        desk.going.add(str(gang_key("low")))
        context = desk.preempt._context
        assert context.kept_off(pod("m", group="low")) == str(gang_key("low"))
        desk.evictable = False
        assert not context.kept_off(pod("m", group="low"))

    def test_what_goes_of_it_is_looked_for_only_where_a_member_does(self) -> None:
        desk = Desk()
        looked: list[str] = []
        there = member("m", "n0")
        desk.whole["low"] = Gang(
            key=gang_key("low"), members=(there,), min_count=1, starts_whole=True
        )

        def shown() -> Snapshot:
            looked.append("all")
            return desk._snapshot()

        context = replace(desk.preempt._context, shown=shown)
        assert context.waiting_gang(pod("m", group="low")) is None
        assert not looked
        desk.taken.add(there.uid)
        context.waiting_gang(pod("m", group="low"))
        assert looked == ["all"]

    def test_a_gang_that_contradicts_itself_is_told_so(self) -> None:
        desk = Desk()
        gang = self.gang(desk, starts_whole=False, problems=("two sizes",))
        assert self.asked(desk) is gang


def test_stopping_answers_the_binds_that_are_held() -> None:
    verbs = ExtenderVerbs.__new__(ExtenderVerbs)
    stopped = asyncio.Event()
    verbs._bindings = cast(Any, SimpleNamespace(stop=lambda why: stopped.set()))
    verbs.stopping()
    assert stopped.is_set()
