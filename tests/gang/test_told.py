"""What is told under a flood: decisions that matter stay, owners are warned once a minute."""

from __future__ import annotations

from extender.gang.runtime.clocks import Clocks
from extender.gang.status.notices import MOST_OBJECTS, OwnerWarnings, words_of
from extender.gang.tell.decisions import (
    DECISION_BYTES,
    Decision,
    Decisions,
    Outcome,
    SearchInput,
    Verb,
)
from extender.gang.tell.ring import Ring
from extender.model.objects import GangKey
from extender.model.plan import Victim
from extender.model.snapshot import Snapshot
from tests.gang.rig import Rig, full_cluster


def decision(outcome: Outcome, gang: str, message: str = "why", **more: object) -> Decision:
    return Decision(
        time=0.0,
        gang=f"pod-group:{gang}",
        verb=Verb.FILTER,
        outcome=outcome,
        message=message,
        **more,  # type: ignore[arg-type]
    )


def test_a_flood_of_refusals_pushes_out_no_real_decision() -> None:
    decisions = Decisions(size=10)
    decisions.add(decision(Outcome.PLAN, "team/job"))
    decisions.add(decision(Outcome.REFUSAL, "team/other"))
    for number in range(1000):
        decisions.add(decision(Outcome.REFUSAL, f"flood/g{number}"))
    decisions.add(decision(Outcome.DONE, "team/job"))
    kept = [(each.outcome, each.gang) for each in decisions]
    assert kept[0] == (Outcome.DONE, "pod-group:team/job")
    assert kept[-1] == (Outcome.PLAN, "pod-group:team/job")
    assert (Outcome.REFUSAL, "pod-group:team/other") in kept
    assert len(kept) == 12
    assert decisions.forgotten == {"refusal": 991}


def test_a_repeated_refusal_is_kept_once_and_a_new_reason_again() -> None:
    decisions = Decisions()
    assert decisions.add(decision(Outcome.REFUSAL, "a/g"))
    assert not decisions.add(decision(Outcome.REFUSAL, "a/g"))
    assert decisions.add(decision(Outcome.REFUSAL, "a/g", "another"))
    assert decisions.add(decision(Outcome.PLAN, "a/g"))
    assert decisions.add(decision(Outcome.REFUSAL, "a/g", "another"))
    assert len(list(decisions)) == 4


def test_decisions_are_bounded_by_bytes() -> None:
    decisions = Decisions(size=10_000)
    victims = tuple(Victim(f"u{i}", "a", f"v{i}", "n", 0) for i in range(10_000))
    for number in range(100):
        decisions.add(decision(Outcome.PLAN, f"a/g{number}", victims=victims))
    assert decisions.size <= DECISION_BYTES
    assert 5 < len(list(decisions)) < 30


def test_the_question_behind_a_plan_outlives_those_behind_refusals() -> None:
    decisions = Decisions(questions=4)
    for generation in range(100):
        snapshot = Snapshot(generation=generation)
        key = GangKey("pod-group", "a", f"g{generation}")
        decisions.searched(SearchInput(key, snapshot, (), {}, {}))
        if generation == 7:
            decisions.add(decision(Outcome.PLAN, "a/g7", generation=7))
    assert decisions.question(7) is not None
    assert decisions.question(8) is None
    assert decisions.question(99) is not None


def test_who_has_most_in_a_ring_loses_its_oldest() -> None:
    ring: Ring[str] = Ring(4, 1000)
    for number, share in enumerate("aabbbbb"):
        ring.add(number, f"{share}{number}", share, 10)
    assert [item for _, item in ring.newest_first()] == ["b6", "b5", "a1", "a0"]
    ring.add(7, "big", "a", 990)
    assert [item for _, item in ring.newest_first()] == ["big", "b6"]
    ring.add(8, "huge", "c", 5000)
    assert [item for _, item in ring.newest_first()] == ["huge"]


def test_an_object_is_warned_once_a_minute() -> None:
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    assert warnings.due("a", "default", "GangBroken")
    assert not warnings.due("a", "default", "GangDoesNotFit")
    assert warnings.due("b", "default", "GangBroken")
    now = 61.0
    assert warnings.due("a", "default", "GangBroken")
    assert warnings.told == {"GangBroken": 3}
    assert warnings.withheld == {"GangDoesNotFit": 1}
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "default", "GangBroken")
    assert warnings.told["GangBroken"] <= MOST_OBJECTS + 2


def test_what_stopped_half_way_is_told_whatever_was_told_before() -> None:
    """It is told once: a gang of four that had just been refused never read of it."""
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "default", "GangDoesNotFit")
    assert not warnings.due("new", "default", "GangDoesNotFit")
    assert warnings.due("u1", "default", "PreemptionIncomplete")
    assert warnings.due("new", "default", "GangBroken")
    assert not warnings.due("u1", "default", "PreemptionIncomplete")
    now = 61.0
    assert warnings.due("u1", "default", "PreemptionIncomplete")
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "default", "GangBroken")
    assert warnings.told["GangBroken"] <= MOST_OBJECTS + 1


def test_a_namespace_with_thousands_of_pods_leaves_others_their_warnings() -> None:
    """Nor does it have more of its own told than there were before."""
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "crowd", "GangDoesNotFit", "no room")
    for number in range(100):
        assert warnings.due(f"o{number}", "other", "GangDoesNotFit", "no room")
        assert not warnings.due(f"more{number}", "crowd", "GangDoesNotFit", "no room")
        assert not warnings.due(f"u{number}", "crowd", "GangDoesNotFit", "no room now")
    assert warnings.told["GangDoesNotFit"] == MOST_OBJECTS + 100
    now = 61.0
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"v{number}", "crowd", "GangDoesNotFit", "no room")
    assert not warnings.due("o0", "other", "GangDoesNotFit", "no room"), "it can read that still"
    assert warnings.said("o0", "GangDoesNotFit")


def test_only_refusals_that_an_owner_can_use_are_told() -> None:
    message = "PodGroup a/g does not exist"
    told = words_of(decision(Outcome.REFUSAL, "a/g", message, code="conflict"))
    assert told is not None
    assert told[0] == "GangNeedsRepair"
    assert "PodGroup a/g does not exist" in told[1]
    assert words_of(decision(Outcome.REFUSAL, "a/g", code="stale")) is None


async def test_an_owner_reads_why_its_gang_does_not_start(rig: Rig) -> None:
    await full_cluster(rig)
    for i in range(2):
        await rig.pod(f"lost-{i}", cls="top", group="nowhere")
    events = "/api/v1/namespaces/default/events"
    for _ in range(3):
        await rig.filter("lost-0", "n0", "n1")
    found: list[str] = []
    while not found:
        found = [
            f"{item['involvedObject']['name']}: {item['message']}"
            for item in (await rig.client.get(events))["items"]
            if item["reason"] == "GangNeedsRepair"
        ]
    assert any("does not exist" in each for each in found)
    assert len(found) <= 2
