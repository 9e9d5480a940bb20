"""A planner that has seen every change answers as one that sees the cluster for the first time,

and as the search does on the whole problem, from which nothing was left out.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.problem import Infeasible, Limits
from extender.search.solver import solve
from extender.settings.policy import DEFAULT, EVERYBODY, PolicySettings
from extender.settings.settings import PlanSettings, Settings
from tests.gang.churn import Churn
from tests.gang.everything import everything
from tests.gang.world import gang_key

EVENTS = 3000
BRANCHES = 300
"""Enough for most: what is not proved within it is not compared."""
KINDS = [
    Settings(
        plan=PlanSettings(branch_nodes=BRANCHES),
        policy=PolicySettings(opt_out={DEFAULT: EVERYBODY}),
    ),
    Settings(
        plan=PlanSettings(branch_nodes=BRANCHES, pdb_policy="prefer", min_runtime_seconds=120),
        policy=PolicySettings(
            opt_out={DEFAULT: replace(EVERYBODY, shields="gang", preemptors_below=100)}
        ),
    ),
]


def _holds(rng: random.Random, state: Snapshot, gang: Gang) -> list[Hold]:
    """Seats of another gang on a node or two, now and then."""
    if rng.random() < 0.6:
        return []
    return [
        Hold(
            uid=f"held-{i}",
            gang=gang_key("another"),
            node=rng.choice(sorted(state.nodes)),
            priority=rng.choice((1, 100, 500)),
            requests=(("cpu", 2000), ("example.com/gpu", rng.choice((1, 2))), ("pods", 1)),
        )
        for i in range(rng.choice((1, 2)))
        if gang.key
    ]


def _costs(plan: Plan) -> dict[str, int]:
    return {cost.level: cost.value for cost in plan.costs if cost.value}


@pytest.mark.parametrize("settings", KINDS, ids=["defaults", "prefer and min-runtime"])
def test_incremental_equals_from_scratch_after_thousands_of_events(settings: Settings) -> None:
    resolver = Resolver(settings.groups)
    churn = Churn(7, resolver)
    veteran = Planner(settings, resolver)
    seen: Counter[str] = Counter()
    for event in range(EVENTS):
        churn.step()
        if churn.rng.random() < 0.1:
            veteran.see(churn.snapshot())
        if churn.rng.random() < 0.3:
            state = churn.snapshot()
            gang = resolver.resolve(churn.urgent(), state)
            holds = _holds(churn.rng, state, gang)
            answer = veteran.plan(GangQuestion(gang, state, holds))
            assert answer == Planner(settings, resolver).plan(GangQuestion(gang, state, holds)), (
                f"event {event}"
            )
            seen[_kind(answer)] += 1
    # Otherwise the comparison says less than it seems to.
    assert seen["victims"] > 20, seen
    assert seen["infeasible"] > 20, seen
    assert seen["free"] > 5, seen


def _kind(answer: Plan | Refusal) -> str:
    if isinstance(answer, Refusal):
        return answer.code
    return "victims" if answer.victims else "free"


@pytest.mark.parametrize("settings", KINDS, ids=["defaults", "prefer and min-runtime"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_out_of_the_problem_never_matters(settings: Settings, seed: int) -> None:
    resolver = Resolver(settings.groups)
    churn = Churn(seed, resolver)
    planner = Planner(settings, resolver)
    proved = refused = 0
    for _ in range(600):
        churn.step()
        if churn.rng.random() < 0.3:
            state = churn.snapshot()
            gang = resolver.resolve(churn.urgent(), state)
            holds = _holds(churn.rng, state, gang)
            answer = planner.plan(GangQuestion(gang, state, holds))
            if isinstance(answer, Refusal) and answer.code != "infeasible":
                continue
            whole = everything(gang, state, resolver, settings, holds)
            truth = solve(whole, Limits(branch_nodes=BRANCHES))
            if isinstance(answer, Refusal):
                if "tries" not in answer.message:
                    assert isinstance(truth, Infeasible), (answer, truth)
                    refused += 1
                continue
            assert not isinstance(truth, Infeasible), (truth, answer)
            least = {level: v for level, v in zip(whole.levels, truth.cost, strict=True) if v}
            if answer.proof == "optimal" and truth.optimal:
                assert _costs(answer) == least
                proved += 1
    assert proved > 20
    assert refused > 5


def test_a_clock_that_jumps_either_way_is_followed() -> None:
    """What was over (a terminating pod overdue, a pod old enough to go) may hold again."""
    settings = Settings(plan=PlanSettings(min_runtime_seconds=120))
    resolver = Resolver(settings.groups)
    churn = Churn(11, resolver)
    veteran = Planner(settings, resolver)
    answers: Counter[str] = Counter()
    while answers["victims"] < 25 or answers["infeasible"] < 25:
        churn.step()
        state = churn.snapshot()
        if resolver.resolve(churn.urgent(), state).missing == 0:
            continue
        for jump in (0, -300, 40, -30, 4000):
            moved = replace(state, generation=state.generation, now=state.now + jump)
            gang = resolver.resolve(churn.urgent(), moved)
            answer = veteran.plan(GangQuestion(gang, moved))
            assert answer == Planner(settings, resolver).plan(GangQuestion(gang, moved)), jump
            answers[_kind(answer)] += 1


def test_two_kinds_of_preemptor_do_not_share_offers() -> None:
    settings = Settings()
    resolver = Resolver(settings.groups)
    churn = Churn(3, resolver)
    veteran = Planner(settings, resolver)
    keys: list[GangKey] = [gang_key(f"urgent-{i}") for i in range(3)]
    for _ in range(40):
        for _ in range(5):
            churn.step()
        state = churn.snapshot()
        for key in keys:
            gang = resolver.resolve(key, state)
            assert veteran.plan(GangQuestion(gang, state)) == Planner(settings, resolver).plan(
                GangQuestion(gang, state)
            )
