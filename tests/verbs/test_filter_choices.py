"""What filter asks, notes and answers, question by question, with everybody it asks as a line."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.plan.planner import as_victim
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.workload_priority import WHAT
from extender.model.errors import NotReady, UnknownPod
from extender.model.objects import Pod
from extender.model.plan import Code, Refusal, Victim
from extender.model.texts import one_reason
from tests.gang.world import pod
from tests.verbs.filter_desk import KEY, MANY, MEMBER, NO, PLAIN, Desk, flying


def victims(count: int, name: str) -> dict[str, Victim]:
    found = [as_victim(pod(f"{name}-{i}", on="n9"), "", 30) for i in range(count)]
    return {each.uid: each for each in found}


def beyond(desk: Desk) -> list[tuple[Any, ...]]:
    """What was said beyond what each question says first."""
    first, second, *others = desk.said
    assert first[0] == "accepts"
    assert second[0] == "settled"
    return others


async def test_nobody_is_answered_before_recovery() -> None:
    desk = Desk()
    desk.ready = False
    with pytest.raises(NotReady):
        await desk(PLAIN, "n0")
    assert desk.said == []


async def test_an_attempt_says_what_kube_scheduler_accepts_and_that_the_pod_is_on_no_way() -> None:
    desk = Desk()
    await desk(PLAIN, "n0", "n1")
    assert desk.said[:2] == [("accepts", "n0", "n1"), ("settled", PLAIN.uid)]


@pytest.mark.parametrize(("count", "told"), [(3, ["n0", "n1", "n2"]), (4, None), (5, None)])
async def test_a_pod_of_no_gang_keeps_its_list(count: int, told: list[str] | None) -> None:
    desk = Desk()
    names = [f"n{i}" for i in range(count)]
    answer = await desk(PLAIN, *names)
    assert (answer.node_names, answer.failed_and_unresolvable) == (names, {})
    assert beyond(desk) == [("offered", told)]


async def test_beside_seats_a_pod_of_no_gang_has_what_is_spare() -> None:
    desk = Desk()
    desk.held, desk.full = {"n0", "n1"}, {"n0", "n2"}
    answer = await desk(PLAIN, "n0", "n1", "n2")
    assert answer.node_names == ["n1", "n2"], "n2 has no seats: kube-scheduler knows its room"
    assert list(answer.failed_and_unresolvable) == ["n0"]
    assert beyond(desk) == [
        ("spare", "n1"),
        ("offered", ["n1", "n2"]),
        ("held back",),
        ("forget", PLAIN.uid),
    ]
    desk.said.clear()
    desk.full = set()
    answer = await desk(PLAIN, "n0", "n2")
    assert (answer.node_names, answer.failed_and_unresolvable) == (["n0", "n2"], {})
    assert beyond(desk) == [("spare", "n0"), ("offered", ["n0", "n2"])]


@pytest.mark.parametrize("sampled", [True, False])
async def test_one_that_was_offered_nodes_with_seats_alone_is_tried_on_others(
    *, sampled: bool
) -> None:
    desk = Desk()
    desk.held = desk.full = {"n0", "n1"}
    desk.sampled = sampled
    answer = await desk(PLAIN, "n0", "n1")
    assert answer.node_names == []
    woken = [("wake",)] if sampled else []
    assert beyond(desk) == [
        ("offered", []),
        ("held back",),
        ("refused", ["n0", "n1"], 4),
        *woken,
    ]


@pytest.mark.parametrize(
    ("told", "absent", "stale", "acts", "unread"),
    [
        (PLAIN, True, 1.0, True, True),
        (PLAIN, False, 1.0, True, False),
        (PLAIN, True, 0.0, True, False),
        (MEMBER, True, 1.0, True, False),
        (MEMBER, True, 1.0, False, True),
    ],
)
async def test_a_pod_that_was_not_read_has_nodes_without_seats_while_a_watch_is_down(
    told: Pod, *, absent: bool, stale: float, acts: bool, unread: bool
) -> None:
    desk = Desk()
    desk.unknown = UnknownPod("none", absent=absent)
    desk.stale, desk.acts, desk.held = stale, acts, {"n1"}
    if not unread:
        with pytest.raises(UnknownPod):
            await desk(told, "n0", "n1")
        assert desk.said == []
        return
    answer = await desk(told, "n0", "n1")
    assert answer.node_names == ["n0"]
    assert list(answer.failed_and_unresolvable) == ["n1"]
    assert desk.said == [("offered", ["n0"])]


async def test_a_member_that_is_not_waited_for_goes_beside_seats() -> None:
    desk = Desk()
    desk.waits = False
    assert (await desk(MEMBER, "n0")).node_names == ["n0"]
    assert beyond(desk) == [("sample", MEMBER.uid), ("offered", ["n0"])]


@pytest.mark.parametrize(
    ("nodes", "names", "nominated", "offered"),
    [
        (2, ["n0", "n1"], "", ["n0", "n1"]),
        (2, ["n0"], "", ["n0"]),
        (2, ["n0"], "n0", None),
        (2, ["n0", "n1"], "n0", ["n0", "n1"]),
        (101, [*MANY], "", None),
        (100, [*MANY], "", [*MANY]),
        (101, [*MANY[1:]], "", [*MANY[1:]]),
    ],
)
async def test_a_list_is_evidence_against_others_where_it_is_whole(
    nodes: int, names: list[str], nominated: str, offered: list[str] | None
) -> None:
    """A nominated pod is first tried on that node alone; of many nodes only some are tried."""
    desk = Desk(nodes=nodes)
    answer = await desk(replace(MEMBER, nominated=nominated), *names)
    assert answer.node_names == []
    assert list(answer.failed_and_unresolvable) == names
    assert beyond(desk) == [
        ("ensure", None if offered is None else sorted(offered)),
        ("withhold", MEMBER.uid),
    ]


async def test_what_is_known_of_the_gang_is_not_asked_for_again() -> None:
    desk = Desk()
    desk.known = NO
    answer = await desk(MEMBER, "n0")
    assert answer.failed_and_unresolvable == {"n0": f"{KEY}: waits for members"}
    assert beyond(desk) == [("withhold", MEMBER.uid)]
    desk.known = replace(NO, code=Code.STALE, message="a watch is down")
    desk.said.clear()
    answer = await desk(MEMBER, "n0")
    assert (answer.node_names, answer.error) == ([], "a watch is down")
    assert beyond(desk) == []


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        (
            Code.INFEASIBLE,
            "no solution was found: 3 cpu short; 2 gpu short",
            "no solution was found",
        ),
        (Code.INFEASIBLE, f"no solution: {WHAT} of w; 3 cpu short", f"no solution: {WHAT} of w"),
        (Code.INCOMPLETE, "waits for members: 1 of 2 exist", "waits for members: 1 of 2 exist"),
    ],
)
async def test_what_lacks_in_numbers_is_not_written_to_the_pod(
    code: Code, message: str, told: str
) -> None:
    desk = Desk()
    desk.known = Refusal(gang=KEY, code=code, message=message)
    answer = await desk(MEMBER, "n0")
    assert answer.failed_and_unresolvable == {"n0": one_reason(f"{KEY}: {told}")}


async def test_a_member_has_its_seat_and_nothing_else() -> None:
    desk = Desk(flying("n1"))
    answer = await desk(MEMBER, "n0", "n1")
    assert (answer.node_names, answer.seat_of) == (["n1"], str(KEY))
    assert answer.failed_and_unresolvable == {"n0": f"{KEY}: its seat is on n1"}
    assert beyond(desk) == [("given", "n1")]
    desk.given = False
    answer = await desk(MEMBER, "n0", "n1")
    assert (answer.node_names, answer.seat_of) == ([], "")
    assert "n1 does not work" in answer.failed_and_unresolvable["n0"]


async def test_a_member_beyond_the_quorum_has_no_seat() -> None:
    desk = Desk(flying(None))
    answer = await desk(MEMBER, "n0")
    assert answer.node_names == []
    assert "no seat yet" in answer.failed_and_unresolvable["n0"]
    assert beyond(desk) == [("held back",)]


@pytest.mark.parametrize(
    ("state", "going", "leaving", "words"),
    [
        (PreemptionState.PLANNED, 0, 0, "its plan is being recorded"),
        (PreemptionState.WAITING, 1, 2, "waits for 3 pods to terminate (grace up to 30 s)"),
        (PreemptionState.CHANGING, 1, 0, "which is no longer sure: another plan is searched for"),
    ],
)
async def test_no_seat_is_given_before_all_the_room_is_free(
    state: PreemptionState, going: int, leaving: int, words: str
) -> None:
    preemption = flying("n0", state)
    preemption.victims, preemption.waits = victims(going, "low"), victims(leaving, "old")
    preemption.plan = replace(preemption.plan, victims=tuple(preemption.victims.values()))
    desk = Desk(preemption)
    answer = await desk(MEMBER, "n0")
    assert answer.node_names == []
    assert answer.failed_and_unresolvable == {"n0": f"{KEY}: seat on n0; {words}"}
    assert beyond(desk) == [("turned away", MEMBER.uid)]


@pytest.mark.parametrize(
    ("binding", "crowded", "given"),
    [(False, True, False), (True, True, True), (False, False, True)],
)
async def test_who_may_be_on_the_way_to_a_seat_is_waited_for_until_the_first_member_sits(
    *, binding: bool, crowded: bool, given: bool
) -> None:
    preemption = flying()
    preemption.answered |= {"another"} if binding else set()
    desk = Desk(preemption)
    desk.crowded = crowded
    answer = await desk(MEMBER, "n0")
    assert answer.node_names == (["n0"] if given else [])
    assert ("a more urgent pod" in str(answer.failed_and_unresolvable)) is not given
    assert (("turned away", MEMBER.uid) in desk.said) is not given


async def test_a_member_is_held_back_while_the_start_may_not_begin_with_it() -> None:
    desk = Desk(flying())
    desk.starts = False
    answer = await desk(MEMBER, "n0", "n1")
    assert answer.node_names == []
    assert "another member is not offered its own" in answer.failed_and_unresolvable["n0"]
    assert beyond(desk) == []


@pytest.mark.parametrize(
    ("begun", "given"),
    [
        ({}, False),
        ({"answered": {MEMBER.uid}}, False),
        ({"answered": {"another"}}, True),
        ({"presumed": {"another"}}, True),
        ({"completes": True}, True),
    ],
)
async def test_a_start_is_not_begun_on_an_old_picture(
    begun: dict[str, Any], *, given: bool
) -> None:
    """A member was gone, and the other, whose first binding had failed, was given its seat again
    amid a watch that was down (seed 218685)."""
    preemption = flying()
    for name, value in begun.items():
        setattr(preemption, name, value)
    desk = Desk(preemption)
    assert (await desk(MEMBER, "n0")).node_names == ["n0"]
    desk.behind = "a watch is down"
    desk.said.clear()
    answer = await desk(MEMBER, "n0")
    assert (("turned away", MEMBER.uid) in desk.said) is not given
    assert answer.node_names == (["n0"] if given else [])
    assert answer.error == ("" if given else f"{KEY}: a watch is down")


@pytest.mark.parametrize(
    ("nodes", "names", "nominated", "said"),
    [
        (4, ["n1", "n2"], "", ("not offered", "n1", "n2")),
        (4, ["n1"], "n1", None),
        (4, ["n1", "n2"], "n1", ("not offered", "n1", "n2")),
        (101, [*MANY], "", ("not tried",)),
        (101, [*MANY], "n0", ("not offered", *sorted(MANY))),
        (101, [*MANY], "n1", ("not tried",)),
    ],
)
async def test_a_seat_that_is_not_in_the_list_was_refused_or_not_tried(
    nodes: int, names: list[str], nominated: str, said: tuple[str, ...] | None
) -> None:
    desk = Desk(flying("n0"), nodes)
    answer = await desk(replace(MEMBER, nominated=nominated), *names)
    assert answer.node_names == []
    assert "its seat is on n0; which is not offered" in answer.failed_and_unresolvable["n1"]
    assert beyond(desk) == ([said] if said else [])


@pytest.mark.parametrize(("swap", "given"), [("n2", True), ("n3", False), ("", False)])
async def test_a_seat_that_was_swapped_for_one_in_the_list_is_given(
    swap: str, *, given: bool
) -> None:
    desk = Desk(flying("n0"))
    desk.swap = swap
    answer = await desk(MEMBER, "n1", "n2")
    assert answer.node_names == (["n2"] if given else [])
    desk = Desk(flying("n0"))
    desk.swap = swap
    refuse = desk._not_offered

    def and_changing(preemption: Any, pod: Pod, others: frozenset[str]) -> None:
        refuse(preemption, pod, others)
        preemption.state = PreemptionState.CHANGING

    desk.filter._context.asking.seat_not_offered = and_changing  # type: ignore[method-assign]
    assert (await desk(MEMBER, "n1", "n2")).node_names == []
    assert beyond(desk) == [("not offered", "n1", "n2")], "that it waits is told the next time"


async def test_who_comes_to_a_gang_that_is_being_evicted_waits_until_it_has_gone() -> None:
    """Its members start one by one, and go together."""
    desk = Desk()
    desk.waits = False
    desk.going = {str(KEY)}
    answer = await desk(MEMBER, "n0", "n1")
    assert not answer.node_names
    assert answer.failed_and_unresolvable["n0"] == (
        f"{KEY}: a new member waits until it has been evicted"
    )
    assert ("held back", str(KEY)) in desk.said
    desk.going = set()
    assert (await desk(MEMBER, "n0", "n1")).node_names == ["n0", "n1"]
