"""This planner, asked about the replayed cluster as about a real one."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Node, Pod, PriorityClass
from extender.model.plan import Plan, Proof
from extender.model.snapshot import Snapshot
from extender.replay.cluster import Cluster, Member, Placement, Work
from extender.settings.settings import PlanSettings, Settings

GPU = "nvidia.com/gpu"
NAMESPACE = "replay"
STAYS = 2_000_001_000
"""Priority of what holds the room of members that are ending: nobody evicts it."""
EPOCH = 1_600_000_000.0
"""Wall clock at second 0: a time of 0 means that there is none."""


class _Seen(Struct):
    """What a node's pods were made from."""

    members: tuple[tuple[Member, float, float], ...]
    leaving: int


class Planned:
    """Plans with one cost order. Pods of nodes that did not change stay the same objects."""

    def __init__(self, cluster: Cluster, order: str, restart: float) -> None:
        """``restart``: seconds that a restart costs, as plan.restartSeconds."""
        settings = Settings(plan=PlanSettings(cost_order=order, restart_seconds=restart))
        self._resolver = Resolver(settings.groups)
        self._planner = Planner(settings, self._resolver)
        self._cluster = cluster
        size = (("cpu", 10**6), (GPU, cluster.gpus), ("memory", 2**50), ("pods", 110))
        self._names = [f"n{at:05}" for at in range(len(cluster.free))]
        self._index = {name: at for at, name in enumerate(self._names)}
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        self._nodes = {
            name: Node(
                name, name, labels=labels | {"kubernetes.io/hostname": name}, allocatable=size
            )
            for name in self._names
        }
        self._seen = [_Seen((), 0) for _ in self._names]
        self._bound: dict[str, tuple[Pod, ...]] = {}
        self._generation = 0

    def preempt(self, work: Work, now: float, checkpoint: float) -> Placement | None:
        """Return seats for all of a job's members and whom to evict, None where there is no plan.

        ``now``: seconds of the replay; ``checkpoint``: seconds between two checkpoints, or 0.
        """
        key = GangKey("pod-group", NAMESPACE, _name(work))
        snapshot = self._snapshot(work, key, now, checkpoint)
        question = GangQuestion(self._resolver.resolve(key, snapshot), snapshot)
        plan = self._planner.plan(question)
        if not isinstance(plan, Plan):
            return None
        at = {_uid(work, member): member for member in range(len(work.nodes))}
        there = {_uid(each.work, each.at): each for on in self._cluster.on for each in on}
        return Placement(
            [(at[seat.uid], self._index[seat.node]) for seat in plan.seats],
            [there[victim.uid] for victim in plan.victims],
            bounded=plan.proof is not Proof.OPTIMAL,
        )

    def _snapshot(self, work: Work, key: GangKey, now: float, checkpoint: float) -> Snapshot:
        self._generation += 1
        gangs: dict[int, Work] = {work.number: work}
        bound, cluster = dict(self._bound), self._cluster
        for node, on in enumerate(cluster.on):
            seen = tuple((each, *_times(each.work, now, checkpoint)) for each in on)
            if (
                seen != self._seen[node].members
                or cluster.leaving[node] != self._seen[node].leaving
            ):
                self._seen[node] = _Seen(seen, cluster.leaving[node])
                pods = [self._running(*each) for each in seen]
                if cluster.leaving[node]:
                    pods.append(self._ending(node))
                bound[self._names[node]] = tuple(sorted(pods, key=lambda pod: pod.uid))
            gangs |= {each.work.number: each.work for each in on if len(each.work.nodes) > 1}
        self._bound = bound
        waiting = [self._pod(work, at) for at in work.waiting]
        members: dict[GangKey, list[Pod]] = {key: waiting}
        for pods_of_node in bound.values():
            for pod in pods_of_node:
                if pod.pod_group:
                    own = GangKey("pod-group", NAMESPACE, pod.pod_group)
                    members.setdefault(own, []).append(pod)
        levels = {each.job.priority for each in gangs.values()}
        return Snapshot(
            generation=self._generation,
            now=float(int(EPOCH + now)),
            nodes=self._nodes,
            bound=bound,
            pending={pod.uid: pod for pod in waiting},
            members={
                own: tuple(sorted(pods, key=lambda pod: (pod.created, pod.uid)))
                for own, pods in members.items()
            },
            groups={
                ("core", NAMESPACE, f"j{each.number}"): _group(each) for each in gangs.values()
            },
            group_sources=frozenset({"core"}),
            priority_classes={f"p{level}": PriorityClass(f"p{level}", level) for level in levels},
        )

    def _pod(self, work: Work, at: int) -> Pod:
        requests = ((GPU, work.job.gpus), ("pods", 1))
        uid = _uid(work, at)
        return Pod(
            uid=uid,
            namespace=NAMESPACE,
            name=uid,
            priority=work.job.priority,
            requests=requests,
            pod_group=_name(work),
            created=EPOCH + work.queued_at,
        )

    def _running(self, member: Member, started: float, checkpointed: float) -> Pod:
        work = member.work
        return replace(
            self._pod(work, member.at),
            node=self._names[work.nodes[member.at]],
            phase="Running",
            pod_group=_name(work) if len(work.nodes) > 1 else "",
            started=EPOCH + started,
            checkpointed=EPOCH + checkpointed if checkpointed else 0.0,
        )

    def _ending(self, node: int) -> Pod:
        name = f"ending-{node}"
        requests = ((GPU, self._cluster.leaving[node]), ("pods", 1))
        return Pod(
            uid=name,
            namespace=NAMESPACE,
            name=name,
            node=self._names[node],
            phase="Running",
            priority=STAYS,
            requests=requests,
        )


def _times(work: Work, now: float, checkpoint: float) -> tuple[float, float]:
    """Return since when a job's pods count as running, and their last checkpoint (0: none)."""
    started = work.held_since if work.running_since is None else work.running_since
    saved = work.saved(now, checkpoint)
    return min(now, started), started + saved if saved else 0.0


def _uid(work: Work, at: int) -> str:
    return f"j{work.number}-{at}"


def _name(work: Work) -> str:
    return f"j{work.number}"


def _group(work: Work) -> GroupObject:
    return GroupObject(
        source="core",
        uid=_name(work),
        namespace=NAMESPACE,
        name=_name(work),
        min_count=len(work.nodes),
        disrupt_all=True,
        priority=work.job.priority,
        priority_class=f"p{work.job.priority}",
    )
