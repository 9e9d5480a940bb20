"""Counting and reporting of a comparison, without a control plane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bench.inputs.mix import URGENT, Distributions
from bench.inputs.state import Amounts, NodeState, PodState, State, gang_of
from bench.rival import against_kubernetes
from bench.rival.against_kubernetes import main, mixes
from bench.rival.anatomy import Losses, anatomy, at_random, free_seats
from bench.rival.cases import (
    LOW,
    MIDDLE,
    NamedCase,
    fragmented,
    idle_and_freed,
    named_cases,
    packed,
    spread_gangs,
    surplus_first,
    two_priorities,
)
from bench.rival.comparison import Compared, Drawn, Run, broken_promises, pods_in_both
from bench.rival.outcome import ContenderOutcome, damage, optimum
from bench.rival.report import report
from tests.controlplane.harness import ControlPlane


@pytest.mark.parametrize("case", named_cases(), ids=lambda case: case.state.name)
def test_the_planner_finds_the_answer_known_by_hand(case: NamedCase) -> None:
    found = optimum(case.state)
    assert (found.damage.pods if found.possible else None) == case.least
    assert not found.possible or found.proof == "optimal"


def test_a_gang_that_lost_one_of_four_is_broken_and_left_half() -> None:
    state = spread_gangs()
    found = damage(state, ["g1-0", "g2-0", "g2-1", "g2-2", "g2-3"])
    assert (found.pods, found.gangs, found.half_broken) == (5, 2, 1)
    assert found.by_priority == {100: (2, 5)}


def test_surplus_of_a_gang_that_goes_pod_by_pod_breaks_nothing() -> None:
    names = [pod.name for pod in surplus_first().pods]
    assert damage(surplus_first(), names[:10]).gangs == 0
    whole = damage(surplus_first(), names)
    assert (whole.gangs, whole.half_broken) == (1, 0)


@pytest.mark.parametrize("nodes", [["n0", "n8"], ["n8", "n9"]])
def test_a_plan_on_some_nodes_only_costs_what_these_need(nodes: list[str]) -> None:
    """Two members: nodes 0 to 31 hold gangs of four, 32 and up are free."""
    state = replace(spread_gangs(), **urgent(2))
    assert optimum(state, "fewest-pods").damage.pods == 0
    there = {"n0", "n8"} == set(nodes)
    # n0 and n8 belong to one gang, n8 and n9 to two: either way whole gangs go.
    assert optimum(state, "fewest-pods", only=nodes).damage.pods == (4 if there else 8)


def urgent(count: int) -> dict[str, Any]:
    gang, members = gang_of("urgent", count, Amounts(3000, 1024), URGENT)
    return {"gang": gang, "members": members}


def test_costs_are_compared_in_the_order_asked() -> None:
    """Two pods of priority 100 against one of 500, of the case with both."""
    state = two_priorities()
    low, middle = damage(state, ["p-4", "p-5"]), damage(state, ["p-0"])
    assert low.cost("gangs-by-priority") < middle.cost("gangs-by-priority")
    assert low.cost("fewest-pods") > middle.cost("fewest-pods")
    both = damage(state, ["p-0", "p-4"])
    assert middle.cost("gangs-by-priority") < both.cost("gangs-by-priority")
    assert damage(state, ()).cost("gangs-by-priority") < low.cost("gangs-by-priority")
    assert damage(state, ["p-4"]).cost("fewest-pods") < middle.cost("fewest-pods")


def test_a_loss_is_taken_apart_into_placement_and_pruning() -> None:
    """Two of twelve members on free nodes, ten on nodes of all eight gangs."""
    state = spread_gangs()
    nodes = tuple(f"n{i}" for i in (*range(10), 32, 33))
    everybody = [pod.name for pod in state.pods]
    found = anatomy(
        state, ContenderOutcome(damage(state, everybody), 12, ran=True, seconds=1.0, seats=nodes)
    )
    assert found is not None
    # n0 to n9: eight gangs, two of them twice, so all 32 pods have to go there.
    assert (found.evicted, found.least_there, found.least) == (32, 32, 4)
    assert (found.free_seats, found.free_used) == (8, 2)
    free = tuple(f"n{i}" for i in (0, 8, 16, 24, *range(32, 40)))
    found = anatomy(
        state, ContenderOutcome(damage(state, everybody), 12, ran=True, seconds=1.0, seats=free)
    )
    assert found is not None
    assert (found.evicted, found.least_there, found.least) == (32, 4, 4)
    assert (found.free_seats, found.free_used) == (8, 8)
    losses = Losses.of([found])
    assert (losses.by_placement, losses.by_pruning) == (1, 8)
    assert (
        anatomy(state, ContenderOutcome(damage(state, everybody), 3, ran=False, seconds=None))
        is None
    )


def test_nodes_drawn_at_random_cost_what_stands_there_on_average() -> None:
    assert at_random(packed(11)) == 44
    state = idle_and_freed()
    assert 0 < at_random(replace(state, **urgent(1))) < 1
    assert at_random(state) == 1, "two members take both nodes"
    assert at_random(two_priorities()) == 4, "every node has one pod, four members"


def test_free_seats_are_counted_by_the_scarcest_resource() -> None:
    assert free_seats(two_priorities()).total() == 0
    assert free_seats(spread_gangs())["n32"] == 1
    assert free_seats(spread_gangs())["n0"] == 0
    assert free_seats(spread_gangs(), least=URGENT)["n0"] == 1
    assert free_seats(two_priorities(), least=MIDDLE).total() == 4
    assert free_seats(fragmented())["n3"] == 0
    assert free_seats(idle_and_freed()) == {"n0": 0, "n1": 1}


@dataclass
class Story:
    """A comparison of which the outcomes are told."""

    state: State

    def compared(self, ours: ContenderOutcome, theirs: ContenderOutcome) -> Compared:
        return Compared(
            name=self.state.name,
            about="",
            gang=len(self.state.members),
            plans={order: optimum(self.state, order) for order in ORDERS},
            ours=dict.fromkeys(ORDERS, ours),
            rivals={"workload-aware": theirs},
            anatomy=anatomy(self.state, theirs),
        )

    def outcome(self, *evicted: str, ran: bool = True) -> ContenderOutcome:
        members = len(self.state.members) if ran else 3
        taken = {pod.node for pod in self.state.pods}
        nodes = [pod.node for pod in self.state.pods if pod.name in evicted]
        nodes += [node.name for node in self.state.nodes if node.name not in taken]
        return ContenderOutcome(
            damage(self.state, evicted),
            members,
            ran,
            0.5 if ran else None,
            seats=tuple(nodes[:members]),
        )


ORDERS = ("gangs-by-priority", "fewest-pods")


def gang(number: int) -> list[str]:
    return [f"g{number}-{i}" for i in range(4)]


def told(compared: Compared) -> str:
    return "\n".join(broken_promises([compared]))


def test_promises() -> None:
    story = Story(spread_gangs())
    best = story.outcome(*gang(3))
    many = story.outcome(*gang(1), *gang(2))
    half = story.outcome(*gang(1)[:2], ran=False)
    fine = story.compared(best, many)
    assert broken_promises([fine]) == []
    assert fine.as_planned("gangs-by-priority")
    both = pods_in_both([fine, story.compared(half, best)], "gangs-by-priority", "workload-aware")
    assert both == (1, 4, 8)
    dear = told(story.compared(many, best))
    assert "fewest-pods: 8 pods, 4 by workload-aware" in dear
    assert "gangs-by-priority: 8 pods" not in dear
    assert (
        "gangs-by-priority: (((100, 2, 8),),) evicted, (((100, 1, 4),),) by workload-aware" in dear
    )
    assert "(((100, 1, 4),),) suffice" in told(story.compared(many, many))
    wrong = told(story.compared(half, many))
    assert "a plan exists, but the gang does not run" in wrong
    assert "2 pods went and the gang does not run" in wrong
    assert "1 gangs are half broken" in wrong


def test_more_pods_of_a_lower_priority_break_no_promise_of_the_order_by_priority() -> None:
    """One member, four to a node: two pods of 100 go, kube-scheduler took one of 500."""
    state = one_or_two()
    story = Story(state)
    low, middle = story.outcome("low-0", "low-1"), story.outcome("middle")
    compared = story.compared(low, middle)
    assert compared.more_than("gangs-by-priority", "workload-aware")
    assert not compared.dearer_than("gangs-by-priority", "workload-aware")
    assert not any("gangs-by-priority" in line for line in broken_promises([compared]))
    assert "fewest-pods: 2 pods, 1 by workload-aware" in told(compared)
    fewest = replace(compared, ours={"gangs-by-priority": low, "fewest-pods": middle})
    assert broken_promises([fewest]) == []
    text = report(Run("c", "m", "v", "i", 1.0, ORDERS, (fewest,)))
    assert (
        "(gangs-by-priority) evicted more pods than kube-scheduler, GenericWorkload on: 1" in text
    )
    assert "one-or-two: 2 pods (2 of priority 100), not 1 (1 of priority 500)" in text
    assert "(fewest-pods) evicted more pods than kube-scheduler, GenericWorkload on: none" in text


def one_or_two() -> State:
    """Two pods of priority 100 fill one node, one of 500 the other; one member wants in."""
    size = Amounts(4000, 65536)
    waiting, members = gang_of("urgent", 1, Amounts(3000, 1024), URGENT)
    pods = [PodState(f"low-{i}", Amounts(1500, 1024), LOW, "n0") for i in range(2)]
    pods += [PodState("middle", Amounts(3000, 1024), MIDDLE, "n1")]
    nodes = tuple(NodeState(f"n{i}", size) for i in range(2))
    return State("one-or-two", nodes, tuple(pods), (), waiting, members)


def test_the_report_tells_all_of_it() -> None:
    story = Story(spread_gangs())
    fine = story.compared(story.outcome(*gang(3)), story.outcome(*gang(1), *gang(2)))
    other = story.compared(story.outcome(*gang(3)), story.outcome(*gang(1)[:2], ran=False))
    drawn = Drawn(40, 0.5, "spread", 0.9)
    mixed = replace(other, drawn=drawn, name="40-0.5-spread-0.9-g12-s1")
    wide = replace(fine, drawn=replace(drawn, gang_share=0.0), name="40-0-spread-0.9-g12-s1")
    run = Run("the command", "a machine", "versions", "an input", 12.3, ORDERS, (fine, mixed, wide))
    text = report(run)
    assert "`the command` (12 s)" in text
    cell = "4 / 0 / 1, 100, 0.50 s"
    assert f"| eight-spread-gangs | 12 | 4 | 4 / 0 / 1, 100 | {cell} | {cell} |" in text
    assert "**no** (3 of 12)" in text
    assert "*half 1*" in text
    assert (
        "- trace mix, 0% in gangs: 4 pods by the extender (gangs-by-priority), 8 by "
        "kube-scheduler, GenericWorkload on, in 1 cases: 2.0 times" in text
    )
    assert "- trace mix, all: 4 pods by the extender (fewest-pods), 8 by" in text
    assert "| 50% | 1 | 4 | 4 | 4 | 4 | 2 | 0 to 0 | 0 to 0 |" in text
    assert "| all | 2 | 8 | 8 | 8 | 8 | 10 | 2.0 | 2.0 |" in text
    assert "| kube-scheduler, GenericWorkload on | 10 |" in text
    blind = at_random(story.state)
    assert f"| 0% | 1 | 8 | 4 | 4 | {blind:.0f} | 8 | 8 | 2.00 | 1.00 |" in text
    assert "(gangs-by-priority) evicted exactly what the offline plan costs in 3 of 3 cases" in text


def test_an_earlier_run_can_be_told_again(tmp_path: Path) -> None:
    story = Story(spread_gangs())
    kept, table = tmp_path / "run.json", tmp_path / "deep" / "run.md"

    def again(ours: ContenderOutcome, theirs: ContenderOutcome) -> int:
        run = Run("c", "m", "v", "i", 1.0, ORDERS, (story.compared(ours, theirs),))
        kept.write_bytes(msgspec.json.encode(run))
        status = main(["--again", str(kept), "--report", str(table)])
        assert report(run) in table.read_text()
        return status

    best, many = story.outcome(*gang(3)), story.outcome(*gang(1), *gang(2))
    assert again(best, many) == 0
    assert again(many, best) == 1


def test_a_state_is_drawn_once_for_every_share_of_gangs() -> None:
    found = [
        (drawn, state.name) for drawn, state in mixes(40, 2, 7, [0.0, 1.0], Distributions.load())
    ]
    assert [drawn for drawn, _ in found] == [
        Drawn(40, 0.0, "spread", 0.7),
        Drawn(40, 1.0, "spread", 0.7),
        Drawn(40, 0.0, "pack", 0.7),
        Drawn(40, 1.0, "pack", 0.7),
    ]
    assert len({name for _, name in found}) == 4


def test_a_run_goes_on_where_it_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def compare(bed: object, drawn: Drawn | None, state: State, *rest: object) -> Compared:
        asked.append(state.name)
        story = Story(state)
        return replace(story.compared(story.outcome(), story.outcome()), drawn=drawn)

    class NoBed:
        def __init__(self, *given: object) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(against_kubernetes, "compare", compare)
    monkeypatch.setattr(against_kubernetes, "Bed", NoBed)
    command = ["--cases", "3", "--no-named", "--out", str(tmp_path / "run.json")]
    options = against_kubernetes.parser().parse_args(command)
    plane = ControlPlane("1.37", tmp_path)
    whole = against_kubernetes.run(options, plane, lambda done: None)
    assert asked == [each.name for each in whole.compared]
    assert len(asked) == 3
    first, second, _ = whole.compared
    failed = replace(first.ours["gangs-by-priority"], ran=False, problem="not measured: too busy")
    second = replace(second, ours={**second.ours, "gangs-by-priority": failed})
    kept: list[Run] = []
    asked.clear()
    earlier = replace(whole, compared=(first, second), seconds=100.0)
    again = against_kubernetes.run(options, plane, kept.append, earlier)
    assert asked == [each.name for each in whole.compared[1:]]
    assert again.compared == whole.compared
    assert again.seconds >= 100
    assert [len(each.compared) for each in kept] == [2, 2, 3], "nothing is lost on the way"


def test_another_commands_run_is_not_gone_on_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(Run("another", "m", "v", "i", 1.0, ORDERS, ())))
    assert main(["--resume", "--out", str(path)]) == 2
    assert "was made by another command: another" in capsys.readouterr().err
    assert main(["--resume", "--out", str(tmp_path / "nothing.json")]) == 2


def test_bad_input_is_told_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "0", "--no-named"]) == 2
    assert "nodes must be at least 1" in capsys.readouterr().err
