"""Rules of ``check`` on kube-scheduler as a whole."""

from __future__ import annotations

from extender.cli.rule import Rule

SCHEDULER_RULES = {
    "not-configured": Rule(
        "error",
        "kube-scheduler never calls preempt, so it evicts pod by pod as if nothing were installed",
        "add the entry of manifests/kube-scheduler-config.yaml, or name ours with --extender-url",
    ),
    "preempt-after": Rule(
        "error",
        "it gets our answer and may put victims back in: pods are evicted that no plan contains",
        "{move}",
    ),
    "preempt-other": Rule(
        "warning",
        "it may remove the nodes that a plan counts on; the plan is then made again",
        "remove its preemptVerb unless it must protect pods of its own",
    ),
    "filter-after": Rule(
        "warning",
        "a node it refuses looks free to us, so a plan may promise a seat there that cannot be "
        "taken",
        "{move}",
    ),
    "percentage-of-nodes": Rule(
        "hint",
        "every node is filtered for every pod, which this extender does not need: members reach "
        "their seats by nomination. At 3,000 nodes kube-scheduler then places a third as many pods",
        "leave percentageOfNodesToScore out, unless scores should compare all nodes",
    ),
    "filter-before": Rule(
        "hint",
        "above 100 nodes a list that it has shortened looks complete to us although kube-scheduler "
        "has sampled: a plan may then pass over free nodes and evict more than it has to",
        "nothing, if it removes few nodes; else percentageOfNodesToScore: 100",
    ),
    "default-preemption-off": Rule(
        "warning",
        "preempt is never called: gangs are still planned for from filter and from the controller "
        "loop, but no single pod can preempt any more",
        "leave DefaultPreemption enabled; it asks this extender before it evicts",
    ),
    "coscheduling": Rule(
        "warning",
        "members that wait at its Permit hold room that the API does not show, so a plan may count "
        "on that room; and it rejects gangs by its own rules",
        "take Coscheduling out of this profile, and keep its CRD: its PodGroups are read "
        "(docs/migrate.md)",
    ),
    "candidate-nodes": Rule(
        "hint",
        "above 100 nodes a preempting pod shows us a random part of the candidates; for a single "
        "pod the node that breaks no gang may not be among them",
        "set minCandidateNodesPercentage: 100 there, at the price of a dry run on every node for "
        "each preempting pod",
    ),
    "scheduler-name": Rule(
        "warning",
        "its gangs are never planned for, although it asks for every pod",
        "add {name} to schedulerNames, or leave schedulerNames out to serve all",
    ),
    "scheduler-unknown": Rule(
        "warning",
        "its gangs are planned for, but a scheduler without the extender places others on their "
        "nodes",
        "check that scheduler's configuration too, or take the name out",
    ),
    "feature-gate": Rule(
        "error",
        "kube-scheduler then preempts for pod groups by itself, never asks preempt for their "
        "members and calls filter inside simulations",
        "{advice}",
    ),
    "gate-unknown": Rule(
        "error",
        "kube-scheduler refuses to start with a feature gate that it does not know, also where it "
        "is to be off",
        "leave it out of --feature-gates: what this release does not have is off",
    ),
    "config-flag": Rule(
        "error",
        "kube-scheduler reads no KubeSchedulerConfiguration, hence knows no extender",
        "add --config=/path/to/kube-scheduler-config.yaml and mount the file",
    ),
}
"""On kube-scheduler as a whole."""
