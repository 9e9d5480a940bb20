"""A cluster for the console: nodes with GPUs in zones, gangs that run, wait and are planned for.

Everything that a real process would hold is here as records, with plans of the real planner; no
clock but ``NOW``, so that pages come out the same every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from extender.check import documents
from extender.console.capture import Capture, ConsoleSource, Observed, PreemptionSeen
from extender.console.console import Console
from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.tell.decisions import Decision, Outcome, Verb, of_plan, of_refusal
from extender.gang.tell.decisions_per_day import SECONDS, Days
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Node, Pod, PriorityClass, Requests
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings

NOW = 1_795_000_000.0
GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
GI = 2**30
SETTINGS = Settings()


def wants(gpus: int = 0, cpu: int = 4) -> Requests:
    amounts = (("cpu", cpu * 1000), ("memory", cpu * 8 * GI), (GPU, gpus), ("pods", 1))
    return tuple(entry for entry in amounts if entry[1])


class Stage:
    """A cluster that is put together by hand."""

    def __init__(self) -> None:
        self.resolver = Resolver(SETTINGS.groups)
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        self.groups: list[GroupObject] = []
        self.decisions: list[Decision] = []
        self.days = Days(NOW - 12.4 * SECONDS)
        self.preemptions: list[PreemptionSeen] = []
        self.holds: list[Hold] = []
        self.problems: tuple[str, ...] = ()
        self.observed: Observed | None = None
        self.generation = 1

    def node(self, name: str, zone: str, gpus: int = 8, *, closed: bool = False) -> None:
        labels = {ZONE: zone, RACK: name.rsplit("-", 1)[0], "kubernetes.io/hostname": name}
        amounts = (("cpu", 96_000), ("memory", 768 * GI), (GPU, gpus), ("pods", 110))
        self.nodes.append(
            Node(
                name=name,
                uid=name,
                labels=labels,
                unschedulable=closed,
                allocatable=tuple(entry for entry in amounts if entry[1]),
            )
        )

    def gang(
        self,
        name: str,
        nodes: Iterable[str],
        *,
        size: int = 0,
        namespace: str = "research",
        priority: int = 1000,
        gpus: int = 8,
        age: float = 3600.0,
        least: int | None = None,
    ) -> GangKey:
        """Members on these nodes, one each; those beyond them wait."""
        placed = list(nodes)
        count = max(size, len(placed))
        self.groups.append(
            GroupObject(
                source="core",
                uid=f"{namespace}-{name}",
                namespace=namespace,
                name=name,
                min_count=count if least is None else least,
                disrupt_all=True,
                priority=priority,
            )
        )
        for index in range(count):
            node = placed[index] if index < len(placed) else ""
            self.pods.append(
                Pod(
                    uid=f"{namespace}-{name}-{index}",
                    namespace=namespace,
                    name=f"{name}-{index}",
                    node=node,
                    phase="Running" if node else "Pending",
                    priority=priority,
                    requests=wants(gpus, max(4, gpus * 10)),
                    pod_group=name,
                    created=NOW - age - 20 + index,
                    started=NOW - age if node else 0.0,
                    tried=not node,
                )
            )
        return GangKey("pod-group", namespace, name)

    def single(self, name: str, node: str, *, gpus: int = 0, priority: int = 0) -> None:
        self.pods.append(
            Pod(
                uid=name,
                namespace="batch",
                name=name,
                node=node,
                phase="Running",
                priority=priority,
                requests=wants(gpus, 6),
                created=NOW - 9000,
                started=NOW - 8990,
            )
        )

    def snapshot(self) -> Snapshot:
        return assemble(
            self.resolver.member_key,
            nodes=self.nodes,
            pods=self.pods,
            groups=self.groups,
            priority_classes=[PriorityClass("urgent", 100_000), PriorityClass("normal", 1000)],
            now=NOW,
            generation=self.generation,
        )

    def plan(self, key: GangKey, state: str = "", ago: float = 60.0, gone: int = 0) -> Plan:
        """Plan for a gang now, tell it, and with a state put the plan under way."""
        snapshot = self.snapshot()
        gang = self.resolver.resolve(key, snapshot)
        plan = Planner(SETTINGS, self.resolver).plan(GangQuestion(gang, snapshot, self.holds))
        if isinstance(plan, Refusal):
            self._told(of_refusal(plan, time=NOW - ago, verb=Verb.LOOP, seconds=0.004))
            raise LookupError(plan.message)
        self._told(of_plan(plan, time=NOW - ago, verb=Verb.PREEMPT, seconds=0.0123))
        if state:
            self._fly(plan, state, ago, gone)
        return plan

    def refuse(self, key: GangKey, ago: float = 300.0) -> None:
        try:
            self.plan(key, ago=ago)
        except LookupError:
            return
        raise AssertionError(f"{key} is not refused")

    def _fly(self, plan: Plan, state: str, ago: float, gone: int) -> None:
        members = {pod.uid: pod for pod in self.pods}
        seats = {seat.uid: seat.node for seat in plan.seats}
        self.preemptions.append(
            PreemptionSeen(
                plan=plan,
                id="p-1",
                state=state,
                binding=False,
                since=NOW - ago / 2,
                deadline=NOW + 240 if state == "open" else 0.0,
                members={uid: members[uid] for uid in seats},
                seats=seats,
                victims=plan.victims[gone:],
                waits=plan.waits_for,
                sent=frozenset(victim.uid for victim in plan.victims),
                replans=0,
            )
        )
        went = {victim.uid for victim in plan.victims[:gone]}
        going = {victim.uid for victim in plan.victims[gone:]}
        self.pods = [
            replace(pod, deleting=NOW + 20) if pod.uid in going else pod
            for pod in self.pods
            if pod.uid not in went
        ]
        self.holds += [
            Hold(plan.gang, plan.priority, uid, node, members[uid].requests)
            for uid, node in seats.items()
        ]

    def tell(self, gang: str, outcome: Outcome, message: str, ago: float, **more: object) -> None:
        self._told(
            Decision(
                time=NOW - ago,
                gang=gang,
                verb=Verb.LOOP,
                outcome=outcome,
                message=message,
                **more,  # type: ignore[arg-type]
            )
        )

    def _told(self, decision: Decision) -> None:
        """Keep it and count it, as ``serve`` does."""
        self.decisions.append(decision)
        self.days.add(decision)

    def month(self) -> None:
        """What was decided on the days before this one, of which only the numbers are kept."""
        for back in range(12, 0, -1):
            for outcome, count in ((Outcome.PLAN, 5), (Outcome.DONE, 4), (Outcome.REFUSAL, 7)):
                for _ in range(count * (13 - back) % 9):
                    self.days.add(
                        Decision(
                            time=NOW - back * SECONDS,
                            gang="pod-group:a/b",
                            verb=Verb.LOOP,
                            outcome=outcome,
                            message="",
                        )
                    )

    def capture(self) -> Capture:
        self.decisions.sort(key=lambda decision: -decision.time)
        return Capture(
            time=NOW,
            snapshot=self.snapshot(),
            preemptions=tuple(self.preemptions),
            decisions=tuple(self.decisions),
            days=tuple(self.days.until(NOW)),
            counted_since=self.days.since,
            replayable=frozenset({1}) if self.decisions else frozenset(),
            problems=self.problems,
            observed=self.observed,
        )

    def console(self) -> Console:
        return Console(self.source())

    def source(self) -> ConsoleSource:
        def masks(gang: object, snapshot: Snapshot) -> Mapping[str, frozenset[str]]:
            return {}

        return ConsoleSource(
            settings=SETTINGS,
            resolver=self.resolver,
            mark=lambda: (self.generation, len(self.decisions), self.problems),
            capture=self.capture,
            stale=lambda: None,
            question=lambda: (self.snapshot(), tuple(self.holds)),
            masks=masks,
            read_manifest=lambda text, name: [
                each.value for each in documents.parse(text, name, aliases=False)
            ],
        )


def training_cluster() -> Stage:
    """36 nodes in three zones: most in use, one urgent gang on its way, others waiting."""
    stage = Stage()
    zones = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
    names = [f"gpu-{zone[-1]}-{index:02}" for zone in zones for index in range(12)]
    for name in names:
        stage.node(name, f"eu-west-1{name[4]}", closed=name == "gpu-c-11")
    a, b, c = names[:12], names[12:24], names[24:]
    stage.gang("llama-pretrain", a[:8], priority=5000, age=41_000)
    stage.gang("vit-sweep", a[8:12], namespace="vision", age=5_400)
    stage.gang("moe-ablation", b[:6], age=300)
    stage.gang("speech-finetune", b[6:10], namespace="speech", age=2_500)
    stage.gang("rl-rollouts", [*b[10:12], *c[:2]], namespace="agents", age=900)
    stage.gang("protein-fold", c[2:8], namespace="bio", priority=2000, age=66_000)
    for index, node in enumerate(c[8:11]):
        stage.single(f"notebook-{index}", node, gpus=4 + index, priority=10)
    stage.tell(
        "pod-group:bio/protein-fold", Outcome.DONE, "6 of 6 seats taken", 65_990, seconds=31.0
    )
    stage.tell("pod-group:agents/rl-rollouts", Outcome.DONE, "4 of 4 seats taken", 890, seconds=9.0)
    stage.tell(
        "pod-group:vision/vit-sweep",
        Outcome.GAVE_UP,
        "member vit-sweep-2 was deleted; the seats are given back",
        5_900,
        seconds=12.0,
    )
    for back in range(1, 14):
        stage.tell(
            "pod-group:research/eval-harness",
            (Outcome.DONE, Outcome.PLAN, Outcome.REFUSAL)[back % 3],
            "4 seats, 0 pods to evict, optimal" if back % 3 == 1 else "as before",
            back * 4_700.0,
            code="infeasible" if back % 3 == 2 else "",
        )
    stage.gang("frontier-run", (), size=8, namespace="research", priority=100_000, age=75)
    stage.plan(GangKey("pod-group", "research", "frontier-run"), "waiting", ago=52, gone=1)
    stage.gang("giant-eval", (), size=40, namespace="research", priority=3000, age=1_500)
    stage.refuse(GangKey("pod-group", "research", "giant-eval"), ago=1_400)
    stage.gang("late-joiners", (), size=3, least=6, namespace="speech", priority=1000, age=400)
    stage.gang("nightly-distill", (), size=2, namespace="vision", priority=1000, age=200)
    stage.refuse(GangKey("pod-group", "vision", "nightly-distill"), ago=190)
    stage.month()
    return stage
