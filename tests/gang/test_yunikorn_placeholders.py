"""YuniKorn replaces its placeholders by the pods whose places they hold, on the same nodes."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, Pod
from extender.settings.settings import Settings
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot
from tests.groups import recorded

APP = GangKey("yunikorn", "default", "g-0")


def placeholder(i: int, *, leaves: bool = False, disrupted: bool = False) -> Pod:
    meta = recorded.yunikorn_placeholder(i, 4, "g-0")
    made = pod(
        f"tg-{i}", on=f"n{i}", priority=1, deleting=NOW + 1 if leaves else 0.0, **_only(meta)
    )
    return replace(made, disrupted=disrupted)


def real(i: int, *, bound: bool) -> Pod:
    meta = recorded.yunikorn(i, 4, "g-0")
    made = pod(f"app-{i}", on=f"n{i}" if bound else "", priority=1, **_only(meta))
    return replace(made, created=NOW - 200, started=NOW - 5 if bound else 0.0)


def _only(meta: dict[str, Any]) -> dict[str, Any]:
    return {place: meta[place] for place in ("labels", "annotations")}


def goes_whole(pods: list[Pod]) -> bool:
    return Resolver(Settings().groups).resolve(APP, snapshot([], pods)).goes_whole


def test_an_application_of_which_some_are_replaced_goes_whole() -> None:
    """One pod has its place, one placeholder is on its way out, two hold theirs still."""
    holds = [placeholder(1, leaves=True), placeholder(2), placeholder(3)]
    waits = [real(i, bound=False) for i in range(1, 4)]
    assert goes_whole([real(0, bound=True), *holds, *waits])


def test_one_whose_placeholders_have_no_node_yet_is_single_victims() -> None:
    waits = [real(i, bound=False) for i in range(4)]
    nowhere = [replace(placeholder(i), node="") for i in (2, 3)]
    assert not goes_whole([placeholder(0), placeholder(1), *nowhere, *waits])


def test_the_room_of_a_placeholder_that_is_replaced_is_not_counted_on() -> None:
    """A pod of the application comes there; whoever planned with it would evict in vain."""
    nodes = [node("n0"), node("n1")]
    urgent = pod("urgent", priority=100, group="u")
    cheap = pod("cheap", priority=0, on="n1")
    pods = [placeholder(0, leaves=True), real(0, bound=False), cheap, urgent]
    assert evicted(plan_for(snapshot(nodes, pods, [group("u", 1)]), "u")) == {"cheap"}


def test_of_one_that_was_evicted_it_is() -> None:
    nodes = [node("n0"), node("n1")]
    urgent = pod("urgent", priority=100, group="u")
    cheap = pod("cheap", priority=0, on="n1")
    pods = [placeholder(0, leaves=True, disrupted=True), cheap, urgent]
    assert evicted(plan_for(snapshot(nodes, pods, [group("u", 1)]), "u")) == set()
