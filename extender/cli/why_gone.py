"""Why a pod or a gang is not there any more, from the decisions that are kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from extender.cli.live_command import moment, named, namespace_of
from extender.gang.plan.single import SINGLE
from extender.gang.tell.decisions import Outcome
from extender.gang.tell.gang_status import Facts
from extender.gang.tell.leaving import Obj, after_eviction, lost_words
from extender.gang.tell.story import Story
from extender.model.objects import GangKey


def stories_of_gone_gangs(name: str, namespace: str | None, facts: Facts) -> list[Story]:
    """Return the stories of gangs, and of single pods planned for, that are remembered only.

    ``name``: NAME, NAMESPACE/NAME or a key; the server's present gangs are left out.
    """
    there = {str(gang["gang"]) for gang in facts.gangs}
    keys = {
        key
        for decision in facts.decisions
        for key in (decision["gang"], *(victim["gang"] for victim in decision["victims"]))
        if key and key not in there and named(key, name) and namespace in (None, namespace_of(key))
    }
    return [_gone(key, facts) for key in sorted(keys)]


def _gone(key: str, facts: Facts) -> Story:
    taken = [
        (position, decision)
        for position, decision in enumerate(facts.decisions)
        if decision["outcome"] == Outcome.PLAN and _of(decision, key)
    ]
    own = facts.last(key)
    dialect, namespace, name = GangKey.read(key)
    subject = f"pod {namespace}/{name}" if dialect == SINGLE else f"gang {key}"
    if own is None or (taken and taken[0][1]["time"] > own["time"]):
        position, decision = taken[0]
        reason = _taken(position, decision, key, facts)
        follows = after_eviction(_of(decision, key))
        return Story(subject, "gone", reason, decision, follows, gang=key)
    reason = (
        "it has no unfinished pods any more: they have finished or were deleted; the last that was "
        f"decided about it: {moment(own['time'])} {own['outcome']}: {own['message']}"
    )
    also = tuple(f"before: {_taken(at, decision, key, facts)}" for at, decision in taken[:1])
    follows = f"nothing, if its work is done; `decisions {key}` lists what was decided about it"
    return Story(subject, "gone", reason, own, follows, also, key)


def _of(decision: Obj, key: str) -> list[Obj]:
    return [victim for victim in decision["victims"] if victim["gang"] == key]


def _taken(position: int, decision: Obj, key: str, facts: Facts) -> str:
    victims = _of(decision, key)
    became, over = _became(facts.decisions, position)
    evicted = "were to be evicted" if over == "gave-up" else "were evicted"
    return (
        f"{len(victims)} of its pods {evicted} at {moment(decision['time'])} "
        f"for {decision['gang']}: {victims[0]['reason']}{lost_words(victims)}{became}"
    )


def story_of_evicted(namespace: str | None, name: str, facts: Facts) -> Story | None:
    """Return the story of a pod that is not there any more, None when no plan named it."""
    for position, decision in enumerate(facts.decisions):
        if decision["outcome"] != Outcome.PLAN:
            continue
        for victim in decision["victims"]:
            if victim["name"] != name or namespace not in (None, victim["namespace"]):
                continue
            became, _ = _became(facts.decisions, position)
            with_it = f" of {victim['gang']}" if victim["gang"] else ""
            return Story(
                f"pod {victim['namespace']}/{name}",
                "gone",
                f"a victim for {decision['gang']} at {moment(decision['time'])} (priority "
                f"{victim['priority']}{with_it}): {victim['reason']}{lost_words([victim])}{became}",
                decision,
                after_eviction([victim])
                + (f"; `why {victim['gang']}` explains its gang" if victim["gang"] else ""),
                gang=victim["gang"],
            )
    return None


def _became(decisions: Sequence[Obj], position: int) -> tuple[str, str]:
    """Return what became of a plan, in words and as the outcome; both "" before its end."""
    gang = decisions[position]["gang"]
    for later in reversed(decisions[:position]):
        # A plan that is changed is kept again as a plan.
        if later["gang"] == gang and later["outcome"] not in ("refusal", "plan"):
            return f"; that plan: {later['outcome']}, {later['message']}", later["outcome"]
    return "", ""
