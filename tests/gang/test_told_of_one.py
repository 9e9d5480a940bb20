"""What is said where there is one pod, one seat, one member."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cli.why_pod import story_of_pod
from extender.gang.status.group_conditions import condition_of
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.gang_status import Facts
from extender.gang.tell.leaving import after_eviction
from extender.gang.tell.story import story_of_gang
from extender.model.plan import Seat, Victim
from tests.gang.statuses import status

KEY = "pod-group:team/high"
POD = {"namespace": "team", "name": "low-0", "node": "n0", "uid": "u", "gang": "", "owner": None}


def gang(bound: int = 0, pending: int = 1, least: int = 1) -> dict[str, Any]:
    return {
        "gang": KEY,
        "minCount": least,
        "members": bound + pending,
        "bound": bound,
        "pending": pending,
        "startsWhole": True,
        "priorityAsPreemptor": 9,
        "problems": [],
        "notes": [],
    }


def preemption(state: str, waits: int = 0, key: str = KEY) -> dict[str, Any]:
    return {
        "gang": key,
        "plan": "p-1",
        "state": state,
        "priority": 9,
        "seats": [{**POD, "name": "high-0"}],
        "victimsLeft": [] if waits else [POD],
        "waitsFor": [POD] * waits,
    }


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("waiting", "waits for pod team/low-0 to end"),
        ("open", "the room is free, 1 member has no node yet"),
        ("planned", "its plan is being checked and recorded, nothing is evicted yet"),
    ],
)
def test_a_plan_of_one_seat_and_one_victim(state: str, said: str) -> None:
    story = story_of_gang(KEY, Facts([gang()], [preemption(state)], [], []))
    assert story is not None
    assert story.reason == said


@pytest.mark.parametrize(
    ("found", "plans", "said"),
    [
        (gang(bound=1, pending=0), [], "1 of 1 member has a node"),
        (gang(pending=0), [], "0 of 1 member exists"),
        (gang(least=2), [], "1 of 2 members exist"),
        (
            gang(),
            [preemption("waiting", waits=1)],
            "waits for pod team/low-0 to end; 1 seat is reserved",
        ),
    ],
)
def test_where_a_gang_of_one_stands(
    found: dict[str, Any], plans: list[dict[str, Any]], said: str
) -> None:
    assert status(found, plans).reason == said


def test_a_member_beyond_the_quorum() -> None:
    story = story_of_gang(KEY, Facts([gang(bound=1)], [], [], []))
    assert story is not None
    assert story.also == ("1 member beyond the quorum waits for kube-scheduler",)


def test_a_victim_that_was_chosen() -> None:
    plan = {
        "gang": "pod-group:team/other",
        "outcome": "plan",
        "victims": [{**POD, "gang": KEY, "reason": "its room is needed"}],
    }
    story = story_of_gang(KEY, Facts([gang(pending=0)], [], [], [plan | {"time": 0.0}]))
    assert story is not None
    assert story.also == (
        "1 of its pods was chosen as a victim for pod-group:team/other: its room is needed",
    )


def test_a_single_pod() -> None:
    pod = {
        **POD,
        "name": "web",
        "node": "",
        "priority": 1,
        "tried": True,
        "gated": False,
        "terminating": False,
        "scheduler": "default-scheduler",
    }
    beside = Facts([], [preemption("open")], [], [])
    assert "; 1 seat is not free for it" in story_of_pod(pod, beside).reason
    its_own = Facts([], [preemption("waiting", key="pod:team/web")], [], [])
    assert (
        story_of_pod(pod, its_own).reason == "its seat on n0 is held, 1 pod has to terminate first"
    )


def test_the_condition_of_a_podgroup() -> None:
    decision = Decision(
        time=0.0,
        gang=KEY,
        verb=Verb.LOOP,
        outcome=Outcome.PLAN,
        message="",
        victims=(Victim("u", "team", "low-0", "n0", 1),),
        seats=(Seat("v", "team", "high-0", "n0"),),
    )
    said = condition_of(decision)
    assert said is not None
    assert said.message == (
        "1 pod is being evicted to make room for 1 member; pod team/low-0; at most 30 s of grace. "
        "Expected to end by 1970-01-01T00:00:30Z. Next: nothing to do, nodes are reserved until "
        "all members have one"
    )


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        ([""], "it has no owner, so it is not created again: create it again if it is wanted"),
        (
            ["", ""],
            "they have no owner, so they are not created again: create them again if they are "
            "wanted",
        ),
    ],
)
def test_pods_without_an_owner(owners: list[str], said: str) -> None:
    assert after_eviction([{"owner": owner} for owner in owners]) == said
