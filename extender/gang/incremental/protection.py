"""What keeps a pod from being a victim other than its priority, and against whom it counts.

Four kinds: what the administrator has set (protected namespaces, a least run time, what a
PriorityClass tolerates, static pods), what the API server has refused lately, that it was evicted
before (extender.gang.plan.evicted_before), and what the pod's owner has asked for. The last counts
as far as the administrator's policy lets it (extender.settings.policy), and never against
system-critical priorities.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from extender.fit.disruption_budgets import guarded
from extender.fit.selectors import Labels, matches
from extender.gang.incremental.enforcement import NOT_ENFORCED, Enforcement
from extender.gang.incremental.victims import lingers
from extender.model.gang import Gang
from extender.model.objects import LabelSelector, Pod
from extender.model.opt_outs import LABEL_KEYS, opt_outs
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.search.census import STAYS
from extender.settings.policy import (
    BUDGET,
    DAEMON_SET,
    KEYS,
    SYSTEM_CRITICAL,
    OptOutRule,
)
from extender.settings.settings import Settings

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""On what the API server shows of a static pod: to delete it ends nothing on the node. Neither
that nor an owner of kind Node alone says so: whoever creates a pod may write both. What a kubelet
creates is owned by its own node, UID included (NodeRestriction sees to it, KEP-1314)."""
BUDGET_REFUSED = "a disruption budget refuses it: "
"""How a remembered refusal begins that came from a budget."""


class Shield(NamedTuple):
    """One reason for a pod to stay."""

    why: str
    below: int
    """Counts against preemptors of a priority below this; STAYS: against everybody."""
    until: float = inf
    """Holds until then (excluded) at least."""
    gang: bool = False
    """In a gang that goes whole, the whole gang stays with it."""


NO_SHIELDS: tuple[Shield, ...] = ()


class Protections:
    """Answers for one configuration. Keeps nothing of the cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._plan = settings.plan
        self._by_class = settings.fairness.min_runtime_seconds
        self._enforcement = Enforcement(settings.enforce)
        self._rules = {key: settings.policy.rule(key) for key in KEYS}
        self._selectors: dict[str, LabelSelector | None] = {
            key: None if rule.namespaces is None else rule.namespaces.selector()
            for key, rule in self._rules.items()
        }

    def shields(
        self,
        pod: Pod,
        snapshot: Snapshot,
        *,
        budgets: int = 0,
        started: float | None = None,
        gang: Gang | None = None,
    ) -> Sequence[Shield]:
        """Return why the pod stays, but for its priority; hardly any pod has a reason.

        ``budgets``: how many disruption budgets match it. ``started``: since when what it
        belongs to runs; its own start if not given. ``gang``: what it goes with as a victim.
        """
        plan, owner = self._plan, pod.owner
        if (
            budgets < 2
            and (gang is None or gang.budget is None)
            and not pod.annotations
            and (owner is None or owner.kind != "DaemonSet")
            and not self._least_runs(pod)
            and not _tolerates(pod, snapshot)
            and not snapshot.unevictable
            and not snapshot.stayed
            and not snapshot.spared
            and LABEL_KEYS.isdisjoint(pod.labels)
            and self._enforcement.everybody
            and pod.namespace not in plan.protected_namespaces
        ):
            return NO_SHIELDS  # asked of every pod, and hardly any goes on from here
        found = self._administrators(pod, snapshot, started)
        found += self._refusals(pod, snapshot)
        found += self._owners(pod, snapshot, budgets, gang)
        return [shield for shield in found if shield.below > -SYSTEM_CRITICAL]

    def _administrators(self, pod: Pod, snapshot: Snapshot, started: float | None) -> list[Shield]:
        """Return what the configuration and the pod's PriorityClass shield it by, and that it is
        static."""
        found: list[Shield] = []
        if pod.namespace in self._plan.protected_namespaces:
            found.append(Shield(f"namespace {pod.namespace} is protected", STAYS, gang=True))
        if not self._enforcement.may_evict(pod.namespace, snapshot):
            found.append(Shield(NOT_ENFORCED.format(pod.namespace), STAYS, gang=True))
        if pod.annotations and MIRROR_ANNOTATION in pod.annotations and _static(pod, snapshot):
            found.append(Shield("a static pod cannot be evicted through the API", STAYS))
        least = self._least_runs(pod)
        if least:
            since = pod.started if started is None else started
            age = snapshot.now - since
            if since and age < least:
                why = f"runs for {age:.0f} s, less than minRuntimeSeconds"
                found.append(Shield(why, STAYS, since + least))
        tolerated = _tolerated(pod, snapshot, started)
        if tolerated is not None:
            found.append(tolerated)
        return found

    def _refusals(self, pod: Pod, snapshot: Snapshot) -> list[Shield]:
        """Return what shields it since it, or its like, was to be evicted before."""
        found: list[Shield] = []
        refused = snapshot.unevictable.get(pod.uid) if snapshot.unevictable else None
        if refused is not None:
            below = STAYS
            if refused.startswith(BUDGET_REFUSED):
                below = self._below(BUDGET, pod.namespace, snapshot)
            why = f"its eviction was refused: {refused}"
            found.append(Shield(why, below, gang=True))
        spared = snapshot.spared.get(pod.uid) if snapshot.spared else None
        if spared is not None and snapshot.now < spared.until:
            found.append(Shield(spared.why, spared.below, spared.until, gang=spared.gang))
        if pod.namespace in snapshot.stayed:
            found.append(Shield(snapshot.stayed[pod.namespace], STAYS, gang=True))
        return found

    def _owners(
        self, pod: Pod, snapshot: Snapshot, budgets: int, gang: Gang | None
    ) -> list[Shield]:
        """Return what budgets and whoever owns the pod shield it by, as far as policy lets them."""
        found: list[Shield] = []
        plan, owner = self._plan, pod.owner
        if budgets > 1 and guarded(pod) and plan.pdb_policy == "respect":
            these = counted(budgets, "disruption budget", "matches", "match")
            why = f"{these} it: the Eviction API refuses it"
            if budgets > plan.budgets_per_namespace:
                # No number that changes: a message that does is told again and again.
                why = (
                    f"namespace {pod.namespace} has more PodDisruptionBudgets, or more values in "
                    f"their selectors, than are read (plan.budgetsPerNamespace: "
                    f"{plan.budgets_per_namespace}): none of its pods is evicted"
                )
            found.append(Shield(why, self._below(BUDGET, pod.namespace, snapshot), gang=True))
        if owner is not None and owner.kind == "DaemonSet" and not plan.evict_daemon_set_pods:
            why = "its DaemonSet creates it again on its node"
            found.append(self._opted(DAEMON_SET, pod, snapshot, why))
        for key, said in opt_outs(pod.labels, pod.annotations):
            found.append(self._opted(key, pod, snapshot, said))
        if gang is not None and gang.budget is not None and pod.uid in gang.kept:
            few = len(gang.bound) - len(gang.kept)
            those = f"{few} of {counted(len(gang.bound), 'pod')}"
            why = f"{gang.budget} of its gang allows {those} to be evicted"
            found.append(self._opted(gang.budget.key, pod, snapshot, why))
        return found

    def why(
        self,
        pod: Pod,
        snapshot: Snapshot,
        asked: int,
        *,
        budgets: int = 0,
        started: float | None = None,
        gang: Gang | None = None,
        begun: bool = False,
    ) -> str:
        """Return why the pod stays for a preemptor of priority ``asked``, "" when it need not.

        ``begun``: a pod that goes with it has gone by our hand. Nothing that ends with time spared
        it then, and a clock that was set back brings none of that again.
        """
        for shield in self.shields(pod, snapshot, budgets=budgets, started=started, gang=gang):
            if begun and shield.until < inf:
                continue
            if asked < shield.below:
                return shield.why
        return ""

    def _least_runs(self, pod: Pod) -> float:
        """Return for how many seconds the pod runs before it may be a victim."""
        by_class, every = self._by_class, self._plan.min_runtime_seconds
        return by_class.get(pod.priority_class, every) if by_class else every

    def leaves(self, pod: Pod, now: float) -> bool:
        """Whether the pod is on its way out already, and its eviction would not end it sooner."""
        settings = self._settings
        return bool(pod.deleting) and not lingers(
            pod, now, settings.plan, settings.seats, settings.eviction
        )

    def budget_counts(self, namespace: str, asked: int, snapshot: Snapshot) -> bool:
        """Whether a preemptor of priority ``asked`` may not exceed the namespace's budgets."""
        return self._plan.pdb_policy == "respect" and asked < self._below(
            BUDGET, namespace, snapshot
        )

    def _opted(self, key: str, pod: Pod, snapshot: Snapshot, why: str) -> Shield:
        rule: OptOutRule = self._rules[key]
        below = self._below(key, pod.namespace, snapshot)
        return Shield(why, below, gang=rule.shields == "gang")

    def _below(self, key: str, namespace: str, snapshot: Snapshot) -> int:
        """Below which priority preemptors are kept off; least of all where it does not count."""
        selector = self._selectors[key]
        labels: Labels = snapshot.namespaces.get(namespace) or {}
        if selector is None or not matches(selector, labels):
            return -SYSTEM_CRITICAL
        return self._rules[key].preemptors_below


def _static(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether a pod with the mirror annotation mirrors a static pod of its node."""
    owner, node = pod.owner, snapshot.nodes.get(pod.node)
    if owner is None or owner.kind != "Node" or owner.name != pod.node:
        return False
    # A node that was made anew has another UID than its kubelet's pods, until it renews them. No
    # tenant has pods as urgent as those of a control plane.
    return node is None or owner.uid == node.uid or pod.priority >= SYSTEM_CRITICAL


def _tolerates(pod: Pod, snapshot: Snapshot) -> int:
    """Return for how many seconds the pod's class tolerates preemptors; below 0 for ever."""
    known = snapshot.priority_classes.get(pod.priority_class)
    return 0 if known is None else known.tolerates_seconds


def _tolerated(pod: Pod, snapshot: Snapshot, started: float | None) -> Shield | None:
    """Return what the pod's PriorityClass shields it by (model.preemption_toleration).

    A pod that has not started counts from its creation: one that never does is not spared for ever.
    """
    known = snapshot.priority_classes.get(pod.priority_class)
    if known is None or known.preemptable_from is None:
        return None
    why = f"its PriorityClass {known.name} tolerates preemptors below {known.preemptable_from}"
    seconds = known.tolerates_seconds
    if seconds < 0:
        return Shield(why, known.preemptable_from)
    since = (pod.started if started is None else started) or pod.created
    if snapshot.now >= since + seconds:
        return None
    why += f" for the first {seconds} s"
    return Shield(why, known.preemptable_from, since + seconds)


def asked_to_stay(pod: Pod) -> str:
    """Return by what the pod opts out, whether that counts or not; "" when by nothing."""
    found = opt_outs(pod.labels, pod.annotations)
    return found[0][1] if found else ""


def oldest_start(gang: Gang) -> float:
    """Return since when a gang that goes whole runs: one pod that came later is not its youth."""
    return min((pod.started for pod in gang.bound if pod.started), default=0.0)
