from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from extender.fit.member_rules import (
    EACH_NODE,
    MemberCap,
    MemberRules,
    MemberSpread,
    affinity_mask,
    counted_pods,
    self_affinity_key,
    self_caps,
    spread_domains,
)
from extender.fit.view import ClusterView
from extender.model.objects import HostPort, Node, Pod, PodAffinityTerm, PodShape, SpreadConstraint
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


@st.composite
def near_gangs(draw: st.DrawFn) -> tuple[list[Node], list[Pod], list[Pod]]:
    """Nodes, pods on them, and members with affinity to some of each other and of those."""
    racks = st.sampled_from(["1", "2", "3"])
    nodes = [node(f"n{i}", labels={"rack": draw(racks)}, cpu=99_000, pods=99) for i in range(4)]
    roles = st.sampled_from("xyz")
    there = [
        pod(f"b{i}", draw(st.sampled_from(nodes)).name, labels={"app": draw(roles)})
        for i in range(draw(st.integers(0, 2)))
    ]
    members = []
    for i in range(draw(st.integers(1, 4))):
        terms = draw(st.lists(roles.map(lambda role: term("rack", app=role)), max_size=2))
        shape = PodShape(affinity=tuple(terms))
        members.append(pod(f"p{i}", labels={"app": draw(roles)}, shape=shape))
    return nodes, there, members


# --- properties ---------------------------------------------------------------------------


targets = st.sampled_from([selector(app="x"), selector(app="y"), selector(team="t"), None])
anti_affinity = st.builds(
    PodAffinityTerm, st.sampled_from([HOST, "rack"]), targets, st.just(("ns",))
)
constraints = st.builds(
    SpreadConstraint, st.sampled_from([HOST, "rack"]), st.integers(1, 2), targets, st.integers(1, 4)
)
ports = st.lists(
    st.builds(
        HostPort,
        st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        st.sampled_from(["", "TCP", "UDP"]),
        st.sampled_from([80, 443]),
    ),
    max_size=2,
).map(tuple)
one_rule = st.one_of(
    st.just(PodShape()),
    st.builds(PodShape, anti_affinity=st.tuples(anti_affinity)),
    st.builds(PodShape, spread=st.tuples(constraints)),
    st.builds(PodShape, host_ports=ports),
)
two_rules = st.builds(
    PodShape,
    anti_affinity=st.lists(anti_affinity, max_size=2).map(tuple),
    spread=st.lists(constraints, max_size=2).map(tuple),
    host_ports=ports,
)


@st.composite
def gangs(draw: st.DrawFn) -> tuple[list[Node], list[list[Pod]]]:
    """Nodes with room for everyone, and one to three classes that only mind each other."""
    racks = st.sampled_from(["1", "2", "3"])
    nodes = [
        node(f"n{i}", labels={"rack": draw(racks)}, cpu=99_000, pods=99)
        for i in range(draw(st.integers(2, 6)))
    ]
    classes = []
    for c in range(draw(st.integers(1, 3))):
        labels = {"app": draw(st.sampled_from("xy")), "team": "t"}
        shape = draw(st.one_of(one_rule, two_rules))
        count = draw(st.integers(1, 4))
        classes.append([pod(f"c{c}-{i}", labels=labels, shape=shape) for i in range(count)])
    return nodes, classes


def broken(
    caps: Sequence[MemberCap], classes: list[list[Pod]], seats: dict[str, Node]
) -> list[MemberCap]:
    found = []
    for cap in caps:
        here: dict[str, int] = {}
        for c in cap.classes:
            for member in classes[c]:
                if member.uid in seats:
                    seat = seats[member.uid]
                    value = seat.labels[cap.topology_key] if cap.topology_key else seat.name
                    here[value] = here.get(value, 0) + 1
        if any(count > cap.limit for count in here.values()):
            found.append(cap)
    return found


thorough = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


def seated(classes: list[list[Pod]], there: ClusterView, chance: Random) -> dict[str, Node]:
    """Members in any order, each on any node that takes it then; who finds none has none."""
    members = [member for each in classes for member in each]
    chance.shuffle(members)
    seats: dict[str, Node] = {}
    for member in members:
        names = there.feasible_nodes(member)
        if names:
            name = chance.choice(names)
            there.add(member, name)
            seats[member.uid] = there.nodes[name]
    return seats


@thorough
@given(gangs(), st.randoms(use_true_random=False))
def test_no_cap_forbids_what_the_filters_allow(
    made: tuple[list[Node], list[list[Pod]]], chance: Random
) -> None:
    nodes, classes = made
    there = view(nodes)
    rules = self_caps(classes, there)
    seats = seated(classes, there, chance)
    assert broken(rules.caps, classes, seats) == []
    event(f"{len(rules.caps)} caps, {len(rules.verify)} to verify")


def skewed(
    spreads: Sequence[MemberSpread], classes: list[list[Pod]], seats: dict[str, Node]
) -> list[MemberSpread]:
    """Rules that the final counts break."""
    found = []
    for rule in spreads:
        counts = dict(zip(rule.values, rule.there, strict=True))
        held = set()
        for c, members in enumerate(classes):
            for member in members:
                value = seats[member.uid].labels[rule.topology_key] if member.uid in seats else None
                if value is not None and c in rule.counted:
                    counts[value] += 1
                if value is not None and c in rule.bound:
                    held.add(value)
        least = 0 if rule.from_zero else min(counts.values())
        if any(counts[value] - least > rule.max_skew for value in held):
            found.append(rule)
    return found


@thorough
@given(gangs(), st.data(), st.randoms(use_true_random=False))
def test_seats_that_keep_all_rules_can_be_taken_in_any_order(
    made: tuple[list[Node], list[list[Pod]]], data: st.DataObject, chance: Random
) -> None:
    """As kube-scheduler does it: whoever fits now, the others again later."""
    nodes, classes = made
    there = view(nodes)
    rules = self_caps(classes, there)
    # Two keys at once may lock each other; the planner tries its seats out.
    assume(not rules.verify and len({s.topology_key for s in rules.spreads}) < 2)
    members = [member for each in classes for member in each]
    seats = {member.uid: data.draw(st.sampled_from(nodes)) for member in members}
    for member in members:  # drop members until the rules hold
        if broken(rules.caps, classes, seats) or skewed(rules.spreads, classes, seats):
            del seats[member.uid]
    waiting = [member for member in members if member.uid in seats]
    chance.shuffle(waiting)
    moved = True
    while waiting and moved:
        fit = [m for m in waiting if there.why_not(m, seats[m.uid].name) is None]
        moved = bool(fit)
        for member in fit:
            if there.why_not(member, seats[member.uid].name) is None:
                there.add(member, seats[member.uid].name)
                waiting.remove(member)
    assert waiting == []
    event(f"{len(rules.spreads)} spreads, {len(seats)} seated")


@thorough
@given(gangs(), st.randoms(use_true_random=False))
def test_a_spread_forbids_nothing_the_filters_allow_to_members_of_one_rule(
    made: tuple[list[Node], list[list[Pod]]], chance: Random
) -> None:
    nodes, classes = made
    there = view(nodes)
    rules = self_caps(classes, there)
    own = [s for s in rules.spreads if set(s.counted) <= set(s.bound)]
    seats = seated(classes, there, chance)
    assert skewed(own, classes, seats) == []


@thorough
@given(near_gangs(), st.randoms(use_true_random=False))
def test_affinity_rules_allow_whatever_the_filters_allow(
    made: tuple[list[Node], list[Pod], list[Pod]], chance: Random
) -> None:
    nodes, placed, members = made
    names = [each.name for each in nodes]
    before = view(nodes, placed)
    masks = {each.uid: affinity_mask(each, before, names, members) for each in members}
    shared = self_affinity_key(members, before)
    there = view(nodes, placed)
    used: dict[str, set[str]] = {key: set() for key in shared}
    waiting = list(members)
    for _ in range(3):
        chance.shuffle(waiting)
        for member in list(waiting):
            found = there.feasible_nodes(member)
            if found:
                name = chance.choice(found)
                assert masks[member.uid][names.index(name)] == 1
                there.add(member, name)
                waiting.remove(member)
                for key in shared:
                    used[key].add(there.nodes[name].labels[key])
    assert all(len(values) <= 1 for values in used.values())
    event(f"{len(members) - len(waiting)} placed, {len(shared)} keys shared")


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
