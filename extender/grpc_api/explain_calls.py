"""Explain: how a pod or a gang stands, in words, and what was decided about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from extender.gang.plan.what_if import find_gang
from extender.gang.tell.decisions import Decision, Outcome, Verb, of_refusal
from extender.gang.tell.gang_status import (
    PREEMPTION_STATES,
    Facts,
    GangState,
    GangStatuses,
    described,
    light,
    under_way,
)
from extender.grpc_api.calls import Call, CallAnswer, parsed
from extender.grpc_api.messages import decision, reference, victim, ways
from extender.grpc_api.source import GrpcSource
from extender.model.errors import InvalidInput
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Refusal, Seat, Victim
from extender.model.texts import counted
from extender.pb.podgroup.v1 import plan_pb2, types_pb2
from extender.verbs.context import Context

MOST_DECISIONS = 16
MOST_REASONS = 8
State = plan_pb2.ExplainResponse


class About(Struct, frozen=True):
    """An answer, and which decisions belong to it."""

    answer: plan_pb2.ExplainResponse
    concerns: Callable[[Decision], bool]
    names: Callable[[Victim], bool]
    """Whether a victim is the pod, or of the gang, that was asked about."""


class ExplainCalls:
    """The handler of Explain."""

    def __init__(self, source: GrpcSource) -> None:
        self._source = source

    async def explain(self, data: bytes, call: Call) -> CallAnswer:
        """Return how things stand."""
        asked = parsed(plan_pb2.ExplainRequest, data)
        self._source.require_ready()
        subject = asked.WhichOneof("subject")
        if subject == "pod":
            about = self._pod(asked.pod)
        elif subject == "gang":
            about = await self._named_gang(asked.gang)
        else:
            raise InvalidInput("neither a pod nor a gang is given", "subject")
        # Hundreds of decisions may name ten thousand pods each.
        await asyncio.to_thread(_tell, about, list(self._source.decisions))
        return about.answer, 0, 0

    # -- pods ---------------------------------------------------------------------------

    def _pod(self, asked: types_pb2.PodReference) -> About:
        if not asked.uid and not (asked.namespace and asked.name):
            raise InvalidInput("give the uid, or namespace and name", "pod")
        context = self._source.present()
        pod = (
            context.cluster.pod(asked.uid)
            if asked.uid
            else self._source.pod_named(asked.namespace, asked.name)
        )
        if pod is None:
            return _gone_pod(asked)
        uid = pod.uid
        key = context.resolver.member_key(pod)
        if pod.node:
            answer = plan_pb2.ExplainResponse(state=State.STATE_RUNNING)
            answer.reasons.append(
                f"it is on {pod.node}" + (" and terminates" if pod.deleting else "")
            )
            answer.gang = str(key) if key is not None else ""
        elif key is None:
            answer = plan_pb2.ExplainResponse(state=State.STATE_SCHEDULER)
            answer.reasons.extend(_seats_in_the_way(context, pod))
        else:
            answer = self._gang(key)
            answer.reasons.insert(0, _place(context, key, pod))
        return About(answer, _of_gang(answer.gang), lambda victim: victim.uid == uid)

    # -- gangs --------------------------------------------------------------------------

    async def _named_gang(self, text: str) -> About:
        snapshot = self._source.present().shown()
        try:
            answer = self._gang(find_gang(text, snapshot))
        except InvalidInput:
            kept = list(self._source.decisions)
            names = await asyncio.to_thread(_gangs_named, text, kept)
            if len(names) != 1:
                raise
            answer = plan_pb2.ExplainResponse(gang=names.pop(), state=State.STATE_GONE)
            answer.reasons.append("it has no pods any more")
        name = answer.gang
        return About(answer, _of_gang(name), lambda victim: victim.gang == name)

    def _gang(self, key: GangKey) -> plan_pb2.ExplainResponse:
        context = self._source.present()
        gang = context.resolver.resolve(key, context.shown())
        answer = plan_pb2.ExplainResponse(gang=str(key))
        stale = context.asking.stale()
        if stale is not None:
            answer.reasons.append(stale)
        self._stand(answer, context, gang)
        answer.reasons.extend(gang.notes)
        return answer

    def _stand(self, answer: plan_pb2.ExplainResponse, context: Context, gang: Gang) -> None:
        name = str(gang.key)
        plans = [
            each
            for each in context.reservations
            if each.key == gang.key or any(name == pod.gang for pod in each.victims.values())
        ]
        known = context.asking.known(gang.key)
        last = next((made for made in self._source.decisions if made.gang == name), None)
        if isinstance(known, Refusal):
            last = of_refusal(known, time=0.0, verb=Verb.LOOP, seconds=0.0)
        preemptions = [
            under_way(
                each.plan,
                each.state,
                each.seats,
                each.pods,
                (each.victims.values(), each.waits.values()),
            )
            for each in plans
        ]
        facts = Facts((), preemptions, (), [light(last)] if last is not None else [])
        status = GangStatuses(facts).of(described(gang))
        refused = last is not None and last.outcome is Outcome.REFUSAL
        answer.reasons.extend(filter(None, (status.what, status.detail)))
        if status.seats or status.state in PREEMPTION_STATES:
            answer.state = State.STATE_PREEMPTING
        elif status.state == GangState.RUNNING:
            answer.state = State.STATE_RUNNING
        elif refused and last is not None:
            answer.state = State.STATE_REFUSED
            answer.reasons.extend(last.explanation)
            answer.ways.extend(ways(last.ways))
        else:
            answer.state = State.STATE_UNDECIDED
        if status.next:
            answer.reasons.append(f"next: {status.next}")
        preemption = context.reservations.get(gang.key)
        if preemption is None:
            return
        answer.preemption.id = preemption.id
        answer.preemption.state = preemption.state.value
        for uid, node in sorted(preemption.seats.items(), key=lambda item: (item[1], item[0])):
            member = reference(preemption.pods[uid])
            answer.preemption.seats.append(types_pb2.Seat(pod=member, node_name=node))
        answer.preemption.victims_left.extend(map(victim, preemption.victims.values()))
        answer.preemption.waits_for.extend(map(victim, preemption.waits.values()))


def _of_gang(name: str) -> Callable[[Decision], bool]:
    return lambda made: bool(name) and made.gang == name


def _gone_pod(asked: types_pb2.PodReference) -> About:
    def meant(found: Victim | Seat) -> bool:
        if asked.uid:
            return found.uid == asked.uid
        return (found.namespace, found.name) == (asked.namespace, asked.name)

    answer = plan_pb2.ExplainResponse(state=State.STATE_GONE)
    what = asked.uid or f"{asked.namespace}/{asked.name}"
    answer.reasons.append(f"there is no pod {what}, or it has ended")
    return About(answer, lambda made: any(map(meant, made.seats)), meant)


def _gangs_named(text: str, kept: list[Decision]) -> set[str]:
    """Return the gangs that decisions speak of and that ``text`` may mean."""
    return {
        name
        for made in kept
        for name in {made.gang, *(each.gang for each in made.victims)}
        if name and (name == text or name.endswith((f":{text}", f"/{text}")))
    }


def _tell(about: About, kept: list[Decision]) -> None:
    """Add the decisions, which come newest first."""
    of_it = (made for made in kept if about.concerns(made))
    against_it = (made for made in kept if any(map(about.names, made.victims)))
    about.answer.decisions.extend(map(decision, islice(of_it, MOST_DECISIONS)))
    about.answer.evicted_by.extend(map(decision, islice(against_it, MOST_DECISIONS)))


def _place(context: Context, key: GangKey, pod: Pod) -> str:
    """Return where in its gang a waiting member stands."""
    preemption = context.reservations.get(key)
    node = None if preemption is None else preemption.seats.get(pod.uid)
    if node is not None:
        return f"its seat is on {node}"
    gang = context.resolver.resolve(key, context.shown())
    if preemption is None and not gang.problems and (gang.missing == 0 or not gang.starts_whole):
        return "its gang does not wait for it: kube-scheduler places it like a single pod"
    return "it waits with its gang and has no seat"


def _seats_in_the_way(context: Context, pod: Pod) -> list[str]:
    """Return what held seats mean for a pod of no gang."""
    reasons: dict[str, list[str]] = {}
    for node in sorted(context.reservations.nodes()):
        why = context.spare.why_not(pod, node)
        if why is not None:
            reasons.setdefault(why, []).append(node)
    if not reasons:
        return ["it is of no gang and no held seat is in its way: kube-scheduler places it"]
    lines = [
        f"{counted(len(nodes), 'node')} "
        f"({', '.join(nodes[:3])}{', ...' if len(nodes) > 3 else ''}): {why}"
        for why, nodes in reasons.items()
    ]
    more = len(lines) - MOST_REASONS
    return lines[:MOST_REASONS] + ([f"and {counted(more, 'more reason')}"] if more > 0 else [])
