"""The stage of observe mode: a week in which kube-scheduler evicted pod by pod."""

from __future__ import annotations

from msgspec.structs import replace

from extender.console.capture import Observed
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.tell.decisions import Outcome, Verb, of_plan
from extender.model.objects import GangKey
from extender.model.plan import Plan
from extender.observe.file import FORMAT, Report
from extender.observe.sums import DAY, WEEK, Ledger, OurAnswer, Told, Waited, week_of
from tests.console.stage import NOW, SETTINGS, Stage

HIGH = "pod-group:research/frontier-run"


def observed_cluster() -> Stage:
    """Four nodes of a gang that runs, a gang of four that waits, and a week to tell of."""
    stage = Stage()
    names = [f"gpu-a-{index:02}" for index in range(8)]
    for name in names:
        stage.node(name, "eu-west-1a")
    stage.gang("llama-pretrain", names[:4], priority=1000, age=41_000)
    stage.gang("vit-sweep", names[4:], namespace="vision", priority=5000)
    key = stage.gang("frontier-run", (), size=4, priority=9000, age=75)
    plan = _plan(stage, key)
    made = of_plan(plan, time=NOW - 60, verb=Verb.OBSERVE, seconds=0.01)
    stage.decisions.append(replace(made, message=f"would be done: {made.message}"))
    stage.tell("pod-group:speech/tune", Outcome.OBSERVED, "has its quorum after 40 s.", 4000.0)
    stage.observed = Observed(report=_report(), waiting=(_waiting(),), kept=False)
    return stage


def _plan(stage: Stage, key: GangKey) -> Plan:
    snapshot = stage.snapshot()
    gang = stage.resolver.resolve(key, snapshot)
    plan = Planner(SETTINGS, stage.resolver).plan(GangQuestion(gang, snapshot, ()))
    assert isinstance(plan, Plan)
    return plan


def _waiting() -> Told:
    return Told(
        HIGH,
        priority=9000,
        quorum=4,
        since=NOW - 75,
        answer=OurAnswer.PLAN,
        seats=4,
        would_evict=4,
        would_break=["pod-group:research/llama-pretrain"],
        evicted=3,
        evicted_pods=[f"vision/vit-sweep-{index}" for index in range(3)],
        broke=["pod-group:vision/vit-sweep"],
        half_broke=["pod-group:vision/vit-sweep"],
        in_part_seconds=48.0,
        most_bound=3,
        seats_lost=1,
    )


def _report() -> Report:
    ledger = Ledger(8, 200)
    for back in range(12):
        wall = NOW - back * DAY
        ledger.count(
            wall,
            gangs=9 - back % 4,
            whole=6,
            gone=2,
            planned=7,
            refused=1,
            would_evict_pods=4 + back % 3,
            would_break_gangs=1,
            evicted_pods=14 - back % 5,
            evicted_for_gangs=11 - back % 5,
            evicted_in_vain=back % 3,
            broken_gangs=3,
            broken_for_gangs=2,
            half_broken_gangs=2,
            in_part_gangs=1,
            in_part_pod_seconds=5000.0 * (1 + back % 3),
            seats_lost=back % 2,
        )
    for name, wall in (("speech/tune", NOW - 4000), ("bio/fold", NOW - WEEK)):
        ledger.tell(
            wall,
            Told(
                f"pod-group:{name}",
                priority=5000,
                quorum=4,
                since=wall - 40,
                until=wall,
                outcome=Waited.WHOLE,
                answer=OurAnswer.REFUSAL,
                message="infeasible: no room for 4 members",
                evicted=4,
                evicted_pods=[f"batch/web-{index}" for index in range(4)],
            ),
        )
    return Report(FORMAT, NOW, ledger.weeks, week_of(NOW) - 3 * DAY)
