"""filter: which of the nodes that kube-scheduler would take may this pod have?

A pod of no gang keeps its list, less the nodes whose room is promised. A member
of a gang gets its seat and nothing else, once all of the gang's room is free;
until then no node at all. Held-back nodes are answered as unresolvable: on
kube-scheduler up to 1.37 a plain failed node would be tried for preemption.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.gang.plan.lists import complete
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.workload_priority import WHAT as WORKLOAD_CLASS
from extender.model.errors import UnknownPod
from extender.model.objects import Pod
from extender.model.plan import Code, Refusal
from extender.model.texts import counted, cut, one_reason
from extender.verbs.context import Context
from extender.verbs.pod_lookup import PodLookup
from extender.wire.filter_json import FilterArgs, FilterResult


class Filter:
    """Answers the filter verb."""

    def __init__(self, context: Context, asked: PodLookup) -> None:
        self._context = context
        self._asked = asked

    async def answer(self, args: FilterArgs) -> FilterResult:
        """Return the nodes the pod may have now.

        Raises NotReady before recovery, UnknownPod when nothing can be said about the pod.
        """
        context = self._context
        context.require_ready()
        asked = context.evidence.now()
        told, names = args.pod, args.node_names
        try:
            pod = await self._asked.pod(told)
        except UnknownPod as unknown:
            behind = unknown.absent and context.cluster.stale_for() > 0
            alone = context.resolver.member_key(told) is None or not context.acts_for(told)
            if behind and alone:
                return self._unread(told, names)
            raise
        nominated_only = _nominated_only(names, pod, told)
        context.evidence.accepts(pod, names)
        context.offers.settled(pod.uid)  # it is tried again, so it is on its way nowhere
        context.hints.held_back.tried(pod)
        answer: Preemption | Refusal | None = context.reservations.of_member(pod.uid)
        if answer is None:
            key = context.resolver.member_key(pod)
            if key is None:
                return self._beside_seats(pod, names)
            answer = context.asking.known(key)
        if answer is None:
            gang = context.waiting_gang(pod)
            if gang is None:
                unit = context.kept_off(pod)
                if unit:
                    return hold_back(names, f"{unit}: a new member waits until it has been evicted")
                context.samples.offered(pod.uid)
                return self._beside_seats(pod, names)
            # A nominated pod is first tried on its nominated node alone: that is no evidence
            # against others, nor is a sample.
            whole = not nominated_only and self._complete(names)
            offered = {pod.uid: frozenset(names)} if whole else None
            if not gang.missing:
                context.kept_off(pod)  # beyond the quorum nobody looks for a seat for it
            answer = await context.asking.ensure(
                gang.key, Verb.FILTER, offered=offered, asked=asked
            )
        if isinstance(answer, Preemption):
            return self._seated(answer, pod, told, names)
        if answer.code is Code.STALE:
            return FilterResult(node_names=[], error=cut(answer.message))
        context.samples.withhold(pod.uid)
        return hold_back(names, f"{answer.gang}: {_in_short(answer)}")

    def _seated(
        self, preemption: Preemption, pod: Pod, told: Pod, names: list[str]
    ) -> FilterResult:
        seat = preemption.seats.get(pod.uid)
        if seat is None:
            # kube-scheduler tries it again when something changes: bindings are no such thing.
            self._context.hints.held_back.note(pod)
            return hold_back(
                names, f"{preemption.key}: its quorum is being seated, this member has no seat yet"
            )
        asking, alone = self._context.asking, _nominated_only(names, pod, told)
        if preemption.candidates is not None:
            preemption.candidates = preemption.candidates.offered(names)
        if preemption.state is not PreemptionState.OPEN:
            asking.turned_away(preemption, pod, alone=alone)
            return hold_back(names, f"{preemption.key}: seat on {seat}, {_waits_for(preemption)}")
        if seat in names and not asking.starts_with(preemption, pod, alone=alone):
            return hold_back(
                names, f"{preemption.key}: seat on {seat}, another member is not offered its own"
            )
        if not preemption.binding and asking.crowded(preemption):
            asking.turned_away(preemption, pod, alone=alone)
            return hold_back(
                names,
                f"{preemption.key}: seat on {seat}, a more urgent pod may be on its way there",
            )
        if not preemption.begun_without(pod.uid):
            # Members may be gone, or nodes, and nobody sits yet.
            stale = asking.stale()
            if stale is not None:
                asking.turned_away(preemption, pod, alone=alone)
                return FilterResult(node_names=[], error=cut(f"{preemption.key}: {stale}"))
        if seat in names:
            if not asking.seat_given(preemption, pod):
                return hold_back(
                    names, f"{preemption.key}: {seat} does not work, another is sought"
                )
            others = [name for name in names if name != seat]
            refused = hold_back(others, f"{preemption.key}: its seat is on {seat}")
            return replace(refused, node_names=[seat], seat_of=str(preemption.key))
        if not alone and self._follows(preemption, pod, names):
            return self._seated(preemption, pod, told, names)
        # The request tells what the attempt was made with: a nominated seat has just been tried.
        if not alone:
            if told.nominated == seat or self._complete(names):
                asking.seat_not_offered(preemption, pod, frozenset(names))
                swapped = preemption.seats.get(pod.uid)
                if preemption.state is PreemptionState.OPEN and swapped in names:
                    return self._seated(preemption, pod, told, names)
            else:
                asking.seat_not_tried(preemption, pod)
        return hold_back(names, f"{preemption.key}: its seat is on {seat}, which is not offered")

    def _follows(self, preemption: Preemption, pod: Pod, names: list[str]) -> bool:
        """Move a seat to a node that kube-scheduler offers; False where it has to stay.

        A plan that evicts nothing holds room, and any node with room will do. Devices and
        volumes are kube-scheduler's to allocate: which node has them left is known from its list.
        """
        if not pod.shape.unmodelled or preemption.plan.victims or preemption.plan.takes_over:
            return False
        reservations, spare = self._context.reservations, self._context.spare
        taken = Counter(preemption.seats.values())
        for name in sorted(names, key=lambda name: (taken[name], name)):
            if spare.why_not(pod, name) is None:
                reservations.move(preemption, pod.uid, name)
                return True
        for uid, node in preemption.seats.items():
            twin = preemption.pods[uid]
            if uid != pod.uid and node in names and twin.requests == pod.requests:
                reservations.swap(preemption, pod.uid, uid)
                return True
        return False

    def _complete(self, names: list[str]) -> bool:
        return complete(len(names), len(self._context.cluster.snapshot().nodes))

    def _beside_seats(self, pod: Pod, names: list[str]) -> FilterResult:
        held = self._context.reservations.nodes()
        if not held:
            self._offer(pod, names)
            return FilterResult(node_names=names)
        refused: dict[str, str] = {}
        spare = self._context.spare
        for name in [name for name in names if name in held]:
            why = spare.why_not(pod, name)
            if why is None:
                spare.offered(pod, name)  # counts for others
            else:
                refused[name] = one_reason(why)
        kept = [name for name in names if name not in refused] if refused else names
        self._offer(pod, kept)
        if refused:
            self._context.hints.held_back.note(pod)
            self._walk_on(pod, names, kept)
        return FilterResult(node_names=kept, failed_and_unresolvable=refused)

    def _offer(self, pod: Pod, names: list[str]) -> None:
        """Note where the pod may go; a list of all nodes need not be kept."""
        everywhere = len(names) >= len(self._context.cluster.snapshot().nodes)
        self._context.offers.note(pod, None if everywhere else names)

    def _walk_on(self, pod: Pod, names: list[str], kept: list[str]) -> None:
        """Have a pod tried again that was offered nothing but nodes with seats, of a part."""
        samples = self._context.samples
        if kept:
            samples.forget(pod.uid)
        elif samples.refused(pod.uid, names, len(self._context.cluster.snapshot().nodes)):
            self._context.hints.held_back.wake([pod])

    def _unread(self, told: Pod, names: list[str]) -> FilterResult:
        """Answer about a pod of no gang that a watch which is down has not brought.

        Its own word says what it is, so nothing that is promised is given to it, whatever its
        priority. That it was offered nodes can only make plans wait.
        """
        held = self._context.reservations.nodes()
        reason = "seats are held there, and the pod has not been read from the API server yet"
        kept = [name for name in names if name not in held]
        self._context.offers.note(told, kept)
        refused = {name: reason for name in names if name in held}
        return FilterResult(node_names=kept, failed_and_unresolvable=refused)


def _nominated_only(names: list[str], pod: Pod, told: Pod) -> bool:
    """Whether the pod is tried on its nominated node alone; a list may follow."""
    return len(names) == 1 and names[0] in (pod.nominated, told.nominated)


def _in_short(refusal: Refusal) -> str:
    """Return why there is no seat. What lacks, in numbers, is told in an event: they change with
    every pod that comes or goes, and a message that changes writes the pod each time. A class of
    priority that does not count stays the same, and would change the answer."""
    if refusal.code is not Code.INFEASIBLE:
        return refusal.message
    short, _, lacks = refusal.message.partition(": ")
    return f"{short}: {lacks.partition('; ')[0]}" if lacks.startswith(WORKLOAD_CLASS) else short


def _waits_for(preemption: Preemption) -> str:
    """Return in words what a plan waits for before its seats are open."""
    going = [*preemption.victims.values(), *preemption.waits.values()]
    if preemption.state is PreemptionState.CHANGING:
        return "which is no longer sure: another plan is searched for"
    if going:
        # The longest of the plan, and not of who is left: the text changes as seldom as can be.
        grace = preemption.plan.longest_grace
        return f"waits for {counted(len(going), 'pod')} to terminate (grace up to {grace} s)"
    return "its plan is being recorded"


def hold_back(names: list[str], reason: str) -> FilterResult:
    """Return an answer that keeps the pod off all of ``names``."""
    return FilterResult(
        node_names=[], failed_and_unresolvable=dict.fromkeys(names, one_reason(reason))
    )
