"""The preempt verb with a cluster of pods, and everybody it asks as a line to be changed."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from types import SimpleNamespace
from typing import Any, cast

from extender.gang.core.reservations import Preemption
from extender.gang.plan.candidates import Candidates
from extender.gang.plan.planner import as_victim
from extender.gang.plan.single import single_gang
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.errors import NotReady
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.objects import Node, Pod
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from extender.verbs.context import Context
from extender.verbs.pod_lookup import PodLookup
from extender.verbs.preempt import Preempt
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.world import bare_plan, gang_key, node, pod, snapshot

NO = Refusal(gang=gang_key("p"), code=Code.INFEASIBLE, message="no")


class _Enforcement(SimpleNamespace):
    """Whom is acted for; ``everybody`` is asked anew each time."""

    def __init__(self, everybody: Callable[[], bool], **more: Any) -> None:
        super().__init__(**more)
        self._everybody = everybody

    @property
    def everybody(self) -> bool:
        return self._everybody()


class Desk:
    """Preempt with a cluster of pods, and everybody it asks as a line to be changed."""

    def __init__(self, *pods: Pod, nodes: int = 4) -> None:
        self.pods = {each.uid: each for each in pods}
        self.nodes = [node(f"n{i}") for i in range(nodes)]
        self.preemptions: dict[str, Preemption] = {}
        """Pod uid -> the preemption that it is a member of."""
        self.binding: set[str] = set()
        """Names of gangs that are being seated."""
        self.held: set[str] = set()
        """Nodes with seats."""
        self.full: set[str] = set()
        """Nodes whose seats need all the room, whoever goes."""
        self.whole: dict[str, Gang] = {}
        """Gangs by name."""
        self.acts = self.ready = True
        self.everybody = False
        self.goes_on = False
        self.evictable = True
        self.stale: str | None = None
        self.going: set[str] = set()
        self.taken: set[str] = set()
        """What a plan under way is to evict, by its units' names."""
        self.withheld = ""
        """Uid of a pod that was kept off every node by our word, a moment ago."""
        self.cheap: Plan | Refusal = NO
        self.answer: Preemption | Refusal = NO
        self.during: Callable[[], None] = lambda: None
        self.parked: dict[str, tuple[str, AbstractSet[str]]] = {}
        self.said: list[tuple[Any, ...]] = []
        self.accepted: list[list[str]] = []
        """What kube-scheduler's own rules let each pod onto, as it was noted."""
        self.preempt = Preempt(self._context(), cast(PodLookup, self), Settings())

    async def pod(self, told: Pod) -> Pod:
        return told

    def _context(self) -> Context:
        say = self._say

        async def ask(single: Gang, candidates: Candidates) -> Plan | Refusal:
            say("ask", *sorted(candidates.nodes))
            self.during()
            return self.cheap

        async def ensure(key: object, verb: Verb, **more: Any) -> Preemption | Refusal:
            candidates = more.get("candidates")
            say("ensure", verb, *sorted(candidates.nodes if candidates else ()))
            return self.answer

        return Context(
            cluster=cast(Any, SimpleNamespace(snapshot=self._snapshot, pod=self.pods.get)),
            asking=cast(
                Any,
                SimpleNamespace(
                    require_ready=self._require_ready,
                    stale=lambda: self.stale,
                    ask=ask,
                    ensure=ensure,
                    takes_unit=lambda name: name in self.going,
                    seat_not_offered=lambda preemption, pod, others: say("not offered"),
                    seat_not_tried=lambda preemption, pod: say("not tried"),
                ),
            ),
            reservations=cast(
                Any,
                SimpleNamespace(
                    of_member=self.preemptions.get,
                    nodes=lambda: self.held,
                    get=lambda key: SimpleNamespace(binding=key.name in self.binding),
                ),
            ),
            evidence=cast(
                Any,
                SimpleNamespace(
                    accepts=lambda pod, names, victims: self.accepted.append(list(names)),
                    now=lambda: 0.0,
                ),
            ),
            hints=cast(
                Any,
                SimpleNamespace(
                    held_back=SimpleNamespace(
                        note=lambda pod, unit: say("held back", unit),
                        park=self._park,
                        asked=lambda uid, namespace, nodes: None,
                        allowed=lambda pod, nodes: self.parked.pop(pod.uid, None),
                        retry=lambda pods: [say("again", node) for _, node in pods],
                        settled=lambda pod: self.parked.pop(pod.uid, None),
                    ),
                    nominations=SimpleNamespace(clear=lambda pods, node: say("cleared", node)),
                ),
            ),
            offers=cast(
                Any, SimpleNamespace(note=lambda pod, names: say("offered", *sorted(names)))
            ),
            resolver=cast(
                Any,
                SimpleNamespace(
                    member_key=self._key,
                    unit_key=self._key,
                    resolve=lambda key, snapshot: self.whole.get(key.name),
                ),
            ),
            enforcement=cast(
                Any,
                _Enforcement(
                    lambda: self.everybody,
                    acts_for=lambda namespace, snapshot: self.acts,
                    may_evict=lambda namespace, snapshot: self.evictable,
                ),
            ),
            spare=cast(
                Any,
                SimpleNamespace(
                    why_not=lambda pod, node, leaving: "full" if node in self.full else None
                ),
            ),
            samples=cast(
                Any,
                SimpleNamespace(
                    goes_on=lambda uid: self.goes_on, withheld=lambda uid: uid == self.withheld
                ),
            ),
            shown=self._snapshot,
            takes=lambda uid: uid in self.taken,
            spared=lambda: self._snapshot().spared,
        )

    def _require_ready(self) -> None:
        if not self.ready:
            raise NotReady("not yet")

    def _say(self, *words: Any) -> None:
        self.said.append(words)

    def _park(self, pod: Pod, node: str, victims: AbstractSet[str] = frozenset()) -> None:
        self.parked[pod.uid] = (node, victims)

    def _key(self, each: Pod) -> object:
        return gang_key(each.pod_group) if each.pod_group else None

    def _snapshot(self) -> Snapshot:
        nodes: list[Node] = self.nodes
        return snapshot(nodes, [])

    async def asked(self, told: Pod, **candidates: Pod) -> list[str] | None:
        """The nodes that are left to kube-scheduler; None for an answer that is none."""
        named = {name: NodeVictims((each.uid,)) for name, each in candidates.items()}
        result = await self.preempt.answer(PreemptArgs(told, named))
        return None if result is None else sorted(result.candidates)


SINGLE = pod("p", priority=9)


def alone(name: str, at: str) -> Pod:
    return pod(name, on=at)


def member(name: str, at: str, of: str = "low") -> Pod:
    return pod(name, on=at, group=of)


def goes_whole(*pods: Pod, whole: bool = True) -> Gang:
    unit = UNIT_ALL if whole else UNIT_SINGLE
    return Gang(key=gang_key("low"), members=pods, min_count=len(pods), unit=unit)


def plan_over(*victims: Pod) -> Plan:
    return bare_plan(single_gang(SINGLE).key, (as_victim(each, "", 30) for each in victims))


def flying(plan: Plan) -> Preemption:
    return Preemption(
        plan=plan, id="1", pods={}, seats={}, state=PreemptionState.PLANNED, since=0.0
    )
