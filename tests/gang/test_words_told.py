"""States and proofs are enums inside; what is told of them stays the words that others read."""

from __future__ import annotations

import json

import msgspec
import pytest

from extender.gang.tell.decisions import Decision, Decisions, Outcome, Verb
from extender.gang.tell.gang_status import GangState, GangStatus
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.status_report import GangSeen, Whole, text_of
from extender.model.plan import Proof
from tests.gang.statuses import status

GANG = {
    "gang": "pod-group:ns/g",
    "minCount": 2,
    "members": 2,
    "bound": 0,
    "pending": 2,
    "missing": 2,
    "complete": True,
    "priorityAsPreemptor": 7,
    "problems": (),
    "startsWhole": True,
}
WORDS = {
    "running",
    "incomplete",
    "leaving",
    "refused",
    "suspended",
    "pending",
    "repair",
    "planned",
    "evicting",
    "waiting",
    "open",
    "changing",
}


def test_the_words_are_the_ones_that_were_told_before() -> None:
    assert {state.value for state in GangState} == WORDS
    assert [proof.value for proof in Proof] == ["optimal", "bounded", ""]


def test_every_state_of_a_plan_is_one_of_its_gang() -> None:
    assert {state.value for state in PreemptionState} - {"ended"} <= WORDS


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ({}, "pending"),
        ({"problems": ("two sizes",)}, "repair"),
        ({"missing": 0, "bound": 2, "pending": 0}, "running"),
        ({"complete": False, "pending": 1}, "incomplete"),
    ],
)
def test_a_standing_goes_out_as_its_word(told: dict[str, object], word: str) -> None:
    standing = status({**GANG, **told})
    sent = msgspec.json.encode(standing)
    assert f'"state":"{word}",'.encode() in sent
    built = msgspec.to_builtins(standing)
    assert type(built["state"]) is str, "PyYAML refuses an enum"


@pytest.mark.parametrize("state", ["evicting", "of-another-version"])
def test_a_plans_state_is_told_as_the_server_names_it(state: str) -> None:
    preemption = {
        "gang": GANG["gang"],
        "state": state,
        "waitsFor": (),
        "seats": (),
        "victimsLeft": (),
    }
    standing = status(GANG, [preemption])
    assert json.loads(msgspec.json.encode(standing))["state"] == state


@pytest.mark.parametrize(
    ("proof", "word"), [(Proof.OPTIMAL, "optimal"), (Proof.BOUNDED, "bounded"), (None, "")]
)
def test_a_decision_goes_out_with_its_proofs_word(proof: Proof | None, word: str) -> None:
    made = Decision(time=1.0, gang="g", verb=Verb.LOOP, outcome=Outcome.PLAN, message="m")
    if proof is not None:
        made = msgspec.structs.replace(made, proof=proof)
    assert f'"proof":"{word}",'.encode() in msgspec.json.encode(made)
    kept = Decisions()
    kept.add(made)
    assert f'"proof":"{word}",'.encode() in msgspec.json.encode(list(kept))


def test_the_status_map_names_states_by_their_words() -> None:
    whole = Whole(
        leader="me",
        leading_since=0.0,
        epoch=1,
        version="1",
        mode="enforce",
        namespaces="all",
        states={GangState.PENDING: 2, GangState.RUNNING: 1},
        waiting=[GangSeen(GangStatus("g", GangState.PENDING, ""), None)],
    )
    text = text_of(whole)
    assert "    pending: 2\n    running: 1\n" in text
    assert "state: pending\n" in text
