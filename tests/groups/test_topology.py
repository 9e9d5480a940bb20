"""What groups and members say about topology, and what comes of contradictions."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.groups.resolver import Resolver
from extender.groups.topology import Topology, topology_of
from extender.model.objects import GangKey, Pod
from extender.settings.settings import GroupSettings
from tests.groups.build import core, pod, snapshot

REQUIRED = "podgroup-extender.io/required-topology"
PREFERRED = "podgroup-extender.io/preferred-topology"
KUEUE = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def said(*annotations: dict[str, str]) -> list[Pod]:
    return [pod(f"p{i}", annotations=each) for i, each in enumerate(annotations)]


@pytest.mark.parametrize(
    ("group", "members", "expected"),
    [
        ("", said({}), Topology()),
        ("zone", said({}), Topology(required="zone")),
        ("", said({REQUIRED: "rack"}), Topology(required="rack")),
        ("rack", said({REQUIRED: "rack"}), Topology(required="rack")),
        ("", said({PREFERRED: "rack"}, {}), Topology(preferred="rack")),
        ("", said({KUEUE: "block"}), Topology(preferred="block")),
        ("", said({KUEUE: "block", PREFERRED: "rack"}), Topology(preferred="rack")),
        ("", said({KUEUE_REQUIRED: "block"}), Topology()),
        ("", said({PREFERRED: ""}), Topology()),
        ("zone", said({PREFERRED: "zone"}), Topology(required="zone")),
    ],
)
def test_what_is_said(group: str, members: list[Pod], expected: Topology) -> None:
    assert topology_of(group, members) == expected


def test_contradicting_requirements_are_a_problem() -> None:
    found = topology_of("zone", said({REQUIRED: "rack"}))
    assert found.problems == ("different topology keys are required: rack, zone",)
    assert topology_of("", said({REQUIRED: "a"}, {REQUIRED: "b"})).problems


def test_a_preference_is_never_a_problem() -> None:
    beside = topology_of("zone", said({PREFERRED: "rack"}))
    assert beside == Topology("zone", "rack")
    assert topology_of("zone", said({PREFERRED: "zone"})) == Topology("zone")
    torn = topology_of("", said({PREFERRED: "a"}, {PREFERRED: "b"}))
    assert (torn.preferred, torn.problems) == ("", ())
    assert torn.notes == ("different topology keys are preferred (a, b): none counts",)


def test_members_that_run_have_no_say() -> None:
    running = replace(pod("r", annotations={PREFERRED: "zone"}), node="n0")
    assert topology_of("", [running, *said({PREFERRED: "rack"})]) == Topology(preferred="rack")


def test_it_reaches_the_gang_in_every_dialect() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "js"}
    jobs = [pod("a", labels=labels, annotations={PREFERRED: "rack"})]
    resolver = Resolver(GroupSettings())
    gang = resolver.resolve(GangKey("jobset", "ns", "js"), snapshot(jobs))
    assert (gang.topology_key, gang.preferred_topology_key) == ("", "rack")
    members = [pod("a", group="g", annotations={REQUIRED: "rack", PREFERRED: "zone"})]
    key = GangKey("pod-group", "ns", "g")
    gang = resolver.resolve(key, snapshot(members, [core(min_count=1)]))
    assert (gang.topology_key, gang.preferred_topology_key, gang.problems) == ("rack", "zone", ())
    gang = resolver.resolve(key, snapshot(members, [core(min_count=1, topology_key="zone")]))
    assert gang.problems == ("different topology keys are required: rack, zone",)
