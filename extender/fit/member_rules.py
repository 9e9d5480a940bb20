"""Rules that a gang's members set for each other, as limits that a search can keep.

Source: InterPodAffinity, NodePorts and PodTopologySpread, applied to members that are
all still to be placed. What cannot be said as a limit is named in ``verify``: the
seats found must then be checked one after the other on a ClusterView.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement

from msgspec import Struct

from extender.fit import node_ports
from extender.fit.blockers import Coming
from extender.fit.inter_pod_affinity import picks_all, term_picks
from extender.fit.namespaces import Namespaces
from extender.fit.pod_topology_spread import counts_for
from extender.fit.view import ClusterView
from extender.model.objects import Pod, PodShape, SpreadConstraint

EACH_NODE = ""
"""In place of a topology key: every node is a domain of its own, whatever its labels."""


class MemberCap(Struct, frozen=True):
    """At most ``limit`` members of ``classes`` (indices) in one domain of ``topology_key``."""

    classes: tuple[int, ...]
    topology_key: str
    """A label, or EACH_NODE."""
    limit: int
    nodes: frozenset[str] | None = None
    """The nodes where it counts, for EACH_NODE; None: all."""


class MemberSpread(Struct, frozen=True):
    """In no domain with a bound member may there be too many more than in the emptiest."""

    bound: tuple[int, ...]
    """Classes (indices) that the constraint holds for."""
    counted: tuple[int, ...]
    """Classes whose members it counts."""
    topology_key: str
    max_skew: int
    from_zero: bool
    """The emptiest domain counts as 0: there are fewer than minDomains."""
    values: tuple[str, ...]
    """Topology values of the eligible nodes, sorted: the domains."""
    there: tuple[int, ...]
    """Pods counted in each domain now."""
    sample: Pod
    """A bound member: all of them agree on what is counted where."""
    constraint: SpreadConstraint
    later: tuple[int, ...] = ()
    """Of ``counted``: classes that it does not bind and that rules of their own may keep waiting
    until members are seated which it binds."""
    most_later: int = 0
    """Members of these, and of classes of which it counts a part."""


class MemberRules(Struct, frozen=True):
    """Limits that every placement keeps, and what they do not say."""

    caps: tuple[MemberCap, ...] = ()
    spreads: tuple[MemberSpread, ...] = ()
    verify: tuple[str, ...] = ()
    """For a person: rules the caps express only in part, or not at all."""


def self_caps(
    classes: Sequence[Sequence[Pod]], view: ClusterView, check: Callable[[], None] = lambda: None
) -> MemberRules:
    """Return the limits that members set for each other by anti-affinity, ports and spread.

    ``classes`` are the gang's members, grouped as the search groups them. A cap
    never forbids a placement that the filters allow; with ``verify`` empty caps and
    spreads also forbid every placement in which these rules are broken.

    A spread is about the final counts. Where they keep it, kube-scheduler can seat the
    members in whatever order it tries them, as long as it tries again those that do
    not fit yet: of those still to be seated, the one whose domain is emptiest fits.
    Where they do not, the order in which the others come first leaves somebody out.
    Members bound by the constraint and counted by it are so seated exactly as the
    filter allows; counted members whom it does not bind may come first. They may also
    have to come later (``later``): then counts are allowed that do not keep it.

    ``check`` is called again and again, and may raise to end it.
    """
    # Members of one template share their shape: a few are looked at, not thousands.
    shapes = {id(pod.shape): pod.shape for pods in classes for pod in pods}.values()
    asked = [rule for stated, rule in RULES if any(map(stated, shapes))]
    if not asked:
        return MemberRules()
    keys = label_keys(shapes)
    kinds = [_kinds(pods, keys) for pods in classes]
    found = _Found(view, check)
    for rule in asked:
        rule(kinds, found)
    return MemberRules(
        tuple(dict.fromkeys(found.caps)), tuple(found.spreads), tuple(dict.fromkeys(found.verify))
    )


def self_affinity_key(
    pods: Sequence[Pod], view: ClusterView, *, opens: bool = False
) -> tuple[str, ...]:
    """Return the topology keys that members must all share one value of, () for none.

    That is so when every member requires affinity to all members, or by the same terms to some of
    them, and no pod in the view matches yet: the first member then chooses the domain for the rest.
    ``opens``: those that do are gone by then.
    """
    kinds = _kinds(pods, label_keys(pod.shape for pod in pods))
    keys: set[str] = set()
    for pod, _ in kinds:
        terms = pod.shape.affinity
        mine = {term.topology_key for term in terms}
        if keys and mine != keys:
            return ()
        picked = [picks_all(terms, other, view.namespaces) for other, _ in kinds]
        same = all(other.shape.affinity == terms for other, _ in kinds)
        if not (any(picked) if same else all(picked)):
            return ()
        if view.term_counts(terms).counts and not opens:
            return ()
        keys = mine
    return tuple(sorted(keys))


def affinity_mask(
    pod: Pod,
    view: ClusterView,
    names: Sequence[str],
    members: Sequence[Pod],
    *,
    opens: bool = False,
) -> bytes:
    """Return one byte a node, 0 where required affinity to the pods in the view rules it out.

    ``members`` are all of the gang still to be placed, ``pod`` included. Those that match
    the pod's terms may meet them: by opening a domain when nobody matches yet, or
    wherever they like when they are not bound by the same terms. Pods count as long as they
    are in the view. ``opens``: all of ``leaders`` may go; led_away says where they have to.
    """
    terms = pod.shape.affinity
    matching, free = _meeting(pod, view, members)
    counts = view.term_counts(terms).counts if terms else {}
    if not terms or free or (matching and (opens or not counts)):
        return b"\x01" * len(names)
    mask = bytearray(len(names))
    for i, name in enumerate(names):
        labels = view.nodes[name].labels
        mask[i] = all(
            counts.get((term.topology_key, labels.get(term.topology_key, "")), 0) > 0
            for term in terms
        )
    return bytes(mask)


def _meeting(pod: Pod, view: ClusterView, members: Sequence[Pod]) -> tuple[bool, bool]:
    """Whether members match the pod's required affinity, and whether some of them are not bound by
    the same terms."""
    terms = pod.shape.affinity
    matching = [other for other in members if picks_all(terms, other, view.namespaces)]
    return bool(matching), any(other.shape.affinity != terms for other in matching)


def leaders(pod: Pod, view: ClusterView, members: Sequence[Pod]) -> Iterator[Pod]:
    """Yield the pods in the view while one of which is there members open no domain of their own.

    A pod that matches its own required affinity is let in anywhere as the first of all that match
    (satisfyPodAffinity of InterPodAffinity). None where the members do not depend on that.
    """
    terms = pod.shape.affinity
    matching, free = _meeting(pod, view, members)
    if free or not matching or not view.term_counts(terms).counts:
        return
    keys = {term.topology_key for term in terms}
    picked: dict[tuple[int, str], bool] = {}
    for state in view.states():
        if keys.isdisjoint(state.node.labels):
            continue
        for other in state.pods.values():
            kind = (id(other.labels), other.namespace)
            if kind not in picked:
                picked[kind] = picks_all(terms, other, view.namespaces)
            if picked[kind]:
                yield other


def led_away(
    pod: Pod,
    view: ClusterView,
    coming: Coming,
    members: Sequence[Pod],
    leading: Sequence[Pod] = (),
    *,
    opens: bool = False,
) -> dict[str, tuple[str, ...]]:
    """Return the nodes that required affinity rules out as long as others match, with their uids.

    Members that match their own terms may open a domain, unless others have opened one before:
    pods which come, and ``leading``, the pods in the view (``leaders``) if all of them may go.
    Where one stays affinity_mask has the answer, and whoever comes only adds to it. ``opens``: on
    nodes beside those pods, too, they have to be gone.
    """
    terms = pod.shape.affinity
    coming = [each for each in coming if picks_all(terms, each[0], view.namespaces)]
    if not coming and not leading:
        return {}
    matching, free = _meeting(pod, view, members)
    if free or not matching or (view.term_counts(terms).counts and not leading):
        return {}
    keys = {term.topology_key for term in terms}
    uids: set[str] = set()
    domains: set[tuple[str, str]] = set()
    for _, places in (*coming, *((each, ((each.uid, each.node),)) for each in leading)):
        for uid, name in places:
            labels = view.nodes[name].labels
            there = {(key, labels[key]) for key in keys & labels.keys()}
            domains |= there
            uids |= {uid} if there else set()
    opened = tuple(sorted(uids))
    return {
        name: opened
        for name, node in (view.nodes.items() if opened else ())
        if opens or not all((key, node.labels.get(key, "")) in domains for key in keys)
    }


MemberKind = tuple[Pod, int]
"""One of some members that no rule can tell apart, and how many they are."""


def label_keys(shapes: Iterable[PodShape]) -> tuple[str, ...]:
    """Return the labels that the rules of these shapes read from other pods."""
    keys: set[str] = set()
    for shape in set(shapes):
        selectors = [term.selector for term in (*shape.affinity, *shape.anti_affinity)]
        selectors += [constraint.selector for constraint in shape.spread]
        for selector in selectors:
            if selector is not None:
                keys |= {requirement.key for requirement in selector.requirements}
    return tuple(sorted(keys))


def _kinds(pods: Sequence[Pod], keys: tuple[str, ...]) -> tuple[MemberKind, ...]:
    """Group pods by namespace, shape and the labels that the rules read."""
    groups: dict[object, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(kind_of(pod, keys), []).append(pod)
    return tuple((group[0], len(group)) for group in groups.values())


def kind_of(pod: Pod, keys: Sequence[str]) -> tuple[object, ...]:
    """Return what rules that read these labels can tell pods apart by."""
    return pod.namespace, pod.shape, tuple([pod.labels.get(key) for key in keys])


class _Found:
    """What the rules add to, and what they may ask."""

    def __init__(self, view: ClusterView, check: Callable[[], None]) -> None:
        self.view = view
        self.check = check
        self.caps: list[MemberCap] = []
        self.spreads: list[MemberSpread] = []
        self.verify: list[str] = []


def _anti_affinity(kinds: Sequence[Sequence[MemberKind]], found: _Found) -> None:
    """One cap of 1 a domain over classes whose members all keep apart."""
    caps = found.caps
    keys = {
        term.topology_key for group in kinds for pod, _ in group for term in pod.shape.anti_affinity
    }
    for key in sorted(keys):
        apart: dict[tuple[int, int], bool] = {}
        partly = False
        for a, b in combinations_with_replacement(range(len(kinds)), 2):
            found.check()
            answers = {
                _keep_apart(one, other, key, found.view.namespaces)
                for one, other in _pairs(kinds[a], kinds[b] if b != a else None)
            }
            apart[a, b] = False not in answers
            partly = partly or answers == {True, False}
        alone = [c for c in range(len(kinds)) if apart[c, c]]
        crossing = [(a, b) for (a, b), all_apart in apart.items() if a != b and all_apart]
        several = [c for c in alone if sum(count for _, count in kinds[c]) > 1]
        inside = [(a, b) for a, b in crossing if a in alone and b in alone]
        touched = sorted({*several, *(c for pair in inside for c in pair)})
        if len(inside) == len(touched) * (len(touched) - 1) // 2:
            if touched:
                caps.append(MemberCap(tuple(touched), key, 1))
        else:
            caps += [MemberCap((c,), key, 1) for c in several]
            caps += [MemberCap(pair, key, 1) for pair in inside]
        if partly or len(inside) < len(crossing):
            found.verify.append(f"anti-affinity on {key} holds between some of the members only")


def _host_ports(kinds: Sequence[Sequence[MemberKind]], found: _Found) -> None:
    """One cap of 1 a node over classes that all take one port of one address.

    Who takes a port on every address clashes with everybody who takes it, those of
    different addresses do not with each other: one cap for each address, with the former.
    """
    takers: dict[tuple[str, int], dict[str, list[int]]] = {}
    for c, group in enumerate(kinds):
        wanted = {frozenset(map(node_ports.slot, pod.shape.host_ports)) for pod, _ in group}
        if len(wanted) > 1:
            found.verify.append("members of one class take different host ports")
            continue
        for protocol, port, address in sorted(wanted.pop() if wanted else ()):
            if port > 0:
                takers.setdefault((protocol, port), {}).setdefault(address, []).append(c)
    for addresses in takers.values():
        everywhere = addresses.pop(node_ports.ANY, [])
        for some in addresses.values() or [[]]:
            together = sorted({*everywhere, *some})
            if sum(count for c in together for _, count in kinds[c]) > 1:
                found.caps.append(MemberCap(tuple(together), EACH_NODE, 1))


def _pairs(
    one: Sequence[MemberKind], other: Sequence[MemberKind] | None
) -> Iterator[tuple[Pod, Pod]]:
    """Pairs of members of two classes, or of one with itself (other None), one a kind."""
    if other is not None:
        for a, _ in one:
            for b, _ in other:
                yield a, b
        return
    for a, count in one:
        if count > 1:
            yield a, a
    for (a, _), (b, _) in combinations(one, 2):
        yield a, b


def _keep_apart(one: Pod, other: Pod, key: str, namespaces: Namespaces) -> bool:
    return any(
        term.topology_key == key and term_picks(term, target, namespaces)
        for holder, target in ((one, other), (other, one))
        for term in holder.shape.anti_affinity
    )


def _spreads(kinds: Sequence[Sequence[MemberKind]], found: _Found) -> None:
    """One rule for each constraint of some class, over all classes that share it."""
    view, verify = found.view, found.verify
    rules: list[tuple[object, ...] | None] = []
    for group in kinds:
        stated = {_spread_rules(pod) for pod, _ in group}
        rules.append(stated.pop() if len(stated) == 1 else None)
        if stated:
            verify.append("members of one class have different spread constraints")
    for index, group in enumerate(kinds):
        if rules[index] is None or rules[index] in rules[:index]:
            continue
        sample = group[0][0]
        for level in view.spread_counts(sample).levels if sample.shape.spread else ():
            found.check()
            constraint = level.constraint
            numbers = [
                sum(n for pod, n in other if counts_for(constraint, sample.namespace, pod))
                for other in kinds
            ]
            whole = [sum(n for _, n in other) for other in kinds]
            if any(0 < n < most for n, most in zip(numbers, whole, strict=True)):
                verify.append(f"spread over {constraint.topology_key} counts part of a class only")
            bound = tuple(c for c, rule in enumerate(rules) if rule == rules[index])
            later = tuple(
                c
                for c, n in enumerate(numbers)
                if 0 < n == whole[c] and c not in bound and any(map(_waits, kinds[c]))
            )
            found.spreads.append(
                MemberSpread(
                    bound=bound,
                    counted=tuple(
                        c for c, n in enumerate(numbers) if n == whole[c] and whole[c] > 0
                    ),
                    topology_key=constraint.topology_key,
                    max_skew=constraint.max_skew,
                    from_zero=len(level.counts) < max(1, constraint.min_domains),
                    values=tuple(sorted(level.counts)),
                    there=tuple(level.counts[value] for value in sorted(level.counts)),
                    sample=sample,
                    constraint=constraint,
                    later=later,
                    most_later=sum(n for c, n in enumerate(numbers) if c in later or n < whole[c]),
                )
            )


def _waits(kind: MemberKind) -> bool:
    """Whether members of the kind may be let in only once others sit."""
    shape = kind[0].shape
    return bool(shape.spread or shape.affinity)


RULES: tuple[
    tuple[Callable[[PodShape], object], Callable[[Sequence[Sequence[MemberKind]], _Found], None]],
    ...,
] = (
    (lambda shape: shape.anti_affinity, _anti_affinity),
    (lambda shape: shape.host_ports, _host_ports),
    (lambda shape: shape.spread, _spreads),
)
"""What a shape states, empty where it states nothing, and what that means among members. A rule is
asked where some member states it."""


def spread_domains(rule: MemberSpread, names: Sequence[str], view: ClusterView) -> list[int]:
    """Return the rule's domain (an index into ``values``) of each node, -1 where it has none."""
    counts = view.spread_counts(rule.sample)
    at = next(i for i, level in enumerate(counts.levels) if level.constraint == rule.constraint)
    order = {value: i for i, value in enumerate(rule.values)}
    return [
        order[view.nodes[name].labels[rule.topology_key]]
        if at in counts.eligible.get(name, ())
        else -1
        for name in names
    ]


def counted_pods(rule: MemberSpread, view: ClusterView) -> tuple[tuple[Pod, int], ...]:
    """Return the pods that the rule counts in the view now, each with its domain."""
    names = list(view.nodes)
    return tuple(
        (pod, domain)
        for name, domain in zip(names, spread_domains(rule, names, view), strict=True)
        if domain >= 0
        for pod in view.state(name).pods.values()
        if counts_for(rule.constraint, rule.sample.namespace, pod)
    )


def _spread_rules(pod: Pod) -> tuple[object, ...]:
    """All that decides which nodes and pods a pod's constraints count."""
    shape = pod.shape
    return (pod.namespace, shape.spread, shape.node_selector, shape.node_terms, shape.tolerations)
