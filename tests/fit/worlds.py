"""Seeded random worlds as API documents: nodes, pods on them, pods that wait.

Made so that every filter accepts some nodes and refuses others: few label
values, small nodes, and each pod follows only some of the rules.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.controlplane.objects import make_node, make_pod, merged

Object = dict[str, Any]

RUNTIME_CLASS = "heavy"
GPU, HUGE = "example.com/gpu", "hugepages-2Mi"
HOST = "kubernetes.io/hostname"
TAINTS = (
    ("dedicated", "gpu", "NoSchedule"),
    ("dedicated", "db", "NoExecute"),
    ("maintenance", "", "NoSchedule"),
    ("slow", "", "PreferNoSchedule"),
)


@dataclass
class World:
    """Documents in the order in which they are to be created."""

    nodes: list[Object] = field(default_factory=list)
    bound: list[Object] = field(default_factory=list)
    terminating: list[tuple[str, str]] = field(default_factory=list)
    """(namespace, name) of bound pods to delete with a long grace period."""
    finished: list[tuple[str, str]] = field(default_factory=list)
    """(namespace, name) of bound pods that have succeeded."""
    waiting: list[Object] = field(default_factory=list)


class Maker:
    """Draws one world from a seed."""

    def __init__(self, seed: int, spaces: list[str], nodes: int = 16) -> None:
        self.rnd = random.Random(seed)
        self.spaces = spaces
        self.names = [f"w{seed}-{i}" for i in range(nodes)]

    def world(self, bound: int = 40, waiting: int = 40) -> World:
        made = World(nodes=[self.node(name) for name in self.names])
        for i in range(bound):
            on = "vanished" if self.chance(0.03) else self.rnd.choice(self.names)
            pod = self.pod(f"b{i}", node=on, busy=0.35)
            where = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            if on != "vanished":
                fate = self.rnd.random()
                if fate < 0.12:
                    made.terminating.append(where)
                elif fate < 0.2:
                    made.finished.append(where)
            made.bound.append(pod)
        made.waiting = [self.pod(f"p{i}", busy=1.0) for i in range(waiting)]
        return made

    def chance(self, probability: float) -> bool:
        return self.rnd.random() < probability

    def some(self, values: list[Any], most: int) -> list[Any]:
        return self.rnd.sample(values, self.rnd.randint(1, min(most, len(values))))

    # --- nodes ---------------------------------------------------------------------

    def node(self, name: str) -> Object:
        rnd = self.rnd
        labels = {}
        if self.chance(0.9):
            labels["zone"] = rnd.choice("abc")
        if self.chance(0.8):
            labels["rack"] = rnd.choice(["r1", "r2", "r3", "r4"])
        if self.chance(0.7):
            labels["disk"] = rnd.choice(["ssd", "hdd", ""])
        if self.chance(0.8):
            labels["gen"] = rnd.choice(["1", "2", "3", "10", "old"])
        resources: dict[str, str | int] = {}
        if self.chance(0.4):
            resources[GPU] = rnd.choice([0, 1, 2, 4])
        if self.chance(0.3):
            resources[HUGE] = rnd.choice(["4Mi", "64Mi"])
        taints = [
            {"key": key, "effect": effect, **({"value": value} if value else {})}
            for key, value, effect in TAINTS
            if self.chance(0.07)
        ]
        made = make_node(
            name,
            rnd.choice(["1", "3500m", "5", "7900m", "9", "16"]),
            rnd.choice(["1Gi", "3000Mi", "16Gi", "32e9"]),
            rnd.choice([3, 8, 12, 20]),
            labels=labels,
            taints=taints,
            resources=resources,
            unschedulable=self.chance(0.08),
        )
        if self.chance(0.05):
            del made["metadata"]["labels"][HOST]
        return made

    # --- pods ----------------------------------------------------------------------

    def pod(self, name: str, node: str | None = None, busy: float = 1.0) -> Object:
        """A pod with each rule at its usual probability times ``busy``."""
        rnd = self.rnd
        labels = {"app": rnd.choice(["web", "db", "cache"])}
        if self.chance(0.6):
            labels["tier"] = rnd.choice(["front", "back"])
        if self.chance(0.5):
            labels["rev"] = rnd.choice(["1", "2"])
        affinity: Object = {}
        spec: Object = {"terminationGracePeriodSeconds": 3600}
        if self.chance(0.15 * busy):
            spec["nodeSelector"] = self.node_selector()
        if self.chance(0.25 * busy):
            terms = [self.node_term() for _ in range(rnd.randint(1, 3))]
            affinity["nodeAffinity"] = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        for kind, probability in (("podAffinity", 0.15 * busy), ("podAntiAffinity", 0.25)):
            if self.chance(probability):
                affinity[kind] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        self.pod_term(labels) for _ in range(rnd.choice([1, 1, 2]))
                    ]
                }
        if affinity:
            spec["affinity"] = affinity
        if self.chance(0.3 * busy):
            spec["topologySpreadConstraints"] = self.spread(labels)
        if self.chance(0.35 * busy):
            spec["tolerations"] = [self.toleration() for _ in range(rnd.randint(1, 3))]
        made = make_pod(
            name,
            node=node,
            namespace=rnd.choice(self.spaces),
            labels=labels,
            spec=merged(spec, self.resources()),
        )
        self.ports(made["spec"])
        return made

    def resources(self) -> Object:
        rnd = self.rnd
        requests: dict[str, str] = {}
        if self.chance(0.7):
            requests["cpu"] = rnd.choice(["100m", "500m", "1", "1.5", "3"])
        if self.chance(0.4):
            requests["memory"] = rnd.choice(["64Mi", "500M", "1Gi", "2.5Gi"])
        if self.chance(0.1):
            requests["ephemeral-storage"] = rnd.choice(["1Gi", "80Gi"])
        limits: dict[str, str] = {}
        if self.chance(0.15):
            limits[GPU] = rnd.choice(["0", "1", "2"])
        if self.chance(0.08):
            limits[HUGE] = rnd.choice(["2Mi", "6Mi"])
            requests.setdefault("cpu", "10m")
        if self.chance(0.1):
            # Absent requests are filled in from the limits.
            limits["memory"] = "3Gi"
        spec: Object = {
            "containers": [self.container("main", {**requests, **_only(limits, GPU, HUGE)}, limits)]
        }
        if self.chance(0.15):
            spec["containers"].append(self.container("second", {"cpu": "250m"}, {}))
        init = []
        if self.chance(0.12):
            init.append({**self.container("side", {"cpu": "700m"}, {}), "restartPolicy": "Always"})
        if self.chance(0.15):
            init.append(self.container("setup", {"cpu": rnd.choice(["1", "4"])}, {}))
        if init:
            rnd.shuffle(init)
            spec["initContainers"] = init
        if self.chance(0.05):
            spec["resources"] = {"requests": {"cpu": "6"}}
        if self.chance(0.08):
            spec["runtimeClassName"] = RUNTIME_CLASS
        return spec

    def container(self, name: str, requests: dict[str, str], limits: dict[str, str]) -> Object:
        resources = {"requests": requests, "limits": limits}
        return {"name": name, "image": "example.com/nothing:1", "resources": resources}

    def ports(self, spec: Object) -> None:
        if not self.chance(0.25):
            return
        ports = {}
        for _ in range(self.rnd.randint(1, 2)):
            number, protocol = self.rnd.choice([8080, 9090]), self.rnd.choice(["TCP", "UDP"])
            port = {"containerPort": number, "hostPort": number, "protocol": protocol}
            address = self.rnd.choice(["", "", "0.0.0.0", "10.1.0.1", "10.1.0.2"])
            if address:
                port["hostIP"] = address
            ports[number, protocol] = port
        if self.chance(0.3):
            # On the host's network every port of a container is a port of the node.
            spec["hostNetwork"] = True
            for port in ports.values():
                del port["hostPort"]
        spec["containers"][-1]["ports"] = list(ports.values())
        sidecar = [c for c in spec.get("initContainers", ()) if "restartPolicy" in c]
        if sidecar and not spec.get("hostNetwork"):
            sidecar[0]["ports"] = [{"containerPort": 7070, "hostPort": 7070}]

    # --- rules about nodes ------------------------------------------------------------

    def node_selector(self) -> dict[str, str]:
        key = self.rnd.choice(["zone", "disk"])
        return {key: self.rnd.choice({"zone": "abc", "disk": ["ssd", "hdd"]}[key])}

    def node_term(self) -> Object:
        rnd = self.rnd
        if self.chance(0.05):
            return {}
        term: Object = {}
        if self.chance(0.85):
            term["matchExpressions"] = [self.node_requirement() for _ in range(rnd.choice([1, 2]))]
        if not term or self.chance(0.15):
            operator, name = rnd.choice(["In", "NotIn"]), rnd.choice(self.names)
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
        return term

    def node_requirement(self) -> Object:
        rnd = self.rnd
        if self.chance(0.3):
            value = rnd.choice(["0", "1", "2", "9", "007"])
            return {"key": "gen", "operator": rnd.choice(["Gt", "Lt"]), "values": [value]}
        key = rnd.choice(["zone", "rack", "disk"])
        values = {"zone": ["a", "b"], "rack": ["r1", "r2", "r3"], "disk": ["ssd", ""]}[key]
        return self.requirement(key, values)

    def requirement(self, key: str, values: list[str]) -> Object:
        operator = self.rnd.choice(["In", "In", "NotIn", "Exists", "DoesNotExist"])
        made: Object = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            made["values"] = self.some(values, 2)
        return made

    def toleration(self) -> Object:
        rnd = self.rnd
        if self.chance(0.1):
            return {"operator": "Exists"}
        if self.chance(0.15):
            return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
        key, value, effect = rnd.choice(TAINTS)
        made: Object = {"key": key}
        if self.chance(0.5):
            made["operator"] = "Exists"
        else:
            made["value"] = rnd.choice([value, value, "other"])
            if self.chance(0.5):
                made["operator"] = "Equal"
        if self.chance(0.6):
            made["effect"] = effect
        return made

    # --- rules about pods -----------------------------------------------------------------

    def pod_selector(self) -> Object | None:
        rnd = self.rnd
        if self.chance(0.04):
            return None
        if self.chance(0.04):
            return {}
        if self.chance(0.6):
            return {"matchLabels": {"app": rnd.choice(["web", "db", "cache"])}}
        key = rnd.choice(["app", "tier"])
        values = {"app": ["web", "db", "cache"], "tier": ["front", "back"]}[key]
        return {"matchExpressions": [self.requirement(key, values)]}

    def pod_term(self, labels: dict[str, str]) -> Object:
        rnd = self.rnd
        term: Object = {"topologyKey": rnd.choice([HOST, "zone", "rack"])}
        chosen = self.pod_selector()
        if chosen is not None:
            term["labelSelector"] = chosen
            if "rev" in labels and self.chance(0.15):
                term[rnd.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["rev"]
        if self.chance(0.25):
            term["namespaces"] = self.some(self.spaces, 2)
        if self.chance(0.25):
            term["namespaceSelector"] = rnd.choice(
                [
                    {},
                    {"matchLabels": {"team": "a"}},
                    {"matchExpressions": [self.requirement("team", ["a", "b"])]},
                ]
            )
        return term

    def spread(self, labels: dict[str, str]) -> list[Object]:
        rnd = self.rnd
        made = []
        for key in self.some([HOST, "zone", "rack"], 2):
            rule: Object = {
                "topologyKey": key,
                "maxSkew": rnd.choice([1, 1, 2, 3]),
                "whenUnsatisfiable": "ScheduleAnyway" if self.chance(0.1) else "DoNotSchedule",
            }
            chosen = self.pod_selector()
            if chosen is not None:
                rule["labelSelector"] = chosen
                if "rev" in labels and self.chance(0.2):
                    rule["matchLabelKeys"] = ["rev"]
            if rule["whenUnsatisfiable"] == "DoNotSchedule" and self.chance(0.25):
                rule["minDomains"] = rnd.choice([2, 3, 4, 6])
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if self.chance(0.4):
                    rule[policy] = rnd.choice(["Honor", "Ignore"])
            made.append(rule)
        return made


def _only(amounts: dict[str, str], *names: str) -> dict[str, str]:
    return {name: amounts[name] for name in names if name in amounts}
