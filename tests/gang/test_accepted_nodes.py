"""What kube-scheduler named for pods, or refused them, is bounded, and told of no strangers.

See docs/security.md, rows 3 and 5.
"""

from __future__ import annotations

import sys

from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import (
    LIST_SECONDS,
    MEMORY_SECONDS,
    MOST_NAMES,
    AcceptedNodes,
    NodeLists,
)
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod, PodShape
from tests.gang.world import pod

CLAIM = PodShape(unmodelled=("persistentVolumeClaim",))


def claiming(name: str, namespace: str = "tenant") -> Pod:
    return pod(name, shape=CLAIM, namespace=namespace)


def gang(*members: Pod) -> Gang:
    return Gang(key=GangKey("pod-group", "honest", "g"), members=members, min_count=len(members))


def names(count: int) -> list[str]:
    """Node names as a request brings them: no string is another one's."""
    return [f"gpu-pool-a-node-{i:05d}.internal" for i in range(count)]


def test_a_tenants_pods_with_claims_do_not_fill_the_memory() -> None:
    """Each kept a list of its own for a minute: 0.9 MiB of 5,000 nodes, for 65,536 pods."""
    evidence = NodeLists(Clocks(lambda: 0.0))
    pods = [claiming(f"p-{i}") for i in range(300)]
    for each in pods:
        evidence.accepts(each, names(5000))
    assert evidence.accepted.size <= MOST_NAMES
    kept = [found for each in pods if (found := evidence.accepted.get(each.uid))]
    assert len(kept) == MOST_NAMES // 5000
    assert sum(map(sys.getsizeof, kept)) <= 128 * MOST_NAMES
    assert len({id(name) for found in kept for name in found}) == 5000, "one string a name"


def test_who_has_most_loses_its_oldest() -> None:
    accepted = AcceptedNodes(Clocks(lambda: 0.0), most=100)
    accepted.add(claiming("mine", "honest"), names(20))
    for i in range(10):
        accepted.add(claiming(f"p-{i}"), names(30))
    assert accepted.get(claiming("mine", "honest").uid) == frozenset(names(20))
    kept = [i for i in range(10) if claiming(f"p-{i}").uid in accepted]
    assert kept == [8, 9]
    assert accepted.size == 80
    accepted.add(claiming("huge", "other"), names(500))
    assert accepted.get(claiming("huge", "other").uid) == frozenset(names(500))
    assert accepted.size == 500


def test_what_one_namespaces_claims_cannot_use_says_nothing_of_anothers() -> None:
    """A claim is of its namespace. Whoever made one that is bound nowhere, of the requests that
    everybody's training has, kept others off node after node for five minutes each."""
    evidence = NodeLists(Clocks(lambda: 0.0))
    here = gang(claiming("mine", "honest"), claiming("twin", "honest"))
    for name in ("n0", "n1"):
        evidence.refuses(claiming("p", "tenant"), name)
    assert evidence.masks(here, ["n0", "n1", "n2"]) == {}
    evidence.refuses(claiming("another", "honest"), "n1")
    assert evidence.masks(here, ["n0", "n1", "n2"]) == {
        member.uid: frozenset({"n1"}) for member in here.members
    }


def test_a_node_that_refuses_what_is_modelled_is_left_alone_by_all() -> None:
    """No claim of the pod's is to blame then, but something of the node's."""
    evidence = NodeLists(Clocks(lambda: 0.0))
    evidence.refuses(pod("p", namespace="tenant"), "n0")
    here = gang(pod("mine", namespace="honest"))
    assert evidence.masks(here, ["n0", "n1"]) == {here.members[0].uid: frozenset({"n0"})}


def test_names_add_up_and_are_forgotten_after_a_minute() -> None:
    now = [0.0]
    accepted = AcceptedNodes(Clocks(lambda: now[0]))
    one = claiming("a")
    accepted.add(one, ["n0", "n1"])
    now[0] = MEMORY_SECONDS / 2
    accepted.add(one, ["n2"])
    now[0] = MEMORY_SECONDS
    assert accepted.get(one.uid) == frozenset({"n0", "n1", "n2"})
    now[0] = MEMORY_SECONDS * 1.5
    assert accepted.get(one.uid) is None
    accepted.add(claiming("b"), ["n3"])
    assert accepted.size == 1


def test_a_list_has_the_nodes_that_a_pod_has_left_since_it_was_made() -> None:
    now = 100.0
    evidence = NodeLists(Clocks(lambda: now))
    lists = {"uid-a": frozenset({"n0"})}
    assert evidence.not_older(lists, now) == lists
    evidence.observe(pod("gone", on="n1"), None)
    assert evidence.not_older(lists, now) == {"uid-a": frozenset({"n0", "n1"})}
    assert evidence.not_older(None, now) is None
    now += 5.0
    assert evidence.not_older(lists, 100.0) == {"uid-a": frozenset({"n0", "n1"})}, (
        "it waited for its turn"
    )
    assert evidence.not_older(lists, 100.0 + LIST_SECONDS) == lists
