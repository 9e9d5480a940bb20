"""Rules between members forbid nothing that the filters allow: drawn gangs, seated one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from extender.fit.member_rules import (
    MemberCap,
    MemberSpread,
    affinity_mask,
    self_affinity_key,
    self_caps,
)
from extender.fit.view import ClusterView
from extender.model.objects import HostPort, Node, Pod, PodAffinityTerm, PodShape, SpreadConstraint
from tests.fit.builders import HOST, node, pod, selector, term, view


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
