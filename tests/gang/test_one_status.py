"""Every surface tells a gang's status in the same words: what, the victims, and the next step."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from extender.app.debug_pods import with_status
from extender.console.gang_rows import GangReader, facts_of
from extender.gang.status.group_conditions import condition_of
from extender.gang.status.notices import words_of
from extender.gang.tell.gang_status import Facts, GangState, described
from extender.gang.tell.story import story_of_gang
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey
from extender.settings.settings import Settings
from tests.console.stage import training_cluster

GANGS = {
    "pod-group:research/frontier-run": GangState.WAITING,
    "pod-group:research/moe-ablation": GangState.LEAVING,
    "pod-group:research/giant-eval": GangState.REFUSED,
    "pod-group:speech/late-joiners": GangState.INCOMPLETE,
    "pod-group:bio/protein-fold": GangState.RUNNING,
}


@pytest.mark.parametrize("key", GANGS)
def test_surfaces_tell_the_same(key: str) -> None:
    stage = training_cluster()
    capture = stage.capture()
    decisions = [each for each in capture.decisions if each.gang == key]
    facts = facts_of(capture, capture.decisions)
    (row,) = (each for each in GangReader(stage.resolver).read(capture) if each.key == key)
    page = row.status
    assert page.state == GANGS[key]
    resolver = Resolver(Settings().groups)
    rows = with_status(capture.snapshot, resolver.resolve, capture.schedulers, facts)
    (debug,) = (each["status"] for each in rows if each["gang"] == key)
    assert debug == page
    gang = described(stage.resolver.resolve(GangKey.read(key), capture.snapshot))
    told = to_builtins(decisions)
    why = story_of_gang(
        key, Facts([gang], facts.reservations, facts.evictions, told, now=facts.now)
    )
    assert why is not None
    assert (why.state, why.reason, why.next) == (page.state, page.what, page.next)
    if page.state == GangState.REFUSED:
        condition, event = condition_of(decisions[0]), words_of(decisions[0])
        assert condition is not None
        assert event is not None
        assert condition.message == event[1] == page.text


def test_a_plan_is_told_with_victims_cost_and_end() -> None:
    stage = training_cluster()
    rows = GangReader(stage.resolver).read(stage.capture())
    status = rows[0].status
    assert status.victims == (
        "pod-group:research/moe-ablation (5 pods, 3.3 GPU-hours of work lost)",
        "pod batch/notebook-0 (10.0 GPU-hours of work lost)",
        "pod batch/notebook-1 (12.5 GPU-hours of work lost)",
    )
    assert all(name in status.what for name in status.victims)
    assert status.ends is not None
    assert status.next
