"""kube-scheduler's filters once more, as slowly and plainly as they can be said.

No index, no cache, no shared helper: written from the plugins' documented
rules, to be compared with extender.fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extender.model.objects import LabelSelector, Node, Pod, PodAffinityTerm, SpreadConstraint

Placed = Mapping[str, list[Pod]]
"""Node name -> pods on it."""


class World:
    """Nodes, the pods on them and the namespaces' labels."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        placed: Placed,
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.nodes = nodes
        self.placed = placed
        self.namespaces = namespaces

    def feasible(self, pod: Pod) -> list[str]:
        others = World(
            self.nodes,
            {n: [p for p in on if p.uid != pod.uid] for n, on in self.placed.items()},
            self.namespaces,
        )
        rules: list[Callable[[Pod, Node], bool]] = [
            others.named,
            others.schedulable,
            others.tolerated,
            others.affine,
            others.roomy,
            others.ports_free,
            others.near,
            others.apart,
            others.welcome,
            others.spread,
        ]
        return sorted(
            name for name, node in self.nodes.items() if all(rule(pod, node) for rule in rules)
        )

    def on(self, node: Node) -> list[Pod]:
        return self.placed.get(node.name, [])

    def everyone(self) -> list[tuple[Node, Pod]]:
        return [(node, pod) for node in self.nodes.values() for pod in self.on(node)]

    # one plugin each

    def named(self, pod: Pod, node: Node) -> bool:
        return pod.node in ("", node.name)

    def schedulable(self, pod: Pod, node: Node) -> bool:
        return not node.unschedulable or _tolerated(
            pod, "node.kubernetes.io/unschedulable", "", "NoSchedule"
        )

    def tolerated(self, pod: Pod, node: Node) -> bool:
        return all(
            _tolerated(pod, taint.key, taint.value, taint.effect)
            for taint in node.taints
            if taint.effect != "PreferNoSchedule"
        )

    def affine(self, pod: Pod, node: Node) -> bool:
        if any(node.labels.get(k) != v for k, v in pod.shape.node_selector):
            return False
        if pod.shape.node_terms is None:
            return True
        for branch in pod.shape.node_terms:
            checks = [_holds(r.key, r.operator, r.values, node.labels) for r in branch.labels]
            checks += [
                _holds(r.key, r.operator, r.values, {"metadata.name": node.name})
                for r in branch.fields
            ]
            if checks and all(checks):
                return True
        return False

    def roomy(self, pod: Pod, node: Node) -> bool:
        allocatable = dict(node.allocatable)
        if len(self.on(node)) + 1 > allocatable.get("pods", 0):
            return False
        for name, amount in pod.requests:
            if name == "pods" or amount == 0:
                continue
            used = sum(dict(other.requests).get(name, 0) for other in self.on(node))
            if used + amount > allocatable.get(name, 0):
                return False
        return True

    def ports_free(self, pod: Pod, node: Node) -> bool:
        for mine in pod.shape.host_ports:
            for other in self.on(node):
                for theirs in other.shape.host_ports:
                    same = (mine.protocol, mine.port) == (theirs.protocol, theirs.port)
                    if same and (mine.ip == theirs.ip or "0.0.0.0" in (mine.ip, theirs.ip)):
                        return False
        return True

    def near(self, pod: Pod, node: Node) -> bool:
        terms = pod.shape.affinity
        if any(term.topology_key not in node.labels for term in terms):
            return False
        friends = [
            (where, other)
            for where, other in self.everyone()
            if all(self._reaches(term, other) for term in terms)
        ]
        if all(
            any(_same_domain(term.topology_key, node, where) for where, _ in friends)
            for term in terms
        ):
            return True
        nobody = not any(
            term.topology_key in where.labels for where, _ in friends for term in terms
        )
        return nobody and all(self._reaches(term, pod) for term in terms)

    def apart(self, pod: Pod, node: Node) -> bool:
        return not any(
            self._reaches(term, other) and _same_domain(term.topology_key, node, where)
            for term in pod.shape.anti_affinity
            for where, other in self.everyone()
        )

    def welcome(self, pod: Pod, node: Node) -> bool:
        return not any(
            self._reaches(term, pod) and _same_domain(term.topology_key, node, where)
            for where, other in self.everyone()
            for term in other.shape.anti_affinity
        )

    def spread(self, pod: Pod, node: Node) -> bool:
        rules = pod.shape.spread
        keys = [rule.topology_key for rule in rules]
        if any(key not in node.labels for key in keys):
            return False
        for rule in rules:
            counts: dict[str, int] = {}
            for where in self.nodes.values():
                if any(key not in where.labels for key in keys):
                    continue
                if rule.honor_node_affinity and not self.affine(pod, where):
                    continue
                if rule.honor_taints and not self.tolerated(pod, where):
                    continue
                value = where.labels[rule.topology_key]
                counts[value] = counts.get(value, 0) + sum(
                    _counted(rule, pod, other) for other in self.on(where)
                )
            least = min(counts.values(), default=0)
            if len(counts) < rule.min_domains:
                least = 0
            here = counts.get(node.labels[rule.topology_key], 0)
            if here + _picks(rule.selector, pod.labels) - least > rule.max_skew:
                return False
        return True

    def _reaches(self, term: PodAffinityTerm, pod: Pod) -> bool:
        in_reach = pod.namespace in term.namespaces or _picks(
            term.namespace_selector, self.namespaces[pod.namespace]
        )
        return in_reach and _picks(term.selector, pod.labels)


def _same_domain(key: str, one: Node, other: Node) -> bool:
    return key in one.labels and key in other.labels and one.labels[key] == other.labels[key]


def _counted(rule: SpreadConstraint, pod: Pod, other: Pod) -> bool:
    if rule.selector is not None and not rule.selector.requirements:
        return False
    alive = other.deleting == 0
    return alive and other.namespace == pod.namespace and _picks(rule.selector, other.labels)


def _picks(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(
        _holds(r.key, r.operator, r.values, labels) for r in selector.requirements
    )


def _holds(key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    have = labels.get(key)
    return {
        "In": have is not None and have in values,
        "NotIn": have is None or have not in values,
        "Exists": have is not None,
        "DoesNotExist": have is None,
        "Gt": have is not None and have.isdecimal() and int(have) > int((*values, "0")[0])
        if operator == "Gt"
        else False,
        "Lt": have is not None and have.isdecimal() and int(have) < int((*values, "0")[0])
        if operator == "Lt"
        else False,
    }[operator]


def _tolerated(pod: Pod, key: str, value: str, effect: str) -> bool:
    for each in pod.shape.tolerations:
        if each.effect in ("", effect) and each.key in ("", key):
            if each.operator == "Exists":
                return True
            if each.operator == "Equal" and each.value == value:
                return True
    return False
