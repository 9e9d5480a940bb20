"""Counting and reporting of a comparison, without a control plane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bench.against_kubernetes import main
from bench.rival.cases import NamedCase, named_cases, spread_gangs, surplus_first
from bench.rival.comparison import Compared, Run, broken_promises, pods_in_both
from bench.rival.outcome import Outcome, damage, optimum
from bench.rival.report import report
from bench.state import State


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


@dataclass
class Story:
    """A comparison of which the outcomes are told."""

    state: State

    def compared(self, ours: Outcome, theirs: Outcome) -> Compared:
        return Compared(
            self.state.name,
            "named",
            "",
            len(self.state.members),
            optimum(self.state),
            {"extender": ours, "workload-aware": theirs},
        )

    def outcome(self, *evicted: str, ran: bool = True) -> Outcome:
        members = len(self.state.members) if ran else 3
        return Outcome(damage(self.state, evicted), members, ran, 0.5 if ran else None)


def gang(number: int) -> list[str]:
    return [f"g{number}-{i}" for i in range(4)]


def test_promises() -> None:
    story = Story(spread_gangs())
    best = story.outcome(*gang(3))
    many = story.outcome(*gang(1), *gang(2))
    half = story.outcome(*gang(1)[:2], ran=False)
    fine = story.compared(best, many)
    assert broken_promises([fine]) == []
    assert fine.as_planned
    assert pods_in_both([fine, story.compared(half, best)], "workload-aware") == (1, 4, 8)

    def told(compared: Compared) -> str:
        return "\n".join(broken_promises([compared]))

    assert "8 pods, 4 by workload-aware" in told(story.compared(many, best))
    assert "((100, 1, 4),) suffice" in told(story.compared(many, many))
    wrong = told(story.compared(half, many))
    assert "a plan exists, but the gang does not run" in wrong
    assert "2 pods went and the gang does not run" in wrong
    assert "1 gangs are half broken" in wrong


def test_the_report_tells_all_of_it() -> None:
    story = Story(spread_gangs())
    fine = story.compared(story.outcome(*gang(3)), story.outcome(*gang(1), *gang(2)))
    other = story.compared(story.outcome(*gang(3)), story.outcome(*gang(1)[:2], ran=False))
    mixed = replace(other, kind="40", name="mix-40-spread-0.9-g12-s1")
    run = Run("the command", "a machine", "versions", "an input", 12.3, (fine, mixed))
    text = report(run)
    assert "`the command` (12 s)" in text
    assert "| eight-spread-gangs | 12 | 4 / 0 / 1, 100 | 4 / 0 / 1, 100, 0.50 s |" in text
    assert "**no** (3 of 12)" in text
    assert "*half 1*" in text
    assert "4 pods by the extender, 8 by kube-scheduler, GenericWorkload on: 2.0 times" in text
    assert "| spread 0.9 | 1 | 4 | 4 | 2 |" in text
    assert "exactly what the offline plan costs in 2 of 2 cases" in text


def test_an_earlier_run_can_be_told_again(tmp_path: Path) -> None:
    story = Story(spread_gangs())
    kept, table = tmp_path / "run.json", tmp_path / "deep" / "run.md"

    def told(ours: Outcome, theirs: Outcome) -> int:
        run = Run("c", "m", "v", "i", 1.0, (story.compared(ours, theirs),))
        kept.write_bytes(msgspec.json.encode(run))
        status = main(["--again", str(kept), "--report", str(table)])
        assert table.read_text() == report(run)
        return status

    best, many = story.outcome(*gang(3)), story.outcome(*gang(1), *gang(2))
    assert told(best, many) == 0
    assert told(many, best) == 1


def test_bad_input_is_told_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "0", "--no-named"]) == 2
    assert "nodes must be at least 1" in capsys.readouterr().err
