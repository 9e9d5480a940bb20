"""``plan`` on the command line: a limit is a limit, and a cut search says that it was cut."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from extender.cli.cluster_question import ClusterQuestion, answer
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.problem.stop import Countdown
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import gang_key, group, node, pod, snapshot

HIGH = 100


def contested(gangs: int = 4) -> Snapshot:
    """Two low gangs of three on every node, one in a row and one spread out, and a high gang
    that wants every other node."""
    nodes = 3 * gangs
    where = {
        **{f"row-{g}": [3 * g, 3 * g + 1, 3 * g + 2] for g in range(gangs)},
        **{f"far-{g}": [g, g + gangs, g + 2 * gangs] for g in range(gangs)},
    }
    low = [
        pod(f"{name}-{n}", on=f"n{n}", cpu=2, group=name) for name, on in where.items() for n in on
    ]
    high = [pod(f"high-{i}", priority=HIGH, group="high", cpu=3) for i in range(nodes // 2)]
    groups = [group(name, 3) for name in where]
    return snapshot(
        [node(f"n{i}") for i in range(nodes)],
        [*low, *high],
        [*groups, group("high", len(high))],
    )


@pytest.mark.parametrize(
    ("asked", "limit"), [(None, 7.0), (2.5, 2.5), (0.0, None)], ids=["settings", "given", "none"]
)
def test_the_search_has_the_deadline_and_the_flag_of_the_command(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, limit: float | None
) -> None:
    seen: list[tuple[float | None, Any]] = []

    def plan(
        self: Planner, question: GangQuestion, *, deadline: float | None, cancel: Any
    ) -> Refusal:
        seen.append((deadline, cancel))
        return Refusal(gang=gang_key("high"), code=Code.INFEASIBLE, message="")

    monkeypatch.setattr(Planner, "plan", plan)
    settings = Settings(plan=PlanSettings(seconds=7.0))
    before = time.monotonic()
    answer(ClusterQuestion(contested(), settings), gang_key("high"), asked)
    (deadline, cancel), after = seen[0], time.monotonic()
    if limit is None:
        assert deadline is None
    else:
        assert deadline is not None
        assert before + limit <= deadline <= after + limit
    assert isinstance(cancel, array)
    assert list(cancel) == [0]


def proofs(asks: Sequence[int]) -> list[Plan]:
    """The plans of searches that end at their N-th question of whether to go on."""
    state, settings = contested(), Settings()
    resolver = Resolver(settings.groups)
    found = []
    for many in asks:
        gang = resolver.resolve(gang_key("high"), state)
        plan = Planner(settings, resolver).plan(GangQuestion(gang, state), cancel=Countdown(many))
        assert isinstance(plan, Plan), plan
        found.append(plan)
    return found


def test_a_cut_plan_says_so_with_its_bound_and_more_time_makes_it_no_worse() -> None:
    cut, proved = proofs([0, 1 << 40])
    assert "the search was cut: it was cancelled" in cut.explanation[-1]
    assert "is certain" in " ".join(cut.explanation), cut.explanation
    assert not any("the search was cut" in line for line in proved.explanation)
    assert [level.value for level in proved.costs] <= [level.value for level in cut.costs]
