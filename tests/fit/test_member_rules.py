"""What members demand of each other, as rules between classes: case by case."""

from __future__ import annotations

import pytest

from extender.fit.member_rules import (
    EACH_NODE,
    MemberCap,
    MemberRules,
    affinity_mask,
    counted_pods,
    self_affinity_key,
    self_caps,
    spread_domains,
)
from extender.model.objects import HostPort, Pod, PodShape, SpreadConstraint
from tests.fit.builders import HOST, node, pod, selector, term, view

NODES = [node(f"n{i}", labels={"zone": "ab"[i % 2], "rack": str(i // 2)}) for i in range(6)]


def gang(count: int, shape: PodShape, role: str = "worker") -> list[Pod]:
    return [
        pod(f"{role}{i}", labels={"app": "x", "role": role, "index": str(i)}, shape=shape)
        for i in range(count)
    ]


def test_members_that_keep_apart_are_one_a_domain() -> None:
    members = gang(3, PodShape(anti_affinity=(term(HOST, app="x"), term("zone", app="other"))))
    assert self_caps([members], view(NODES)) == MemberRules((MemberCap((0,), HOST, 1),))


def test_labels_of_single_pods_do_not_hide_the_rule() -> None:
    members = gang(4, PodShape(anti_affinity=(term(HOST, role="worker"),)))
    assert self_caps([members], view(NODES)).caps == (MemberCap((0,), HOST, 1),)


def test_rule_that_only_some_members_meet_is_left_to_a_check() -> None:
    members = gang(3, PodShape(anti_affinity=(term(HOST, index="0"),)))
    rules = self_caps([members], view(NODES))
    assert rules.caps == ()
    assert rules.verify == (f"anti-affinity on {HOST} holds between some of the members only",)


def test_classes_that_keep_apart_share_a_cap() -> None:
    shape = PodShape(anti_affinity=(term("rack", app="x"),))
    leader, workers = gang(1, PodShape(), "leader"), gang(3, shape)
    rules = self_caps([leader, workers], view(NODES))
    assert rules == MemberRules((MemberCap((0, 1), "rack", 1),))


def test_leader_apart_from_workers_that_may_be_together_is_left_to_a_check() -> None:
    leader = gang(1, PodShape(anti_affinity=(term(HOST, role="worker"),)), "leader")
    rules = self_caps([leader, gang(3, PodShape())], view(NODES))
    assert rules.caps == ()
    assert len(rules.verify) == 1


def test_two_pairs_of_classes_do_not_become_one_cap() -> None:
    first = gang(2, PodShape(anti_affinity=(term(HOST, role="a"),)), "a")
    second = gang(2, PodShape(anti_affinity=(term(HOST, role="b"),)), "b")
    third = gang(2, PodShape(anti_affinity=(term(HOST, role="c"), term(HOST, role="a"))), "c")
    rules = self_caps([first, second, third], view(NODES))
    assert set(rules.caps) == {
        MemberCap((0,), HOST, 1),
        MemberCap((1,), HOST, 1),
        MemberCap((2,), HOST, 1),
        MemberCap((0, 2), HOST, 1),
    }
    assert rules.verify == ()


def spread(key: str, skew: int, **labels: str) -> SpreadConstraint:
    return SpreadConstraint(key, skew, selector(**labels))


def said(rules: MemberRules) -> list[tuple[object, ...]]:
    return [
        (s.bound, s.counted, s.topology_key, s.max_skew, s.from_zero, s.values, s.there)
        for s in rules.spreads
    ]


def test_spread_is_a_rule_of_its_own() -> None:
    members = gang(4, PodShape(spread=(spread("zone", 1, app="x"),)))
    rules = self_caps([members], view(NODES))
    assert said(rules) == [((0,), (0,), "zone", 1, False, ("a", "b"), (0, 0))]
    assert rules.caps == ()
    assert rules.verify == ()
    assert spread_domains(rules.spreads[0], ["n0", "n1", "n4"], view(NODES)) == [0, 1, 0]


def test_spread_with_too_few_domains_counts_from_zero() -> None:
    rule = SpreadConstraint("zone", 2, selector(app="x"), min_domains=3)
    members = gang(8, PodShape(spread=(rule,)))
    (found,) = self_caps([members], view(NODES)).spreads
    assert found.from_zero


def test_spread_counts_what_is_there() -> None:
    members = gang(2, PodShape(spread=(spread("zone", 1, app="x"),)))
    old = pod("q", "n0", labels={"app": "x"})
    there = view(NODES, [old, pod("r", "n1", labels={"app": "y"})])
    (found,) = self_caps([members], there).spreads
    assert found.there == (1, 0)
    assert counted_pods(found, there) == ((old, 0),)
    strangers = gang(2, PodShape(spread=(spread("zone", 1, app="q"),)))
    (other,) = self_caps([strangers], view(NODES)).spreads
    assert (other.bound, other.counted) == ((0,), ())


def test_nodes_that_do_not_take_part_are_in_no_domain() -> None:
    shape = PodShape(spread=(spread("zone", 1, app="x"),), node_selector=(("rack", "0"),))
    (found,) = self_caps([gang(2, shape)], view(NODES)).spreads
    assert spread_domains(found, [each.name for each in NODES], view(NODES)) == [
        0,
        1,
        -1,
        -1,
        -1,
        -1,
    ]


def test_classes_with_one_constraint_share_a_rule() -> None:
    rule = spread("zone", 1, app="x")
    workers = gang(3, PodShape(spread=(rule,)))
    leader = gang(1, PodShape(spread=(rule,)), "leader")
    free = gang(1, PodShape(), "free")
    rules = self_caps([workers, leader, free], view(NODES))
    assert [(s.bound, s.counted) for s in rules.spreads] == [((0, 1), (0, 1, 2))]
    own = gang(1, PodShape(spread=(spread("zone", 2, app="x"),)), "own")
    rules = self_caps([workers, own], view(NODES))
    assert [(s.bound, s.max_skew) for s in rules.spreads] == [((0,), 1), ((1,), 2)]


def test_constraint_that_counts_part_of_a_class_is_to_be_checked() -> None:
    members = gang(3, PodShape(spread=(spread("zone", 1, index="0"),)))
    rules = self_caps([members], view(NODES))
    assert rules.spreads[0].counted == ()
    assert rules.verify == ("spread over zone counts part of a class only",)


def test_class_of_different_constraints_is_to_be_checked() -> None:
    mixed = [
        *gang(1, PodShape(spread=(spread(HOST, 1, app="x"),)), "a"),
        *gang(1, PodShape(), "b"),
    ]
    rules = self_caps([mixed], view(NODES))
    assert rules.verify == ("members of one class have different spread constraints",)
    assert rules.spreads == ()


def test_members_near_each_other_share_a_domain() -> None:
    members = gang(3, PodShape(affinity=(term("zone", app="x"), term("rack", role="worker"))))
    assert self_affinity_key(members, view(NODES)) == ("rack", "zone")
    placed = pod("q", "n0", labels={"app": "x", "role": "worker"})
    assert self_affinity_key(members, view(NODES, [placed])) == ()
    assert self_affinity_key(gang(2, PodShape()), view(NODES)) == ()
    assert (
        self_affinity_key(gang(2, PodShape(affinity=(term("zone", app="q"),))), view(NODES)) == ()
    )


def test_members_with_different_keys_share_none() -> None:
    members = [
        *gang(1, PodShape(affinity=(term("zone", app="x"),)), "a"),
        *gang(1, PodShape(affinity=(term("rack", app="x"),)), "b"),
    ]
    assert self_affinity_key(members, view(NODES)) == ()


def test_affinity_to_pods_there_is_a_mask() -> None:
    members = gang(2, PodShape(affinity=(term("zone", app="db"),)))
    names = [each.name for each in NODES]
    there = view(NODES, [pod("db", "n1", labels={"app": "db"})])
    assert affinity_mask(members[0], there, names, members) == b"\0\1\0\1\0\1"
    assert affinity_mask(members[0], view(NODES), names, members) == bytes(6)
    assert affinity_mask(pod("p"), there, names, []) == b"\1" * 6


def test_members_may_meet_their_own_affinity() -> None:
    names = [each.name for each in NODES]
    near = gang(2, PodShape(affinity=(term("zone", app="x"),)))
    assert affinity_mask(near[0], view(NODES), names, near) == b"\1" * 6
    bound = pod("earlier", "n0", labels={"app": "x"})
    assert affinity_mask(near[0], view(NODES, [bound]), names, near) == b"\1\0\1\0\1\0"
    leader = gang(1, PodShape(), "leader")
    workers = gang(2, PodShape(affinity=(term("zone", role="leader"),)))
    assert affinity_mask(workers[0], view(NODES), names, workers) == bytes(6)
    for there in (view(NODES), view(NODES, [pod("q", "n0", labels={"role": "leader"})])):
        assert affinity_mask(workers[0], there, names, [*leader, *workers]) == b"\1" * 6


def ported(*ports: tuple[str, int]) -> PodShape:
    return PodShape(host_ports=tuple(HostPort(ip, "TCP", number) for ip, number in ports))


def test_members_that_take_a_port_are_one_a_node() -> None:
    rules = self_caps([gang(3, ported(("", 80))), gang(2, PodShape(), "other")], view(NODES))
    assert rules == MemberRules((MemberCap((0,), EACH_NODE, 1),))


def test_who_takes_a_port_of_every_address_keeps_all_takers_off() -> None:
    everywhere, first = gang(1, ported(("", 80)), "a"), gang(1, ported(("10.0.0.1", 80)), "b")
    second, other = gang(2, ported(("10.0.0.2", 80)), "c"), gang(1, ported(("", 81)), "d")
    rules = self_caps([everywhere, first, second, other], view(NODES))
    assert set(rules.caps) == {MemberCap((0, 1), EACH_NODE, 1), MemberCap((0, 2), EACH_NODE, 1)}
    assert rules.verify == ()


def test_every_term_has_to_be_met() -> None:
    both = (term("zone", app="db"), term("rack", app="db"))
    members = gang(2, PodShape(affinity=both))
    there = view(NODES, [pod("db", "n1", labels={"app": "db"})])
    names = [each.name for each in NODES]
    assert affinity_mask(members[0], there, names, members) == b"\0\1\0\0\0\0"


def test_the_least_port_is_a_port_and_members_of_one_class_may_differ() -> None:
    rules = self_caps([gang(2, ported(("", 1)))], view(NODES))
    assert rules == MemberRules((MemberCap((0,), EACH_NODE, 1),))
    [one], [other] = gang(1, ported(("", 80)), "a"), gang(1, ported(("", 81)), "b")
    mixed = self_caps([[one, other]], view(NODES))
    assert mixed == MemberRules((), verify=("members of one class take different host ports",))


def test_whoever_waits_for_the_rules_may_stop() -> None:
    class StoppedError(Exception):
        pass

    def stop() -> None:
        raise StoppedError

    for shape in (
        PodShape(spread=(spread("zone", 1, app="x"),)),
        PodShape(anti_affinity=(term(HOST, app="x"),)),
    ):
        with pytest.raises(StoppedError):
            self_caps([gang(2, shape)], view(NODES), stop)


def test_pods_on_nodes_of_no_domain_are_not_counted() -> None:
    bare = node("bare")
    there = view([*NODES, bare], [pod("a", "n0", labels={"app": "x"}),
                                  pod("b", "bare", labels={"app": "x"})])  # fmt: skip
    (rule,) = self_caps([gang(2, PodShape(spread=(spread("zone", 1, app="x"),)))], there).spreads
    assert [(each.name, domain) for each, domain in counted_pods(rule, there)] == [("a", 0)]
