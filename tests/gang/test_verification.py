"""Before pods are evicted the filters of kube-scheduler itself are asked, where they can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from extender.gang.tell.verdicts import NoVerdict, SeatVerdict, VerifierQuestion
from tests.gang.rig import HIGH, LOW, Rig, full_cluster

Answer = Callable[[VerifierQuestion], Sequence[SeatVerdict]]


class FakeVerifier:
    """Answers as a test says; accepts whatever it is asked otherwise."""

    def __init__(self) -> None:
        self.asked: list[VerifierQuestion] = []
        self.says: Answer = lambda question: []

    async def refusals(self, question: VerifierQuestion) -> Sequence[SeatVerdict]:
        self.asked.append(question)
        await asyncio.sleep(0)
        return self.says(question)


class Bed(Rig):
    """A rig with a verifier."""

    def __init__(self) -> None:
        super().__init__()
        self.judge = FakeVerifier()
        self.verifier = self.judge


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    async with Bed() as made:
        await made.classes(low=1, mid=5, high=9)
        await made.nodes(2)
        yield made


def refuse(*nodes: str, plugin: str = "VolumeBinding", any_node: bool = False) -> Answer:
    def says(question: VerifierQuestion) -> Sequence[SeatVerdict]:
        return [
            SeatVerdict(pod.uid, node, plugin, ("no volume here",), any_node)
            for pod, node in question.seats
            if node in nodes
        ]

    return says


def dead(question: VerifierQuestion) -> Sequence[SeatVerdict]:
    raise NoVerdict("UNAVAILABLE: connection refused")


async def test_what_is_asked_is_the_whole_plan(bed: Bed) -> None:
    await full_cluster(bed)
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until_names(*HIGH)
    first = bed.judge.asked[0]
    assert {(pod.name, node) for pod, node in first.seats} in (
        {("high-0", "n0"), ("high-1", "n1")},
        {("high-0", "n1"), ("high-1", "n0")},
    )
    assert {victim.name for victim in first.gone} == set(LOW)
    await bed.until(lambda: len(bed.judge.asked) == 2, "asked again before the seats open")
    assert not bed.judge.asked[1].gone


async def test_no_pod_is_evicted_without_an_answer_and_it_is_said(bed: Bed) -> None:
    await full_cluster(bed)
    bed.judge.says = dead
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(lambda: "gave-up" in bed.outcomes("high"), "the plan is given up")
    assert await bed.names() == {*LOW, *HIGH}
    said = "no pod is evicted: the verifier gives no answer: UNAVAILABLE: connection refused"
    assert said in bed.messages("high")
    assert len(bed.judge.asked) <= 4


async def test_the_gang_starts_once_the_verifier_answers_again(bed: Bed) -> None:
    await full_cluster(bed)
    bed.judge.says = dead
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(lambda: "gave-up" in bed.outcomes("high"), "the plan is given up")
    bed.judge.says = lambda question: []

    async def asking() -> None:
        while True:
            await bed.filter("high-0", "n0", "n1")
            await asyncio.sleep(0.1)

    task = asyncio.create_task(asking())
    await bed.until_names(*HIGH)
    task.cancel()


async def test_a_refused_seat_is_left_out_and_another_plan_is_made(bed: Bed) -> None:
    await bed.nodes(1, first=2)
    await bed.gang("low", 2, "low", on="n")
    await bed.pod("alone-0", cls="mid", on="n2")
    await bed.gang("high", 2, "high")
    bed.judge.says = refuse("n0")
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until_names(*HIGH)
    assert [sorted(node for _, node in each.seats) for each in bed.judge.asked[:2]] == [
        ["n0", "n1"],
        ["n1", "n2"],
    ]
    assert "filters refuse the plan: " in bed.messages("high")
    assert " on n0: VolumeBinding: no volume here" in bed.messages("high")


async def test_a_plan_refused_everywhere_evicts_nobody_and_the_questions_are_few(bed: Bed) -> None:
    await full_cluster(bed)
    bed.judge.says = refuse("n0", "n1")
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(lambda: "gave-up" in bed.outcomes("high"), "the plan is given up")
    await bed.rounds()
    assert await bed.names() == {*LOW, *HIGH}
    assert len(bed.judge.asked) <= 4
    assert "VolumeBinding: no volume here" in bed.messages("high")
    await bed.filter("high-0", "n0", "n1")
    await bed.until(
        lambda: "filters refused n0: VolumeBinding: no volume here" in bed.messages("high"),
        "the refusal that stands says it too",
    )


async def test_what_no_node_would_help_masks_none(bed: Bed) -> None:
    await full_cluster(bed)
    bed.judge.says = refuse("n0", plugin="VolumeRestrictions", any_node=True)
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(lambda: "gave-up" in bed.outcomes("high"), "the plan is given up")
    assert await bed.names() == {*LOW, *HIGH}
    assert 1 < len(bed.judge.asked) <= 4
    nodes = [sorted(node for _, node in each.seats) for each in bed.judge.asked]
    assert all(each == ["n0", "n1"] for each in nodes)


async def test_a_verifier_that_is_away_later_keeps_no_seat_from_opening(bed: Bed) -> None:
    await full_cluster(bed)

    def once(question: VerifierQuestion) -> Sequence[SeatVerdict]:
        return [] if question.gone else dead(question)

    bed.judge.says = once
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(
        lambda: any(each.state.value == "open" for each in bed.coordinator.reservations), "open"
    )


async def test_a_gang_that_evicts_nobody_asks_nobody(bed: Bed) -> None:
    bed.judge.says = dead
    await bed.gang("high", 2, "high")
    await bed.filter("high-0", "n0", "n1")
    await bed.until(
        lambda: any(each.state.value == "open" for each in bed.coordinator.reservations), "open"
    )
    assert not bed.judge.asked


async def test_seats_of_other_gangs_are_taken_and_their_victims_gone(bed: Bed) -> None:
    await bed.nodes(2, first=2)
    await bed.gang("low", 2, "low", on="n")
    await bed.pod("alone-2", cls="low", on="n2", grace=30)
    await bed.pod("alone-3", cls="low", on="n3", grace=30)
    await bed.gang("high", 2, "high")
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(lambda: bool(bed.cached("alone-3").deleting), "the first victims terminate")
    await bed.gang("mid", 2, "mid")
    await bed.preempt("mid-0", n0=["low-0"])
    await bed.until(
        lambda: any(each.seats[0][0].name.startswith("mid") for each in bed.judge.asked),
        "the second one's plan is judged",
    )
    judged = next(e for e in bed.judge.asked if e.seats[0][0].name.startswith("mid"))
    assert {(pod.name, node) for pod, node in judged.held} in (
        {("high-0", "n2"), ("high-1", "n3")},
        {("high-0", "n3"), ("high-1", "n2")},
    )
    assert {victim.name for victim in judged.gone} == {*LOW, "alone-2", "alone-3"}


def defect(question: VerifierQuestion) -> Sequence[SeatVerdict]:
    raise ValueError("a defect")


async def test_a_defect_evicts_no_pod_and_keeps_no_plan_waiting(bed: Bed) -> None:
    await full_cluster(bed)
    bed.judge.says = defect
    await bed.preempt("high-0", n0=["low-0"])
    await bed.until(lambda: len(bed.judge.asked) > 1, "another plan is made")
    assert await bed.names() == {*LOW, *HIGH}
