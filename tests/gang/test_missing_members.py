"""A gang that lacks members is told of once, and not while its pods are only being made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from extender.gang.runtime.clocks import Clocks
from extender.gang.status.notices import (
    PATIENCE_SECONDS,
    REPAIR_SECONDS,
    OwnerWarnings,
    RefusedGangs,
    words_of,
)
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code
from extender.model.snapshot import Snapshot
from tests.gang.showing import Showing

KEY = GangKey("pod-group", "team", "few")


def refusal(code: Code = Code.INCOMPLETE) -> Decision:
    return Decision(
        time=0.0,
        gang=str(KEY),
        verb=Verb.FILTER,
        outcome=Outcome.REFUSAL,
        code=code,
        message="waits for members: 1 of 3 exist, nothing is evicted",
    )


class Stage:
    def __init__(self) -> None:
        self.now = 0.0
        self.state = Snapshot(generation=1)
        self.members(1)
        gangs: Any = SimpleNamespace(resolve=self.resolve)
        self.missing = RefusedGangs(Clocks(lambda: self.now), Showing(lambda: self.state), gangs)

    def resolve(self, key: GangKey, state: Snapshot) -> Gang:
        """The gang, whose definition is in order by now."""
        return Gang(key, state.members[key], 3)

    def members(self, count: int) -> None:
        pods = tuple(Pod(uid=f"u{i}", namespace="team", name=f"p{i}") for i in range(count))
        self.state = replace(self.state, members={KEY: pods})


def test_it_is_told_once_when_it_lasts() -> None:
    stage = Stage()
    assert stage.missing.refused(refusal())
    assert stage.missing.due() == []
    stage.now = PATIENCE_SECONDS
    (told,) = stage.missing.due()
    assert stage.missing.due() == []
    assert words_of(told) == (
        "GangIncomplete",
        "waits for members: 1 of 3 exist, nothing is evicted. Next: create the members that are "
        "missing: look at its Job or JobSet, at quota and at admission; nothing is evicted before "
        "they exist",
    )


def test_that_no_node_is_named_is_told_when_it_lasts() -> None:
    """It stood among the decisions only: kube-scheduler asks nothing where all devices are held."""
    stage = Stage()
    assert stage.missing.refused(refusal(Code.UNSEEN))
    assert stage.missing.due() == []
    stage.now = PATIENCE_SECONDS
    (told,) = stage.missing.due()
    said = words_of(told)
    assert said is not None
    assert said[0] == "GangDoesNotFit"


def test_a_gang_that_grows_is_let_be() -> None:
    stage = Stage()
    stage.missing.refused(refusal())
    stage.members(2)
    stage.missing.refused(refusal())
    stage.members(3)
    stage.now = PATIENCE_SECONDS
    assert stage.missing.due() == []


def test_another_refusal_takes_its_place() -> None:
    stage = Stage()
    stage.missing.refused(refusal())
    assert not stage.missing.refused(refusal(Code.INFEASIBLE))
    stage.now = PATIENCE_SECONDS
    assert stage.missing.due() == []


def test_a_definition_at_fault_is_told_when_it_lasts() -> None:
    stage = Stage()
    assert stage.missing.refused(refusal(Code.CONFLICT))
    assert stage.missing.due() == []
    stage.now = REPAIR_SECONDS
    (told,) = stage.missing.due()
    assert told.code == "conflict"
    stage.missing.refused(refusal(Code.CONFLICT))
    stage.missing.repaired()
    stage.now *= 2
    assert stage.missing.due() == []


def test_what_is_missing_after_a_repair_has_its_own_patience() -> None:
    stage = Stage()
    stage.missing.refused(refusal(Code.CONFLICT))
    stage.now = REPAIR_SECONDS - 1
    stage.missing.refused(refusal())
    stage.now = PATIENCE_SECONDS
    assert stage.missing.due() == []
    stage.missing.repaired()  # known already: the members still lack
    stage.now += REPAIR_SECONDS
    assert [told.code for told in stage.missing.due()] == ["incomplete"]


def test_the_others_are_told_of_a_reason_once() -> None:
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    assert not warnings.said("u", "GangDoesNotFit")
    warnings.due("u", "default", "GangDoesNotFit", "1 CPU lacks")
    assert warnings.said("u", "GangDoesNotFit")
    assert not warnings.said("u", "GangIncomplete")
    now = 3001.0
    assert not warnings.said("u", "GangDoesNotFit"), "nobody can read that any more"


def test_the_same_words_are_not_said_twice_while_they_can_be_read() -> None:
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    assert warnings.due("u", "default", "GangIncomplete", "1 of 3 exist")
    now = 120.0
    assert not warnings.due("u", "default", "GangIncomplete", "1 of 3 exist")
    assert warnings.due("u", "default", "GangIncomplete", "2 of 3 exist")
    now = 4000.0
    assert warnings.due("u", "default", "GangIncomplete", "2 of 3 exist")
