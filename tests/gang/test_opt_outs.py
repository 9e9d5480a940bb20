"""Who may opt out of being preempted, against whom, and for which pods (issue 9, row 4).

See docs/security.md, row 4.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.incremental.protection import Protections
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.objects import DisruptionBudget, LabelSelector, Owner, Pod, Requirement
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings
from extender.settings.policy import (
    BUDGET,
    DAEMON_SET,
    DEFAULT,
    EVERYBODY,
    SYSTEM_CRITICAL,
    WHOLE_GANGS,
    NamespaceSelector,
    OptOutRule,
    PolicySettings,
)
from extender.settings.settings import PlanSettings, Settings
from extender.settings.settings_rules import validate
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

HIGH = 100
PROTECTED = {"podgroup-extender.io/protected": "true"}
MISSING = {"scheduling.x-k8s.io/pod-group": "nowhere"}
CONFLICT = {**MISSING, "pod-group.scheduling.sigs.k8s.io/name": "elsewhere"}
ALLOWED = {"default": {"podgroup-extender.io/opt-out": "allowed"}}
BY_ANYBODY = Settings(policy=PolicySettings(opt_out={DEFAULT: EVERYBODY}))
ANY_GANG = Settings(policy=PolicySettings(opt_out={DEFAULT: WHOLE_GANGS}))


def urgent(count: int = 1, priority: int = HIGH, cpu: float = 3) -> list[Pod]:
    return [pod(f"high-{i}", priority=priority, group="high", cpu=cpu) for i in range(count)]


def against(*low: Pod, priority: int = HIGH, count: int = 1, **more: object) -> Snapshot:
    """``low`` on nodes of 4 CPU, and a gang of ``count`` members of 3 CPU that wants in."""
    nodes = [node(name) for name in sorted({each.node for each in low})]
    groups = [group("high", count), group("low", 2)]
    return snapshot(nodes, [*low, *urgent(count, priority)], groups, **more)  # type: ignore[arg-type]


OPT_OUTS = [
    {"annotations": PROTECTED},
    {"annotations": {"volcano.sh/preemptable": "false"}},
    {"annotations": {"volcano.sh/preemptable": "False"}},
    {"annotations": {"volcano.sh/preemptable": "no"}},
    {"labels": {"volcano.sh/preemptable": "false"}},
    {"labels": {"volcano.sh/preemptable": "0"}},
    {"labels": {"volcano.sh/preemptable": ""}},
    {
        "annotations": {"volcano.sh/preemptable": "f"},
        "labels": {"volcano.sh/preemptable": "true"},
    },
    {"annotations": {"yunikorn.apache.org/allow-preemption": "false"}},
    {"labels": {"quota.scheduling.koordinator.sh/preemptible": "false"}},
    {"labels": {"scheduling.koordinator.sh/disable-preemptible": "true"}},
    {"labels": {"kai.scheduler/preemptibility": "non-preemptible"}},
]


@pytest.mark.parametrize("keys", OPT_OUTS, ids=str)
def test_a_tenant_cannot_opt_out_unless_its_namespace_may(keys: dict[str, dict[str, str]]) -> None:
    low = pod("low", on="n0", **keys)  # type: ignore[arg-type]
    plan = plan_for(against(low), "high")
    assert evicted(plan) == {"low"}
    assert isinstance(plan, Plan)
    assert "does not count here" in plan.victims[0].reason
    answer = plan_for(against(low, namespaces=ALLOWED), "high")
    assert isinstance(answer, Refusal)
    assert any(next(iter(next(iter(keys.values())))) in line for line in answer.details)
    assert isinstance(plan_for(against(low), "high", BY_ANYBODY), Refusal)


@pytest.mark.parametrize("keys", OPT_OUTS, ids=str)
def test_nobody_opts_out_against_a_system_critical_priority(
    keys: dict[str, dict[str, str]],
) -> None:
    low = pod("low", on="n0", **keys)  # type: ignore[arg-type]
    critical = against(low, priority=SYSTEM_CRITICAL, namespaces=ALLOWED)
    assert evicted(plan_for(critical, "high")) == {"low"}
    below = against(low, priority=SYSTEM_CRITICAL - 1, namespaces=ALLOWED)
    assert isinstance(plan_for(below, "high"), Refusal)


@pytest.mark.parametrize("value", ["1", "t", "T", "true", "TRUE", "True"])
def test_what_go_takes_for_true_is_no_opt_out_of_volcano(value: str) -> None:
    key = "volcano.sh/preemptable"
    for low in (
        pod("low", on="n0", annotations={key: value}, labels={key: "false"}),
        pod("low", on="n0", labels={key: value}),
    ):
        plan = plan_for(against(low, namespaces=ALLOWED), "high")
        assert evicted(plan) == {"low"}
        assert isinstance(plan, Plan)
        assert "does not count here" not in plan.victims[0].reason


def test_a_long_value_is_told_cut() -> None:
    low = pod("low", on="n0", annotations={"volcano.sh/preemptable": "x" * 250_000})
    answer = plan_for(against(low, namespaces=ALLOWED), "high")
    assert isinstance(answer, Refusal)
    (line,) = [line for line in answer.details if "volcano.sh/preemptable" in line]
    assert "(250000 characters)" in line
    assert len(line) < 300


@pytest.mark.parametrize("labels", [MISSING, CONFLICT], ids=["missing group", "conflict"])
def test_a_gang_with_a_problem_is_a_victim_as_single_pods(labels: dict[str, str]) -> None:
    low = [pod("low-0", on="n0", labels=labels), pod("low-1", on="n1", labels=labels)]
    answer = plan_for(against(*low), "high")
    assert len(evicted(answer)) == 1
    dearer = replace(low[0], priority=HIGH)
    assert evicted(plan_for(against(dearer, low[1]), "high")) == {"low-1"}
    assert isinstance(plan_for(against(dearer), "high"), Refusal)


def gang_of(*more: Pod) -> tuple[Pod, ...]:
    """Two pods of gang ``low`` that are worth taking, and others."""
    return (pod("low-0", on="n0", group="low"), pod("low-1", on="n1", group="low"), *more)


@pytest.mark.parametrize("shield", ["annotation", "priority", "daemon set", "static"])
def test_one_tiny_pod_does_not_shield_its_gang(shield: str) -> None:
    tiny = pod("tiny", on="n0", cpu=0.1, group="low")
    tiny = {
        "annotation": replace(tiny, annotations=PROTECTED),
        "priority": replace(tiny, priority=HIGH),
        "daemon set": replace(tiny, owner=Owner("DaemonSet", "mine", "uid")),
        "static": replace(
            tiny,
            annotations={"kubernetes.io/config.mirror": "x"},
            owner=Owner("Node", "n0", "node-n0"),
        ),
    }[shield]
    answer = plan_for(against(*gang_of(tiny), namespaces=ALLOWED, count=2), "high")
    assert evicted(answer) == {"low-0", "low-1"}
    assert isinstance(answer, Plan)
    assert answer.proof == "optimal"
    assert {cost.level: cost.value for cost in answer.costs}["gangs@0"] == 1


def test_a_gang_goes_whole_for_whoever_is_above_all_of_it() -> None:
    """One pod that is more urgent than the others makes the gang no dearer, and goes with it."""
    low = gang_of(pod("tiny", on="n0", cpu=0.1, group="low", priority=HIGH - 1))
    assert evicted(plan_for(against(*low), "high")) == {"low-0", "low-1", "tiny"}
    other = pod("other", on="n3", priority=1)
    assert evicted(plan_for(against(*low, other), "high")) == {"low-0", "low-1", "tiny"}


def test_who_asks_decides_how_much_of_a_gang_may_go() -> None:
    """The same planner, asked by turns: what it keeps does not mix up the answers."""
    low = gang_of(pod("tiny", on="n0", cpu=0.1, group="low", priority=500))
    settings = Settings()
    resolver = Resolver(settings.groups)
    planner = Planner(settings, resolver)
    for generation, (priority, expected) in enumerate(
        [
            (100, {"low-0", "low-1"}),
            (1000, {"low-0", "low-1", "tiny"}),
            (500, {"low-0", "low-1"}),
            (501, {"low-0", "low-1", "tiny"}),
        ]
    ):
        state = against(*low, priority=priority, generation=generation)
        answer = planner.plan(GangQuestion(resolver.resolve(gang_key("high"), state), state))
        assert evicted(answer) == expected


def test_the_policy_may_let_one_pod_shield_its_gang() -> None:
    tiny = pod("tiny", on="n0", cpu=0.1, group="low", annotations=PROTECTED)
    answer = plan_for(against(*gang_of(tiny)), "high", ANY_GANG)
    assert isinstance(answer, Refusal)
    assert any("tiny stays" in line for line in answer.details)
    critical = against(*gang_of(tiny), priority=SYSTEM_CRITICAL)
    assert evicted(plan_for(critical, "high", ANY_GANG)) == {"low-0", "low-1", "tiny"}


def test_a_pod_that_came_later_does_not_make_its_gang_young() -> None:
    old = gang_of(pod("fresh", on="n0", cpu=0.1, group="low"))
    settings = Settings(plan=PlanSettings(min_runtime_seconds=60))
    mixed = (*old[:2], replace(old[2], started=NOW - 1))
    assert evicted(plan_for(against(*mixed), "high", settings)) == {"low-0", "low-1", "fresh"}
    young = tuple(replace(each, started=NOW - 1) for each in old)
    assert isinstance(plan_for(against(*young), "high", settings), Refusal)


def budget(allowed: int) -> DisruptionBudget:
    return DisruptionBudget("mine", "default", "mine", LabelSelector(), allowed)


def test_a_budget_is_a_wish_to_system_critical_priorities() -> None:
    low = pod("low", on="n0")
    assert isinstance(plan_for(against(low, budgets=[budget(0)]), "high"), Refusal)
    for budgets in ([budget(0)], [budget(0), replace(budget(0), name="twin", uid="twin")]):
        critical = against(low, priority=SYSTEM_CRITICAL, budgets=budgets)
        assert evicted(plan_for(critical, "high")) == {"low"}
    free = pod("free", on="n1")
    labelled = replace(low, labels={"a": "yes"})
    chosen = LabelSelector((Requirement("a", "In", ("yes",)),))
    kept = replace(budget(0), selector=chosen)
    critical = against(labelled, free, priority=SYSTEM_CRITICAL, budgets=[kept])
    assert evicted(plan_for(critical, "high")) == {"free"}


def test_the_policy_says_whose_budgets_count() -> None:
    only = OptOutRule(namespaces=NamespaceSelector(match_labels={"team": "db"}), shields="gang")
    settings = Settings(policy=PolicySettings(opt_out={BUDGET: only}))
    low = pod("low", on="n0")
    state = against(low, budgets=[budget(0)])
    assert evicted(plan_for(state, "high", settings)) == {"low"}
    state = against(low, budgets=[budget(0)], namespaces={"default": {"team": "db"}})
    assert isinstance(plan_for(state, "high", settings), Refusal)


def test_the_policy_says_against_whom_a_key_counts() -> None:
    settings = Settings(
        policy=PolicySettings(
            opt_out={
                "volcano.sh/preemptable": replace(EVERYBODY, preemptors_below=50),
                "podgroup-extender.io/protected": OptOutRule(namespaces=None),
                DAEMON_SET: OptOutRule(namespaces=None),
            }
        )
    )
    validate(settings)
    low = pod("low", on="n0", annotations={"volcano.sh/preemptable": "false"})
    assert evicted(plan_for(against(low, priority=50), "high", settings)) == {"low"}
    assert isinstance(plan_for(against(low, priority=49), "high", settings), Refusal)
    other = pod("other", on="n1", priority=40)
    assert evicted(plan_for(against(low, other, priority=50), "high", settings)) == {"other"}
    low = pod("low", on="n0", annotations=PROTECTED)
    state = against(low, namespaces=ALLOWED)
    assert evicted(plan_for(state, "high", settings)) == {"low"}
    daemon = replace(pod("low", on="n0"), owner=Owner("DaemonSet", "mine", "uid"))
    assert evicted(plan_for(against(daemon), "high", settings)) == {"low"}


@pytest.mark.parametrize(
    ("opt_out", "says"),
    [
        ({"volcano.sh/premptable": EVERYBODY}, "is no way to opt out"),
        ({DEFAULT: replace(EVERYBODY, preemptors_below=SYSTEM_CRITICAL + 1)}, "at most 2000000000"),
        ({BUDGET: EVERYBODY}, "shields must be gang"),
        (
            {DEFAULT: OptOutRule(namespaces=NamespaceSelector(match_labels={"a b": "c"}))},
            "'a b' is no label key",
        ),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(
    opt_out: dict[str, OptOutRule], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        validate(Settings(policy=PolicySettings(opt_out=opt_out)))


def test_a_least_run_time_by_class_goes_before_the_one_for_all() -> None:
    settings = Settings(
        plan=PlanSettings(min_runtime_seconds=60),
        fairness=FairnessSettings(min_runtime_seconds={"batch": 600.0, "spot": 0.0}),
    )
    protections = Protections(settings)
    state = snapshot([node("n0")], [])
    running = pod("p", on="n0", started=NOW - 100)
    assert not protections.shields(running, state), "older than what counts for all"
    assert protections.shields(replace(running, priority_class="batch"), state)
    young = replace(running, started=NOW - 30)
    assert protections.shields(young, state)
    assert not protections.shields(replace(young, priority_class="spot"), state)
