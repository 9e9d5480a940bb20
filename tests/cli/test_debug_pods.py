"""Pods by name, as the debug API gives them."""

from __future__ import annotations

from msgspec.structs import replace

from extender.app.debug_pods import MOST, pods_named
from extender.groups.resolver import Resolver
from extender.settings.settings import GroupSettings
from tests.gang.world import node, pod, snapshot

KEY = Resolver(GroupSettings()).member_key


def test_a_name_is_found_in_every_namespace_and_in_one() -> None:
    here = pod("same", on="n0")
    there = replace(pod("same", group="g"), namespace="other", uid="u-other")
    state = snapshot([node("n0")], [here, there, pod("another")], [])
    found = pods_named("same", state, KEY)
    assert [(one["namespace"], one["node"]) for one in found] == [
        (here.namespace, "n0"),
        ("other", ""),
    ]
    assert found[1]["gang"] == "pod-group:other/g"
    assert [one["uid"] for one in pods_named("other/same", state, KEY)] == ["u-other"]
    assert pods_named("other/another", state, KEY) == []


def test_the_answer_is_bounded() -> None:
    many = [replace(pod("p"), namespace=f"s{i}", uid=f"u{i}") for i in range(MOST + 5)]
    assert len(pods_named("p", snapshot([], many, []), KEY)) == MOST
