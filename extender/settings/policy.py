"""What an administrator lets tenants decide: who may opt out of being preempted, and against whom.

A tenant writes the labels, annotations, budgets and DaemonSets of a namespace of its own. Each of
these can keep its pods from going, at the expense of everybody more urgent, so whether it counts
is not the tenant's to say. It never counts against system-critical priorities: kube-scheduler
knows none of these keys, and takes a PodDisruptionBudget as a wish.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from extender.model.names import label_key_problem, label_value_problem
from extender.model.objects import LabelSelector, Requirement
from extender.model.opt_outs import KEYS as OPT_OUT_KEYS
from extender.model.owner_budget import BUDGET_KEYS
from extender.model.texts import counted

SYSTEM_CRITICAL = 2_000_000_000
"""scheduling.k8s.io SystemCriticalPriority: no class of a user's own can have it or more."""
OPT_OUT_NAMESPACE_LABEL = "podgroup-extender.io/opt-out"
"""On a namespace: ``allowed`` lets its pods opt out, as long as the configuration says nothing."""
DAEMON_SET = "DaemonSet"
BUDGET = "PodDisruptionBudget"
DEFAULT = "default"
KEYS = (DEFAULT, DAEMON_SET, BUDGET, *OPT_OUT_KEYS, *BUDGET_KEYS)
"""What policy.optOut may name."""


class Section(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every section."""


class Expression(Section, frozen=True, kw_only=True):
    """One entry of matchExpressions."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class NamespaceSelector(Section, frozen=True, kw_only=True):
    """A metav1.LabelSelector on namespaces; without any requirement it selects all."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Expression, ...] = ()

    def selector(self) -> LabelSelector:
        """Return it as requirements."""
        exact = [Requirement(key, "In", (value,)) for key, value in self.match_labels.items()]
        others = [Requirement(e.key, e.operator, e.values) for e in self.match_expressions]
        return LabelSelector((*exact, *others))


class OptOutRule(Section, frozen=True, kw_only=True):
    """For whom, and against whom, one way to opt out counts."""

    namespaces: NamespaceSelector | None = field(
        default_factory=lambda: NamespaceSelector(match_labels={OPT_OUT_NAMESPACE_LABEL: "allowed"})
    )
    """Namespaces whose pods may opt out. {}: all. null: none."""
    preemptors_below: int = SYSTEM_CRITICAL
    """The opt-out counts against preemptors below this priority."""
    shields: Literal["pod", "gang"] = "pod"
    """In a gang that is evicted as a whole: whether the pod alone stays (pod), or its whole gang
    (gang)."""


EVERYBODY = OptOutRule(namespaces=NamespaceSelector())
WHOLE_GANGS = OptOutRule(namespaces=NamespaceSelector(), shields="gang")
"""Everybody may opt out, and whoever does keeps its whole gang."""


class PolicySettings(Section, frozen=True, kw_only=True):
    """What tenants may decide about others' preemption."""

    opt_out: dict[str, OptOutRule] = field(default_factory=dict)
    """Way to opt out: its rule. The ways are DaemonSet, PodDisruptionBudget and the known labels
    and annotations; default stands for those that are not named."""

    def rule(self, key: str) -> OptOutRule:
        """Return the rule for one way to opt out."""
        found = self.opt_out.get(key)
        if found is not None:
            return found
        if key == BUDGET:
            return WHOLE_GANGS
        if key == DAEMON_SET:
            return EVERYBODY
        return self.opt_out.get(DEFAULT) or OptOutRule()


def problems_of(policy: PolicySettings) -> list[str]:
    """Return what is wrong with a policy, in words; empty when it can be used."""
    wrong: list[str] = []
    for key, rule in policy.opt_out.items():
        where = f"policy.optOut[{key}]"
        if key not in KEYS:
            wrong.append(f"{where}: is no way to opt out (known: {', '.join(KEYS)})")
        if not -SYSTEM_CRITICAL <= rule.preemptors_below <= SYSTEM_CRITICAL:
            wrong.append(
                f"{where}.preemptorsBelow must be at most {SYSTEM_CRITICAL}: no pod opts out "
                "against system-critical priorities"
            )
        if key == BUDGET and rule.shields != "gang":
            wrong.append(
                f"{where}.shields must be gang: a budget counts all pods that are evicted together"
            )
        wrong += selector_problems(f"{where}.namespaces", rule.namespaces)
    return wrong


def selector_problems(where: str, chosen: NamespaceSelector | None) -> list[str]:
    """Return what is wrong with a selector at ``where``, in words."""
    wrong: list[str] = []
    if chosen is None:
        return wrong
    for key, value in chosen.match_labels.items():
        wrong += [f"{where}.matchLabels: {why}" for why in (label_key_problem(key),) if why]
        wrong += [f"{where}.matchLabels: {why}" for why in (label_value_problem(value),) if why]
    for each in chosen.match_expressions:
        place = f"{where}.matchExpressions"
        wrong += [f"{place}: {why}" for why in (label_key_problem(each.key),) if why]
        if (each.operator in ("In", "NotIn")) != bool(each.values):
            many = counted(len(each.values), "value")
            wrong.append(f"{place}: operator {each.operator} with {many}")
    return wrong
