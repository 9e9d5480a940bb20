"""Rules that a gang's members set for each other, as limits that a search can keep.

Source: InterPodAffinity and PodTopologySpread, applied to members that are all
still to be placed. What cannot be said as a limit is named in ``verify``: the
seats found must then be checked one after the other on a ClusterView.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement

from msgspec import Struct

from extender.fit.inter_pod_affinity import picks_all, term_picks
from extender.fit.namespaces import Namespaces
from extender.fit.pod_topology_spread import counts_for
from extender.fit.view import ClusterView
from extender.model.objects import Pod, PodShape


class MemberCap(Struct, frozen=True):
    """At most ``limit`` members of ``classes`` (indices) in one domain of ``topology_key``."""

    classes: tuple[int, ...]
    topology_key: str
    limit: int


class MemberRules(Struct, frozen=True):
    """Limits that every placement keeps, and what they do not say."""

    caps: tuple[MemberCap, ...] = ()
    verify: tuple[str, ...] = ()
    """For a person: rules the caps express only in part, or not at all."""


def self_caps(classes: Sequence[Sequence[Pod]], view: ClusterView) -> MemberRules:
    """Return the limits that members set for each other by anti-affinity and spread.

    ``classes`` are the gang's members, grouped as the search groups them. A cap
    never forbids a placement that the filters allow; with ``verify`` empty the
    caps also forbid every placement in which these rules are broken.
    """
    keys = _label_keys(pod.shape for pods in classes for pod in pods)
    kinds = [_kinds(pods, keys) for pods in classes]
    caps: list[MemberCap] = []
    verify: list[str] = []
    _anti_affinity(kinds, view.namespaces, caps, verify)
    for index in range(len(kinds)):
        _spread(kinds, index, view, caps, verify)
    return MemberRules(tuple(dict.fromkeys(caps)), tuple(dict.fromkeys(verify)))


def self_affinity_key(pods: Sequence[Pod], view: ClusterView) -> tuple[str, ...]:
    """Return the topology keys that members must all share one value of, () for none.

    That is so when every member requires affinity to all members and no pod in
    the view matches yet: the first member then chooses the domain for the rest.
    """
    kinds = _kinds(pods, _label_keys(pod.shape for pod in pods))
    keys: set[str] = set()
    for pod, _ in kinds:
        terms = pod.shape.affinity
        mine = {term.topology_key for term in terms}
        if keys and mine != keys:
            return ()
        if not all(picks_all(terms, other, view.namespaces) for other, _ in kinds):
            return ()
        if view.term_counts(terms).counts:
            return ()
        keys = mine
    return tuple(sorted(keys))


def affinity_mask(
    pod: Pod, view: ClusterView, names: Sequence[str], members: Sequence[Pod]
) -> bytes:
    """Return one byte a node, 0 where required affinity to the pods in the view rules it out.

    ``members`` are all of the gang still to be placed, ``pod`` included. Those that match
    the pod's terms may meet them: by opening a domain when nobody matches yet, or
    wherever they like when they are not bound by the same terms. Leaving pods count
    as long as they are in the view.
    """
    terms = pod.shape.affinity
    matching = [other for other in members if picks_all(terms, other, view.namespaces)]
    counts = view.term_counts(terms).counts if terms else {}
    free = any(other.shape.affinity != terms for other in matching)
    if not terms or free or (matching and not counts):
        return b"\x01" * len(names)
    mask = bytearray(len(names))
    for i, name in enumerate(names):
        labels = view.nodes[name].labels
        mask[i] = all(
            counts.get((term.topology_key, labels.get(term.topology_key, "")), 0) > 0
            for term in terms
        )
    return bytes(mask)


Kind = tuple[Pod, int]
"""One of some members that no rule can tell apart, and how many they are."""


def _label_keys(shapes: Iterable[PodShape]) -> tuple[str, ...]:
    """The labels that the rules of these shapes read from other pods."""
    keys: set[str] = set()
    for shape in set(shapes):
        selectors = [term.selector for term in (*shape.affinity, *shape.anti_affinity)]
        selectors += [constraint.selector for constraint in shape.spread]
        for selector in selectors:
            if selector is not None:
                keys |= {requirement.key for requirement in selector.requirements}
    return tuple(sorted(keys))


def _kinds(pods: Sequence[Pod], keys: tuple[str, ...]) -> tuple[Kind, ...]:
    """Group pods by namespace, shape and the labels that the rules read."""
    groups: dict[object, list[Pod]] = {}
    for pod in pods:
        read = tuple([pod.labels.get(key) for key in keys])
        groups.setdefault((pod.namespace, pod.shape, read), []).append(pod)
    return tuple((group[0], len(group)) for group in groups.values())


def _anti_affinity(
    kinds: Sequence[Sequence[Kind]],
    namespaces: Namespaces,
    caps: list[MemberCap],
    verify: list[str],
) -> None:
    """One cap of 1 a domain over classes whose members all keep apart."""
    keys = {
        term.topology_key for group in kinds for pod, _ in group for term in pod.shape.anti_affinity
    }
    for key in sorted(keys):
        apart: dict[tuple[int, int], bool] = {}
        partly = False
        for a, b in combinations_with_replacement(range(len(kinds)), 2):
            answers = {
                _keep_apart(one, other, key, namespaces)
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
            verify.append(f"anti-affinity on {key} holds between some of the members only")


def _pairs(one: Sequence[Kind], other: Sequence[Kind] | None) -> Iterator[tuple[Pod, Pod]]:
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


def _spread(
    kinds: Sequence[Sequence[Kind]],
    index: int,
    view: ClusterView,
    caps: list[MemberCap],
    verify: list[str],
) -> None:
    """A cap for each constraint of one class that counts the class itself.

    The last member put into a domain met count <= minimum + maxSkew, and the
    minimum can never exceed the average: that bounds every placement. It is the
    whole rule when the minimum is 0 throughout and nothing else is counted.
    """
    rules = {_spread_rules(pod) for pod, _ in kinds[index]}
    if len(rules) > 1:
        verify.append("members of one class have different spread constraints")
        return
    sample = kinds[index][0][0]
    same = [
        c for c, group in enumerate(kinds) if all({_spread_rules(pod)} == rules for pod, _ in group)
    ]
    for level in view.spread_counts(sample).levels if sample.shape.spread else ():
        constraint = level.constraint
        counted = [
            sum(n for pod, n in group if counts_for(constraint, sample.namespace, pod))
            for group in kinds
        ]
        bound = [c for c in same if counted[c] == sum(n for _, n in kinds[c])]
        existing, domains = sum(level.counts.values()), len(level.counts)
        total = existing + sum(counted)
        few = domains < max(1, constraint.min_domains)
        least = 0 if few else total // domains
        if index in bound:
            caps.append(
                MemberCap(tuple(bound), constraint.topology_key, constraint.max_skew + least)
            )
        whole = index in bound and sum(counted[c] for c in bound) == sum(counted)
        if total and (existing or least or not whole):
            verify.append(
                f"spread over {constraint.topology_key} (maxSkew {constraint.max_skew}) depends on "
                f"the order of placement or on other pods"
            )


def _spread_rules(pod: Pod) -> tuple[object, ...]:
    """All that decides which nodes and pods a pod's constraints count."""
    shape = pod.shape
    return (pod.namespace, shape.spread, shape.node_selector, shape.node_terms, shape.tolerations)
