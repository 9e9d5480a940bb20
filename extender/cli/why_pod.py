"""Why a pod waits, or why it goes: reason, decision and next step. Pure."""

from __future__ import annotations

from extender.gang.plan.single import SINGLE
from extender.gang.tell.decisions import Outcome
from extender.gang.tell.gang_status import Facts, GangState
from extender.gang.tell.leaving import Obj, after_eviction
from extender.gang.tell.next_steps import NEXT_BY_CODE
from extender.gang.tell.story import Story, story_of_gang
from extender.model.texts import counted


def story_of_pod(pod: Obj, facts: Facts) -> Story:
    """Return the story of a pod that is there (an entry of /debug/pods)."""
    subject = f"pod {pod['namespace']}/{pod['name']}"
    leaving = _leaving(pod, facts)
    if leaving is not None:
        return leaving
    if pod["terminating"]:
        return Story(subject, "terminating", "it is being deleted, and not for an open plan")
    if pod["node"]:
        return Story(subject, GangState.RUNNING, f"it has a node, {pod['node']}", next="nothing")
    if pod["gated"]:
        return Story(
            subject,
            "gated",
            "it has scheduling gates, so it is not scheduled and does not count as a member yet",
            next="the owner of the gates removes them (spec.schedulingGates)",
        )
    if not pod["gang"]:
        return _single(subject, pod, facts)
    gang = story_of_gang(pod["gang"], facts)
    if gang is None:
        return Story(subject, "waiting", f"its gang {pod['gang']} is being resolved again")
    also = (f"it is a member of {pod['gang']}, which is described here", *gang.also)
    preemption = facts.preemption(pod["gang"])
    seat = next(
        (seat for seat in preemption["seats"] if seat["uid"] == pod["uid"])
        if preemption
        else iter(()),
        None,
    )
    if seat is not None:
        return Story(
            subject,
            gang.state,
            f"its seat is {seat['node']}; {gang.reason}",
            gang.decision,
            gang.next,
            also,
        )
    if gang.state == GangState.RUNNING:
        return Story(
            subject,
            "waiting",
            "its gang has its quorum, so this member is scheduled like a pod of no gang: "
            "it waits for free room, and evicts no gang",
            next="`kubectl describe pod` says what kube-scheduler waits for",
            also=also[:1],
        )
    return Story(subject, gang.state, gang.reason, gang.decision, gang.next, also)


def _leaving(pod: Obj, facts: Facts) -> Story | None:
    """Return the story of a pod that a plan under way evicts, None when none does."""
    for unit in facts.evictions:
        if pod["uid"] not in unit["left"]:
            continue
        error = f"; {unit['error']}" if unit["error"] else ""
        decision = facts.last(unit["preemptor"], "plan")
        with_it = "alone" if unit["unit"] == pod["uid"] else f"with {unit['unit']}"
        return Story(
            f"pod {pod['namespace']}/{pod['name']}",
            "evicted",
            f"it is evicted for {unit['preemptor']} "
            f"({with_it}; now: {unit['left'][pod['uid']]}){error}",
            decision,
            f"nothing: it has its grace period; after that: {after_eviction([pod])}",
            _reason_of(pod, decision),
        )
    return None


def _reason_of(pod: Obj, decision: Obj | None) -> tuple[str, ...]:
    for victim in decision["victims"] if decision is not None else ():
        if victim["uid"] == pod["uid"]:
            return (f"chosen because {victim['reason']}",)
    return ()


def _single(subject: str, pod: Obj, facts: Facts) -> Story:
    """Return the story of a pending pod of no gang."""
    key = f"{SINGLE}:{pod['namespace']}/{pod['name']}"
    preemption, decision = facts.preemption(key), facts.last(key)
    if preemption is not None:
        leaving = len(preemption["victimsLeft"]) + len(preemption["waitsFor"])
        node = preemption["seats"][0]["node"] if preemption["seats"] else "its node"
        return Story(
            subject,
            str(preemption["state"]),
            f"its seat on {node} is held, "
            f"{counted(leaving, 'pod', 'has', 'have')} to terminate first",
            facts.last(key, "plan"),
            "nothing",
        )
    if decision is not None and decision["outcome"] == Outcome.REFUSAL:
        return Story(
            subject,
            "refused",
            f"{decision['code']}: {decision['message']}",
            decision,
            NEXT_BY_CODE.get(decision["code"], ""),
        )
    held = sum(
        len(plan["seats"]) for plan in facts.reservations if plan["priority"] >= pod["priority"]
    )
    why = "it is a pod of no gang: kube-scheduler places it"
    if held:
        seats = counted(held, "seat", "is", "are")
        why += f"; {seats} not free for it, held for gangs of equal or higher priority"
    if not pod["tried"]:
        why += f"; {pod['scheduler']} has not tried it yet"
    return Story(
        subject, "waiting", why, next="`kubectl describe pod` says what kube-scheduler waits for"
    )
