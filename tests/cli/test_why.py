"""``why`` of what is leaving or gone, and a next step for every reason."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cli.api_client import ServerClient
from extender.cli.why_command import stories
from extender.gang.tell.gang_status import PREEMPTION_STATES
from extender.gang.tell.next_steps import NEXT_BY_CODE, NEXT_BY_STATE
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.story import Story
from extender.model.plan import Code

HIGH, LOW = "pod-group:team/high", "pod-group:team/low"


def victim(name: str, gang: str = LOW, owner: str | None = "Job/low") -> dict[str, Any]:
    return {
        "uid": f"uid-{name}",
        "namespace": "team",
        "name": name,
        "node": "n0",
        "priority": 1,
        "gang": gang,
        "reason": "its room on n0 is needed",
        "owner": owner,
        "lost": 1800,
    }


def decision(gang: str, outcome: str, time: float, **more: Any) -> dict[str, Any]:
    return {
        "time": time,
        "gang": gang,
        "verb": "preempt",
        "outcome": outcome,
        "code": "",
        "message": f"message of {outcome}",
        "victims": [],
        "costs": [],
        "explanation": [],
        **more,
    }


def gang(key: str, bound: int, pending: int, members: int = 2) -> dict[str, Any]:
    return {
        "gang": key,
        "minCount": 2,
        "members": members,
        "bound": bound,
        "pending": pending,
        "startsWhole": True,
        "priorityAsPreemptor": 1,
        "problems": [],
        "notes": [],
    }


class Remembering(ServerClient):
    """Answers with pages that are given."""

    def __init__(self, **pages: list[dict[str, Any]]) -> None:
        self._pages = pages

    async def rows(self, page: str, **query: object) -> list[dict[str, Any]]:
        return self._pages.get(page, [])


async def told(name: str, **pages: list[dict[str, Any]]) -> Story:
    found = await stories(Remembering(**pages), name, None)
    assert len(found) == 1, found
    return found[0]


EVICTED = decision(HIGH, "plan", 1e9, victims=[victim("low-0"), victim("low-1")])


@pytest.mark.parametrize("name", ["low", "team/low", LOW])
async def test_a_gang_that_was_evicted_is_remembered(name: str) -> None:
    story = await told(name, decisions=[decision(HIGH, "done", 1e9 + 5), EVICTED])
    assert (story.subject, story.state) == (f"gang {LOW}", "gone")
    assert f"2 of its pods were evicted at 2001-09-09 01:46:40Z for {HIGH}" in story.reason
    assert "; 1.0 GPU-hours of work lost" in story.reason
    assert "its room on n0 is needed" in story.reason
    assert "done, message of done" in story.reason
    assert story.decision is not None
    assert story.decision["outcome"] == "plan"
    assert "Job/low makes new pods" in story.next


async def test_a_plan_that_was_given_up_may_have_evicted_nobody() -> None:
    story = await told("low", decisions=[decision(HIGH, "gave-up", 1e9 + 5), EVICTED])
    assert "were to be evicted at 2001-09-09 01:46:40Z for" in story.reason
    assert "gave-up, message of gave-up" in story.reason


async def test_a_gang_that_has_finished_is_remembered() -> None:
    kept = [decision(HIGH, "done", 1e9 + 5), EVICTED]
    story = await told("high", decisions=kept)
    assert (story.subject, story.state) == (f"gang {HIGH}", "gone")
    assert "it has no unfinished pods any more" in story.reason
    assert "2001-09-09 01:46:45Z done: message of done" in story.reason
    assert story.decision == kept[0]
    assert "create the members" not in story.next


async def test_evicted_once_and_finished_later_is_told_of_both() -> None:
    kept = [decision(LOW, "done", 1e9 + 50), decision(HIGH, "done", 1e9 + 5), EVICTED]
    story = await told("low", decisions=kept)
    assert "2001-09-09 01:47:30Z done" in story.reason
    assert any(f"for {HIGH}" in line for line in story.also)


async def test_a_single_pod_that_has_gone_is_remembered() -> None:
    story = await told("alone", decisions=[decision("pod:team/alone", "done", 1e9)])
    assert (story.subject, story.state) == ("pod team/alone", "gone")


async def test_of_two_gangs_of_one_name_both_are_told() -> None:
    other = "pod-group:other/low"
    kept = [decision(other, "refusal", 1e9, code="infeasible"), EVICTED]
    found = await stories(Remembering(decisions=kept), "low", None)
    assert [story.subject for story in found] == [f"gang {other}", f"gang {LOW}"]
    found = await stories(Remembering(decisions=kept), "low", "other")
    assert [story.subject for story in found] == [f"gang {other}"]


async def test_a_gang_that_is_leaving_is_not_asked_for_members() -> None:
    preemption = {
        "gang": HIGH,
        "plan": "p",
        "state": "waiting",
        "seats": [],
        "victimsLeft": [victim("low-0"), victim("low-1")],
        "waitsFor": [],
    }
    pages: dict[str, list[dict[str, Any]]] = {
        "gangs": [gang(LOW, 0, 0)],
        "reservations": [preemption],
        "decisions": [EVICTED],
    }
    story = await told("low", **pages)
    assert story.state == "leaving"
    assert f"for {HIGH}" in story.reason
    assert "its room on n0 is needed" in story.also[0]
    assert "create the members" not in story.next
    assert "Job/low makes new pods" in story.next
    assert story.decision == EVICTED
    # The plan is over, and what is left of a begun unit goes on.
    unit = {
        "unit": LOW,
        "preemptor": HIGH,
        "plan": "p",
        "left": {"uid-low-1": "accepted"},
        "error": "",
    }
    story = await told("low", **(pages | {"reservations": [], "evictions": [unit]}))
    assert story.state == "leaving"
    # Members that are there again count, whoever still goes.
    again = pages | {"gangs": [gang(LOW, 0, 2, 4)]}
    assert (await told("low", **again)).state == "pending"


@pytest.mark.parametrize(
    ("owner", "follows"),
    [
        ("ReplicaSet/web", "ReplicaSet/web makes a new pod"),
        ("Job/low", "podFailurePolicy"),
        ("", "not created again"),
        (None, "its owner, if it has one, makes a new pod"),
    ],
)
async def test_what_comes_after_a_pod_depends_on_its_owner(owner: str | None, follows: str) -> None:
    gone = decision(HIGH, "plan", 1e9, victims=[victim("alone", "", owner)])
    story = await told("team/alone", decisions=[gone])
    assert follows in story.next
    assert ("new pod" in story.next) is bool(owner or owner is None)
    unit = {
        "unit": "u",
        "preemptor": HIGH,
        "plan": "p",
        "left": {"uid-alone": "accepted"},
        "error": "",
    }
    there = {
        "namespace": "team",
        "name": "alone",
        "uid": "uid-alone",
        "gang": "",
        "owner": owner,
        "terminating": True,
    }
    story = await told("alone", decisions=[gone], pods=[there], evictions=[unit])
    assert story.state == "evicted"
    assert follows in story.next


def test_every_code_and_every_state_has_a_next_step() -> None:
    assert {code.value for code in Code} <= set(NEXT_BY_CODE)
    states = {state.value for state in PreemptionState if state is not PreemptionState.ENDED}
    assert set(NEXT_BY_STATE) == set(PREEMPTION_STATES) == states
