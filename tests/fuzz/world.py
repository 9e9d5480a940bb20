"""A small cluster that a tenant shares with others, and what must hold in it whatever it does."""

from __future__ import annotations

import json
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec.structs import replace
from structlog.testing import capture_logs

from extender.cache import followed_resources
from extender.cache.reader import ResourceReader
from extender.cache.stats import CacheStats, WatchStats
from extender.cache.store import Store
from extender.decode.from_json import (
    decode_budget,
    decode_group,
    decode_namespace,
    decode_node,
    decode_pod,
    decode_priority_class,
)
from extender.fit.selectors import matches
from extender.gang.core.last_check import KeptGangs
from extender.gang.incremental.protection import MIRROR_ANNOTATION, Protections
from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion, SeatsQuestion
from extender.gang.plan.single import single_gang
from extender.gang.plan.validity import present, unit_problem
from extender.groups.composite import chain_of
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.plan import Plan, Refusal, Victim
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339
from extender.settings.policy import SYSTEM_CRITICAL
from extender.settings.settings import PlanSettings, Settings
from extender.verbs.filter import hold_back
from extender.wire.filter_json import FilterArgs, encode_filter_result
from tests.fuzz.hostile import CLASSES, NODES, TENANT

Obj = dict[str, Any]
NOW = 1_800_000_000.0
HONEST = "honest"
WORK = GangKey("pod-group", HONEST, "work")
URGENT = 1000
"""Priority of the honest gang that wants in."""
SECONDS = 1.0
"""The planner's own limit."""
BEYOND = 6.0
"""CPU seconds for one answer: the limit, and what is done before and after the search, under
coverage too."""
MOST_BUDGETS = 50
"""A tenant's budgets beyond this are not read, and none of its pods is a victim."""
SETTINGS = Settings(
    plan=PlanSettings(seconds=SECONDS, branch_nodes=2000, budgets_per_namespace=MOST_BUDGETS)
)


class Broken(AssertionError):  # noqa: N818 - what has happened
    """An invariant does not hold."""


class World:
    """Six nodes, an honest gang that runs, one that wants in, a system pod, and the tenant."""

    def __init__(self, *, may_opt_out: bool) -> None:
        self.resolver = Resolver(SETTINGS.groups)
        self.planner = Planner(SETTINGS, self.resolver)
        self.store = Store(self.resolver.member_key, lambda: NOW, CacheStats())
        self.may_opt_out = may_opt_out
        if not may_opt_out:
            self.store.read_groups_of(frozenset(("core", "core-composite")))
        self.sent = 0
        """Bytes of JSON that the tenant has written."""
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        self._version = 0
        self._made = 0
        labels = {"podgroup-extender.io/opt-out": "allowed"} if may_opt_out else {}
        for name in (HONEST, TENANT, "kube-system"):
            meta = {"name": name, "labels": labels if name == TENANT else {}}
            self.store.namespaces.put(decode_namespace(self._json({"metadata": meta})))
        for name, value in CLASSES.items():
            if name:
                body = self._json({"metadata": {"name": name}, "value": value})
                self.store.priority_classes.put(decode_priority_class(body))
        for i, name in enumerate(NODES):
            self._node(name, f"r{i % 2}")
        self._group("running", 2, "highest")
        self._group("work", 3, "urgent")
        for i in range(2):
            self._pod(HONEST, f"running-{i}", CLASSES["highest"], "running", NODES[i], cpu="2")
        for i in range(3):
            self._pod(HONEST, f"work-{i}", URGENT, "work", "", cpu="8")
        self._pod("kube-system", "system", SYSTEM_CRITICAL + 1000, "", "", cpu="9")

    # -- what there is --------------------------------------------------------------------------

    def _json(self, document: Obj, namespace: str = "") -> bytes:
        return msgspec.json.encode({**document, "metadata": self._meta(document, namespace)})

    def _meta(self, document: Obj, namespace: str) -> Obj:
        self._version += 1
        meta = {
            "uid": f"uid-{self._version:05}",
            "resourceVersion": str(self._version),
            "creationTimestamp": "2027-01-15T07:00:00Z",
            **document["metadata"],
        }
        if namespace:
            meta["namespace"] = namespace
        return meta

    def _node(self, name: str, rack: str) -> None:
        document = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": rack}},
            "status": {
                "allocatable": {
                    "cpu": "10",
                    "memory": "64Gi",
                    "pods": "40",
                    "ephemeral-storage": "100Gi",
                    "example.com/gpu": "4",
                }
            },
        }
        self.store.nodes.put(decode_node(self._json(document)))

    def _group(self, name: str, count: int, cls: str) -> None:
        document = {
            "metadata": {"name": name},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": count}},
                "disruptionMode": {"all": {}},
                "priorityClassName": cls,
                "priority": CLASSES[cls],
            },
        }
        self.store.groups["core"].put(decode_group("core", self._json(document, HONEST)))

    def _pod(
        self, namespace: str, name: str, priority: int, group: str, node: str, *, cpu: str
    ) -> None:
        spec: Obj = {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "priority": priority,
        }
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if node:
            spec["nodeName"] = node
        document = {"metadata": {"name": name}, "spec": spec}
        self.store.pods.put(decode_pod(self._json(document, namespace)))

    def snapshot(self) -> Snapshot:
        """The present state."""
        return self.store.snapshot()

    # -- what the tenant does -------------------------------------------------------------------

    def take(self, step: Obj) -> None:
        """Create what a step says, as the API server would show it later."""
        for kind, document in step.items():
            if kind == "several":
                for each in document:
                    self.take(each)
            elif kind == "budgets":
                self._churn_budgets(document, step["churn"])
            elif kind == "pod":
                self._create_pods(step)
            elif kind == "owner":
                self._write_owner(step)
            elif kind == "composite":
                data = self._json(document, TENANT)
                self.sent += len(data)
                record = decode_group("core-composite", data)
                table = self.store.groups["core-composite"]
                old = table.rows.get(("core-composite", TENANT, record.name))
                if step["gone"] and old is not None:
                    table.remove(old)
                else:
                    if old is not None and old.uid != record.uid:
                        table.remove(old)
                    table.put(record)
            elif kind in ("group", "member", "budget"):
                data = self._json(document, TENANT)
                self.sent += len(data)
                if kind == "budget":
                    self.store.budgets.put(decode_budget(data))
                else:
                    source = "core" if kind == "group" else "scheduling-plugins"
                    record = decode_group(source, data)
                    self.store.groups[source].put(record)

    def _churn_budgets(self, kind: Obj, rounds: int) -> None:
        """Create many budgets, then a pod and one more of them, again and again."""

        def one(at: int) -> None:
            listed = [f"v{at}", "x"] if kind["how"].endswith("In") else []
            wanted = [
                {"key": f"k{key}", "operator": kind["how"], "values": listed}
                for key in range(kind["keys"])
            ]
            document = {
                "metadata": {"name": f"many-{at}"},
                "spec": {"selector": {"matchExpressions": wanted}},
                "status": {"disruptionsAllowed": at % 2, "observedGeneration": 1},
            }
            data = self._json(document, TENANT)
            self.sent += len(data)
            self.store.budgets.put(decode_budget(data))

        def tiny(at: int) -> None:
            self._made += 1
            labels = {f"k{key}": "x" for key in range(kind["keys"])}
            document = {
                "metadata": {"name": f"tiny-{self._made}", "labels": labels if at % 2 else {}},
                "spec": {"nodeName": NODES[at % len(NODES)], "containers": [{"name": "c"}]},
                "status": {"phase": "Running", "startTime": "2027-01-15T07:00:01Z"},
            }
            data = self._json(document, TENANT)
            self.sent += len(data)
            self.store.pods.put(decode_pod(data))

        for at in range(kind["many"]):
            one(at)
        for at in range(kind["pods"]):
            tiny(at)
        for more in range(rounds):
            self.check()
            one(kind["many"] + more)
            tiny(more)
        self.seen["budgets"] += kind["many"] + rounds

    def _write_owner(self, step: Obj) -> None:
        """Write an object that makes pods, or delete it; it is read as a list would be."""
        source, document = step["owner"], step["document"]
        # As the API server has it: numbers of any size, and what is left of the metadata.
        data = json.dumps({**document, "metadata": self._meta(document, TENANT)}).encode()
        self.sent += len(data)
        table, stats = self.store.groups[source], WatchStats(source, "/x")
        self.store.read_groups_of(self.store.group_sources | {source})
        records: dict[str, GroupObject] = {}
        page = b'{"metadata":{"resourceVersion":"1"},"items":[' + data + b"]}"
        with capture_logs():  # an object that is left out is told, as an error
            ResourceReader(followed_resources.groups(source, "/x", all_jobs=True), stats).page(
                page, records
            )
        name = document["metadata"]["name"]
        for old in [row for row in table.rows.values() if row.name == name]:
            table.remove(old)
        unread = {key[1:]: why for key, why in self.store.unreadable.items() if key[0] == source}
        unread.pop((TENANT, name), None)
        if not step["gone"]:
            for record in records.values():
                table.put(record)
            unread |= stats.left_out_by_name()
            self.seen["owners"] += len(records)
            self.seen["unreadable"] += not records
        self.store.leave_out(source, unread)

    def _freed(self) -> dict[str, str]:
        """Evict the tenant's pods that the honest gang's plan takes; return its seats, to which
        more of the tenant's come by spec.nodeName before the gang does."""
        state = self.snapshot()
        answer = self._ask(self.resolver.resolve(WORK, state), state)
        if isinstance(answer, Refusal):
            return {}
        for victim in answer.victims:
            pod = present(victim, state)
            if pod is not None and pod.namespace == TENANT:
                self.store.pods.remove(pod)
        self.seen["squats"] += 1
        return {seat.uid: seat.node for seat in answer.seats}

    def _blame(self, seats: dict[str, str], came: list[Pod]) -> None:
        """Who is told to keep members off their seats does so, and nobody who does is left out."""
        state = self.snapshot()
        asked = SeatsQuestion(self.resolver.resolve(WORK, state), seats, state)

        def fine(out: Sequence[Pod]) -> bool:
            return not self.planner.check(replace(asked, beside=out))

        blamed = self.planner.to_blame(asked, came)
        self.seen["blamed"] += len(blamed)
        if not fine(()) and fine(came) and not fine(blamed):
            raise Broken(f"{[pod.name for pod in came]} keep members off, and are not blamed")
        for pod in blamed:
            if fine([other for other in blamed if other is not pod]):
                raise Broken(f"{pod.name} keeps nobody off, and is blamed")

    def _create_pods(self, step: Obj) -> None:
        seats = self._freed() if step.get("squats") else {}
        came: list[Pod] = []
        for copy in range(step["copies"]):
            self._made += 1
            document = deepcopy(step["pod"])
            if seats and step.get("apart"):
                term = {"topologyKey": step["apart"], "labelSelector": {}, "namespaceSelector": {}}
                rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                document["spec"]["affinity"] = {"podAntiAffinity": rule}
                document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
            document["metadata"]["name"] = f"t-{self._made}"
            if step["differ"]:
                requests = document["spec"]["containers"][0]["resources"]["requests"]
                requests["cpu"] = f"{1000 + copy}m"
            if step["bound"] or seats:
                # By a rule some keep members off, from their rack too, and others do not.
                nodes = NODES if step.get("apart") else tuple(seats.values()) or NODES
                document["spec"]["nodeName"] = nodes[(step["first"] + copy) % len(nodes)]
                document["spec"].pop("schedulingGates", None)
                if step.get("mirror"):
                    document["metadata"].setdefault("annotations", {})[MIRROR_ANNOTATION] = "mine"
                ready = {"type": "Ready", "status": "False" if step.get("unready") else "True"}
                self.seen["unready"] += bool(step.get("unready"))
                document["status"] = {
                    "phase": "Running",
                    "startTime": "2027-01-15T07:00:01Z",
                    "conditions": [ready],
                }
                if step["ends"]:
                    meta = document["metadata"]
                    meta["deletionTimestamp"] = rfc3339(NOW + step["ends"])
                    meta["deletionGracePeriodSeconds"] = max(30, step["ends"])
            data = self._json(document, TENANT)
            self.sent += len(data)
            came.append(decode_pod(data))
            self.store.pods.put(came[-1])
        if seats:
            self._blame(seats, came)

    # -- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        """Ask for everybody; raises Broken."""
        state = self.snapshot()
        answer = self._ask(self.resolver.resolve(WORK, state), state)
        if isinstance(answer, Refusal) and not self.may_opt_out and not state.budgets:
            self._rightly_refused(answer, state, URGENT)
        self._system(state)
        for key in sorted(state.members):
            if key.namespace == TENANT:
                gang = self.resolver.resolve(key, state)
                if gang.missing and gang.starts_whole:
                    self._ask(gang, state)

    def _ask(self, gang: Gang, state: Snapshot) -> Plan | Refusal:
        cancel = array("b", [0])
        began = time.thread_time()
        answer = self.planner.plan(
            GangQuestion(gang, state), deadline=time.monotonic() + SECONDS, cancel=cancel
        )
        took = time.thread_time() - began
        aside = [f"{pod.key} {why}" for pod, why in self.planner.take_aside()]
        aside += [text for text in gang.problems if text.endswith("please report this")]
        if aside:
            raise Broken(f"a defect was contained: {aside[:3]}")
        self.slowest = max(self.slowest, took)
        self.seen["refusals" if isinstance(answer, Refusal) else "plans"] += 1
        if took > BEYOND:
            raise Broken(f"{gang.key} took {took:.1f} s of CPU, the limit is {SECONDS}")
        if isinstance(answer, Plan):
            self.seen["victims"] += len(answer.victims)
            self._rightly(gang, answer, state)
        else:
            self._briefly(gang, answer)
        return answer

    def _rightly(self, gang: Gang, plan: Plan, state: Snapshot) -> None:
        """Nobody goes beyond what priorities allow, and what goes whole goes whole."""
        units: defaultdict[str, list[Any]] = defaultdict(list)
        for victim in plan.victims:
            pod = present(victim, state)
            if pod is None:
                raise Broken(f"{victim.name} is a victim and not there")
            if pod.priority >= plan.priority or pod.namespace == "kube-system":
                raise Broken(f"{pod.key} ({pod.priority}) goes for {gang.key} ({plan.priority})")
            units[victim.unit or victim.uid].append(victim)
        running = [v.name for v in plan.victims if v.namespace == HONEST]
        if running and len(running) != 2:
            raise Broken(f"the honest gang is broken by {gang.key}: {running}")
        if len(state.budgets) > MOST_BUDGETS and plan.priority < SYSTEM_CRITICAL:
            guarded = [v.name for v in plan.victims if v.namespace == TENANT and self._guarded(v)]
            if guarded:
                raise Broken(f"{guarded} go, though their budgets are not read")
        gangs, protections = KeptGangs(self.resolver), Protections(SETTINGS)
        self._within_budgets(gang, plan, state, protections)
        for unit in units.values():
            why = unit_problem(unit, plan.priority, state, gangs, protections)
            if why:
                raise Broken(f"a plan for {gang.key} that its last check refuses: {why}")

    def _guarded(self, victim: Victim) -> bool:
        """Whether the Eviction API looks for budgets of a victim that may be spared."""
        pod = self.store.pods.by_uid[victim.uid]
        return not (pod.deleting or pod.phase == "Pending")

    def _within_budgets(
        self, gang: Gang, plan: Plan, state: Snapshot, protections: Protections
    ) -> None:
        """The Eviction API would let all of them go, where budgets of their namespace count."""
        for budget in state.budgets:
            if not protections.budget_counts(budget.namespace, plan.priority, state):
                continue
            there = (present(victim, state) for victim in plan.victims)
            asked = [
                pod.name
                for pod in there
                if pod is not None
                and pod.namespace == budget.namespace
                and matches(budget.selector, pod.labels)
                and pod.phase == "Running"
                and not pod.deleting
                and not (pod.unready and budget.unready_free)
            ]
            if len(asked) > budget.allowed:
                told = f"{asked} of budget {budget.name} ({budget.allowed}) go for {gang.key}"
                raise Broken(told)

    def _briefly(self, gang: Gang, refusal: Refusal) -> None:
        names = list(NODES)
        pod = gang.members[0]
        result = hold_back(names, f"{refusal.gang}: {refusal.message}")
        size = len(encode_filter_result(result, FilterArgs(pod, names)))
        told = len(refusal.message) + sum(map(len, refusal.details))
        if size > len(names) * 400 or told > 64 * 1024:
            raise Broken(f"the answer to {gang.key} has {size} bytes, its reasons {told}")

    def _system(self, state: Snapshot) -> None:
        """A system-critical pod can always preempt."""
        (system,) = (pod for pod in state.pending.values() if pod.namespace == "kube-system")
        answer = self._ask(single_gang(system), state)
        if isinstance(answer, Refusal):
            self._rightly_refused(answer, state, system.priority, system)

    def _rightly_refused(
        self, refusal: Refusal, state: Snapshot, asked: int, single: Pod | None = None
    ) -> None:
        """Whoever is refused would be so if of the tenant's pods there were only those that may
        rightly stay: more urgent ones, and those that end already, in the time of a victim."""
        stays = [pod for pod in self._pods(state) if self._may_stay(pod, state, asked)]
        pending = [pod for pod in state.pending.values() if pod.namespace != TENANT]
        less = assemble(
            self.resolver.member_key,
            nodes=state.nodes.values(),
            pods=[*stays, *pending],
            groups=state.groups.values(),
            priority_classes=state.priority_classes.values(),
            namespaces=state.namespaces,
            now=state.now,
        )
        gang = single_gang(single) if single else self.resolver.resolve(refusal.gang, less)
        answer = Planner(SETTINGS, self.resolver).plan(GangQuestion(gang, less))
        if isinstance(answer, Plan):
            raise Broken(f"{gang.key} is refused: {refusal.message}; {refusal.details}")

    @staticmethod
    def _ends(pod: Pod) -> bool:
        """Whether a pod terminates in a time that it may have as a victim, or should be gone."""
        return bool(pod.deleting) and pod.deleting - NOW <= max(60, min(pod.grace, 3600) + 30)

    def _pods(self, state: Snapshot) -> Iterator[Pod]:
        for pods in state.bound.values():
            yield from pods

    def _may_stay(self, pod: Pod, state: Snapshot, asked: int) -> bool:
        if pod.namespace != TENANT or pod.priority >= asked or self._ends(pod):
            return True
        if pod.owner is not None and pod.owner.kind == "DaemonSet" and asked < SYSTEM_CRITICAL:
            return True
        key = self.resolver.member_key(pod)
        if key is None or key.dialect != "pod-group":
            return False
        stated = state.groups.get(("core", key.namespace, pod.pod_group))
        if stated is None:
            return False
        chain = chain_of(stated, state.groups)
        return (chain.rows[-1].priority or 0) >= asked
