"""What a tenant may create in a namespace of its own, as JSON the API server accepts.

Hypothesis strategies. Sizes, values and counts are as strange as API validation lets them be;
what only controllers or administrators write (status of others, priorities of no class) is not
here, but for what the system itself would have written by then: nodes, start times, deletions.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Obj = dict[str, Any]
TENANT = "tenant"
NODES = tuple(f"n{i}" for i in range(6))
CLASSES = {"": 0, "low": 1, "middle": 999, "urgent": 1000, "highest": 1_000_000_000}
"""Priority class of users -> value; 1000000000 is the most a user's class can have."""
NAMES = ("a", "b", "work", "running")
ENDS = (-3600, -10, 20, 300, 2000, 10 * 365 * 86400)
"""When terminating pods end, in seconds from now; kube-apiserver writes what DELETE asks for."""
TEN_YEARS = 10 * 365 * 86400
GANG_LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io/name",
    "jobset.sigs.k8s.io/jobset-name",
    "skypilot-cluster-name",
)
HOSTNAME = "kubernetes.io/hostname"

DEEP = '[{"name":"a","minMember":1,"x":' + "[" * 1500 + "]" * 1500 + "}]"
STATED = ("1", "2", "3", "0", "-1", "many", "9" * 10, "2147483648")
OTHERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ray": (("ray.io/cluster", "ray.io/node-type"), ()),
    "spark": (("spark-app-selector", "spark-role"), ()),
    "lws": (
        ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
        ("leaderworkerset.sigs.k8s.io/size",),
    ),
    "kueue": (
        ("kueue.x-k8s.io/pod-group-name",),
        ("kueue.x-k8s.io/pod-group-total-count",),
    ),
    "koordinator": ((), ("gang.scheduling.koordinator.sh/min-available",)),
    "yunikorn": (("applicationId",), ()),
    "volcano": ((), ()),
    "kai": ((), ()),
}
"""Another system -> labels that name a gang, annotations that state its size."""

texts = st.one_of(
    st.sampled_from(("", "true", "false", "non-preemptible", "rack", HOSTNAME, "a b", "ä" * 50)),
    st.text(max_size=20),
    st.integers(1, 250_000).map(lambda n: "x" * n),
)
label_values = st.sampled_from(("", "true", "false", "non-preemptible", "yes", "a", "x" * 63))
topology_keys = st.sampled_from((HOSTNAME, "rack", "absent", "example.com/zone"))
counts = st.sampled_from((1, 1, 2, 3, 4, 50, 2**31 - 1))


@st.composite
def labels(draw: st.DrawFn) -> Obj:
    """Gang names, ways to opt out, and many of no meaning now and then."""
    found: Obj = {}
    for key in draw(st.lists(st.sampled_from(GANG_LABELS), max_size=2, unique=True)):
        found[key] = draw(st.sampled_from(NAMES))
    if "pod-group.scheduling.sigs.k8s.io/name" in found and draw(st.booleans()):
        found["pod-group.scheduling.sigs.k8s.io/min-available"] = draw(
            st.sampled_from(("1", "2", "3", "0", "-1", "many", "9" * 63))
        )
    optional = {
        "quota.scheduling.koordinator.sh/preemptible": label_values,
        "scheduling.koordinator.sh/disable-preemptible": label_values,
        "kai.scheduler/preemptibility": label_values,
        "batch.kubernetes.io/job-completion-index": label_values,
        "app": label_values,
    }
    for key, values in optional.items():
        if draw(st.integers(0, 3)) == 0:
            found[key] = draw(values)
    if draw(st.integers(0, 19)) == 0:
        found.update((f"l{i}", "") for i in range(draw(st.sampled_from((100, 3000)))))
    return found


@st.composite
def marks_of_others(draw: st.DrawFn) -> tuple[Obj, Obj]:
    """Labels and annotations by which another system names a gang and states its size."""
    system = draw(st.sampled_from(tuple(OTHERS)))
    named, sized = OTHERS[system]
    name = draw(st.sampled_from(NAMES))
    labels: Obj = dict.fromkeys(named, name)
    notes: Obj = {key: draw(st.sampled_from(STATED)) for key in sized}
    if draw(st.booleans()):
        notes["podgroup-extender.io/gang-size"] = draw(st.sampled_from(STATED))
    if system == "koordinator":
        notes["gang.scheduling.koordinator.sh/name"] = name
        listed = [f"{space}/{each}" for space in (TENANT, "honest") for each in NAMES]
        lists = ("[" * 4000, json.dumps(listed), json.dumps(listed * 20), "[1e999]")
        notes["gang.scheduling.koordinator.sh/groups"] = draw(st.sampled_from(lists))
    elif system == "yunikorn":
        groups = (DEEP, '[{"name":"a","minMember":2}]', '[{"name":"a","minMember":1e99}]')
        notes["yunikorn.apache.org/task-groups"] = draw(st.sampled_from(groups))
    elif system == "volcano":
        notes["scheduling.k8s.io/group-name"] = name
    elif system == "kai":
        notes["pod-group-name"] = name
    return labels, notes


annotation_sets = st.dictionaries(
    st.sampled_from(
        (
            "podgroup-extender.io/protected",
            "volcano.sh/preemptable",
            "yunikorn.apache.org/allow-preemption",
            "podgroup-extender.io/required-topology",
            "podgroup-extender.io/preferred-topology",
            "kueue.x-k8s.io/podset-preferred-topology",
            "podgroup-extender.io/last-checkpoint",
            "batch.kubernetes.io/job-completion-index",
        )
    ),
    texts,
    max_size=3,
)
quantities = st.sampled_from(
    ("0", "1m", "100m", "999m", "1", "1.5", "3", "7001m", "16", "1e3", "1Ki", "0.5Gi", "7E", "1n")
)
resources = st.dictionaries(
    st.sampled_from(("cpu", "memory", "example.com/gpu", "example.com/none", "ephemeral-storage")),
    quantities,
    max_size=3,
)
selectors: st.SearchStrategy[Obj] = st.one_of(
    st.just({}),
    st.sampled_from(("", "yes", "a")).map(lambda value: {"matchLabels": {"app": value}}),
    st.sampled_from(("Exists", "DoesNotExist")).map(
        lambda how: {"matchExpressions": [{"key": "app", "operator": how}]}
    ),
    st.integers(1, 400).map(
        lambda n: {
            "matchExpressions": [
                {"key": "app", "operator": "NotIn", "values": [str(i) for i in range(n)]}
            ]
        }
    ),
)
EVERYWHERE: Obj = {}


@st.composite
def constraints(draw: st.DrawFn) -> Obj:
    """Where the pod may go, and whom it keeps away."""
    spec: Obj = {}
    affinity: Obj = {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for kind in ("podAffinity", "podAntiAffinity"):
        if draw(st.integers(0, 5)) == 0:
            term: Obj = {"topologyKey": draw(topology_keys), "labelSelector": draw(selectors)}
            if draw(st.booleans()):
                term["namespaceSelector"] = EVERYWHERE
            affinity[kind] = {required: [term] * draw(st.sampled_from((1, 1, 30)))}
    if draw(st.integers(0, 5)) == 0:
        values = list(draw(st.sampled_from((NODES[:1], NODES, ("nowhere",)))))
        values += [f"v{i}" for i in range(draw(st.sampled_from((0, 0, 3000))))]
        how = draw(st.sampled_from(("In", "NotIn")))
        expression: Obj = {"key": HOSTNAME, "operator": how, "values": values}
        affinity["nodeAffinity"] = {
            required: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        }
    if affinity:
        spec["affinity"] = affinity
    if draw(st.integers(0, 5)) == 0:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": draw(topology_keys),
                "maxSkew": draw(counts),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": draw(selectors),
            }
        ]
    if draw(st.integers(0, 5)) == 0:
        how_many = draw(st.sampled_from((1, 500)))
        spec["tolerations"] = [{"key": f"t{i}", "operator": "Exists"} for i in range(how_many)]
    return spec


owners = st.sampled_from(("DaemonSet", "Job", "Node", "ReplicaSet")).flatmap(
    lambda kind: st.sampled_from(("mine", "x" * 300, "x" * 100_000)).map(
        lambda name: [
            {"apiVersion": "v1", "kind": kind, "name": name, "uid": "owner", "controller": True}
        ]
    )
)


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    """A template; the world gives its copies names, and bound ones their nodes."""
    cls = draw(st.sampled_from(tuple(CLASSES)))
    requests = draw(resources)
    if draw(st.booleans()):
        requests["cpu"] = draw(st.sampled_from(("3", "7", "9")))
    container: Obj = {"name": "c", "resources": {"requests": requests}}
    sidecars = [
        {
            "name": f"s{number}",
            "restartPolicy": "Always",
            "resources": {"requests": {f"example.com/r{number}": "1"}},
        }
        for number in range(draw(st.sampled_from((0,) * 18 + (2, 300))))
    ]
    if draw(st.integers(0, 5)) == 0:
        container["ports"] = [{"containerPort": 80, "hostPort": draw(st.sampled_from((80, 443)))}]
    spec: Obj = {
        "containers": [container],
        "initContainers": sidecars,
        "priority": CLASSES[cls],
        "priorityClassName": cls,
        "preemptionPolicy": draw(st.sampled_from(("PreemptLowerPriority",) * 3 + ("Never",))),
        "schedulerName": draw(st.sampled_from(("default-scheduler",) * 3 + ("x" * 2000,))),
        "terminationGracePeriodSeconds": draw(st.sampled_from((0, 30, TEN_YEARS))),
        **draw(constraints()),
    }
    if draw(st.integers(0, 9)) == 0:
        spec["schedulingGates"] = [{"name": "mine"}]
    if draw(st.integers(0, 2)) == 0:
        spec["schedulingGroup"] = {"podGroupName": draw(st.sampled_from(NAMES))}
    meta: Obj = {"labels": draw(labels()), "annotations": draw(annotation_sets)}
    if draw(st.integers(0, 2)) == 0:
        of_others, notes = draw(marks_of_others())
        meta["labels"] |= of_others
        meta["annotations"] |= notes
    if draw(st.integers(0, 4)) == 0:
        meta["ownerReferences"] = draw(owners)
    if draw(st.integers(0, 9)) == 0:
        meta["finalizers"] = ["example.com/never"]
    return {
        "pod": {"metadata": meta, "spec": spec},
        "copies": draw(st.sampled_from((1, 1, 2, 4, 12))),
        "differ": draw(st.integers(0, 5)) == 0,
        "bound": draw(st.integers(0, 2)) > 0,
        "ends": draw(st.integers(0, 9)) == 0 and draw(st.sampled_from(ENDS)),
        "mirror": draw(st.integers(0, 9)) == 0,
        "first": draw(st.integers(0, len(NODES) - 1)),
    }


@st.composite
def groups(draw: st.DrawFn) -> Obj:
    """A PodGroup of scheduling.k8s.io."""
    cls = draw(st.sampled_from(tuple(CLASSES)))
    policy: Obj = {"gang": {"minCount": draw(counts)}} if draw(st.booleans()) else {"basic": {}}
    spec: Obj = {
        "schedulingPolicy": policy,
        "disruptionMode": draw(st.sampled_from(({"all": {}}, {"single": {}}))),
    }
    if cls:
        spec |= {"priorityClassName": cls, "priority": CLASSES[cls]}
    if draw(st.integers(0, 4)) == 0:
        spec["schedulingConstraints"] = {"topology": [{"key": draw(topology_keys)}]}
    return {"group": {"metadata": {"name": draw(st.sampled_from(NAMES))}, "spec": spec}}


member_groups = st.builds(
    lambda name, least: {"member": {"metadata": {"name": name}, "spec": {"minMember": least}}},
    st.sampled_from(NAMES),
    counts,
)
budgets = st.builds(
    lambda name, chosen, allowed: {
        "budget": {
            "metadata": {"name": name},
            "spec": {"selector": chosen, "maxUnavailable": allowed},
            "status": {"disruptionsAllowed": allowed},
        }
    },
    st.sampled_from(("x", "y")),
    selectors,
    st.integers(0, 2),
)


@st.composite
def shielded(draw: st.DrawFn) -> Obj:
    """A gang all over the cluster, and one small member that is anything it may be."""
    name = {draw(st.sampled_from(GANG_LABELS[1:])): draw(st.sampled_from(NAMES))}
    if "pod-group.scheduling.sigs.k8s.io/name" in name:
        name["pod-group.scheduling.sigs.k8s.io/min-available"] = "2"
    cls = draw(st.sampled_from(("", "low", "middle")))
    many: Obj = {
        "pod": {
            "metadata": {"labels": name},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "7"}}}],
                "priority": CLASSES[cls],
            },
        },
        "copies": len(NODES),
        "differ": False,
        "bound": True,
        "ends": False,
        "first": 0,
    }
    small = draw(pods())
    small["pod"]["metadata"]["labels"].update(name)
    small |= {"bound": True, "copies": 1, "ends": False, "differ": False}
    small["pod"]["spec"]["containers"] = [{"name": "c"}]
    return {"several": [many, small]}


steps = st.one_of(pods(), pods(), pods(), shielded(), groups(), member_groups, budgets)
attacks = st.tuples(st.booleans(), st.lists(steps, min_size=1, max_size=8))
"""Whether the administrator lets the tenant opt out, and what it creates, in order."""
