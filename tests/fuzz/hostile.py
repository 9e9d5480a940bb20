"""What a tenant may create in a namespace of its own, as JSON the API server accepts.

Hypothesis strategies. Sizes, values and counts are as strange as API validation lets them be;
what only controllers or administrators write (status of others, priorities of no class) is not
here, but for what the system itself would have written by then: nodes, start times, deletions.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from extender.groups.jobset import INDEX
from extender.model.owner_kinds import OTHER_KINDS

Obj = dict[str, Any]
TENANT = "tenant"
NODES = tuple(f"n{i}" for i in range(6))
CLASSES = {"": 0, "low": 1, "middle": 999, "urgent": 1000, "highest": 1_000_000_000}
"""Priority class of users -> value; 1000000000 is the most a user's class can have."""
COMPOSITES = ("c0", "c1", "a", "x" * 250)
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
OTHER_LABELS = {
    "kueue.x-k8s.io/pod-group-name": "",
    "pod-group.scheduling.sigs.k8s.io": "",
    "leaderworkerset.sigs.k8s.io/group-key": "",
    "training.kubeflow.org/job-name": "training.kubeflow.org/operator-name",
    "ray.io/cluster": "ray.io/node-type",
    "spark-app-selector": "spark-role",
    "yunikorn.apache.org/app-id": "",
}
"""Label that names a gang of another system -> the label that has to vouch for it, if any."""
SIZES = ("1", "2", "3", "4", "0", "-1", "many", "2147483647", "9" * 4000, "4.0", " 4")
TASK_GROUPS = "yunikorn.apache.org/task-groups"
GANG_GROUPS = "gang.scheduling.koordinator.sh/groups"
HOSTNAME = "kubernetes.io/hostname"
DEEP = '[{"name":"a","minMember":1,"x":' + "[" * 1500 + "]" * 1500 + "}]"
"""Task groups with more levels, in a field of no meaning, than the interpreter's stack takes."""
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
    for key in draw(st.lists(st.sampled_from(tuple(OTHER_LABELS)), max_size=1)):
        found[key] = draw(st.sampled_from(NAMES))
        if OTHER_LABELS[key] and draw(st.integers(0, 3)):
            found[OTHER_LABELS[key]] = draw(st.sampled_from(("mpi-operator", "driver", "a")))
    if "pod-group.scheduling.sigs.k8s.io/name" in found and draw(st.booleans()):
        found["pod-group.scheduling.sigs.k8s.io/min-available"] = draw(
            st.sampled_from(("1", "2", "3", "0", "-1", "many", "9" * 63))
        )
    optional = {
        "quota.scheduling.koordinator.sh/preemptible": label_values,
        "scheduling.koordinator.sh/disable-preemptible": label_values,
        "kai.scheduler/preemptibility": label_values,
        "volcano.sh/preemptable": label_values,
        "batch.kubernetes.io/job-completion-index": label_values,
        "app": label_values,
    }
    for key, values in optional.items():
        if draw(st.integers(0, 3)) == 0:
            found[key] = draw(values)
    if draw(st.integers(0, 19)) == 0:
        found.update((f"l{i}", "") for i in range(draw(st.sampled_from((100, 3000)))))
    return found


plain_annotations = st.dictionaries(
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
task_groups = st.one_of(
    st.lists(
        st.builds(
            lambda name, least: {"name": name, "minMember": least},
            st.sampled_from(NAMES),
            st.sampled_from((1, 2, 3, 0, -1, 2**31, 10**30, "2", None)),
        ),
        max_size=3,
    ).map(json.dumps),
    st.integers(1, 3000).map(lambda n: json.dumps([{"name": "a", "minMember": 1}] * n)),
    st.just(DEEP),
    texts,
)
gang_groups = st.one_of(
    st.lists(
        st.sampled_from(("tenant/a", "tenant/b", "tenant/work", "other/a", "a", "/", "tenant/")),
        max_size=5,
    ).map(json.dumps),
    st.integers(1, 3000).map(lambda n: json.dumps([f"tenant/a{i}" for i in range(n)])),
    texts,
)
names_or_texts = st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), texts)
sizes = st.one_of(st.sampled_from(SIZES), texts)
GANG_ANNOTATIONS: dict[str, st.SearchStrategy[str]] = {
    "scheduling.k8s.io/group-name": names_or_texts,
    "pod-group-name": names_or_texts,
    "kueue.x-k8s.io/pod-group-name": names_or_texts,
    "kueue.x-k8s.io/pod-group-total-count": sizes,
    "kueue.x-k8s.io/pod-group-fast-admission": label_values,
    "kueue.x-k8s.io/pod-group-serving": label_values,
    "gang.scheduling.koordinator.sh/name": names_or_texts,
    "gang.scheduling.koordinator.sh/min-available": sizes,
    GANG_GROUPS: gang_groups,
    "yunikorn.apache.org/app-id": names_or_texts,
    "yunikorn.apache.org/task-group-name": names_or_texts,
    TASK_GROUPS: task_groups,
    "leaderworkerset.sigs.k8s.io/size": sizes,
    "leaderworkerset.sigs.k8s.io/exclusive-topology": label_values,
    "podgroup-extender.io/gang-size": sizes,
}
"""Annotations that name or size a gang of some system -> what a tenant writes there."""


@st.composite
def gang_annotations(draw: st.DrawFn) -> Obj:
    """Some of them, of one system or of several at once."""
    keys = draw(st.lists(st.sampled_from(tuple(GANG_ANNOTATIONS)), max_size=4, unique=True))
    return {key: draw(GANG_ANNOTATIONS[key]) for key in keys}


annotation_sets = st.builds(
    lambda plain, gang: {**plain, **gang},
    plain_annotations,
    st.one_of(st.just({}), gang_annotations()),
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
        "squats": draw(st.integers(0, 4)) == 0,
        "apart": draw(st.sampled_from((None, None, HOSTNAME, "rack"))),
        "unready": draw(st.integers(0, 3)) == 0,
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
    if draw(st.integers(0, 2)):
        spec["parentCompositePodGroupName"] = draw(st.sampled_from(COMPOSITES))
    return {"group": {"metadata": {"name": draw(st.sampled_from(NAMES))}, "spec": spec}}


@st.composite
def composites(draw: st.DrawFn) -> Obj:
    """A CompositePodGroup, deleted at once now and then."""
    cls = draw(st.sampled_from(tuple(CLASSES)))
    policy: Obj = (
        {"gang": {"minGroupCount": draw(counts)}} if draw(st.booleans()) else {"basic": {}}
    )
    spec: Obj = {
        "schedulingPolicy": policy,
        "disruptionMode": draw(st.sampled_from(({"all": {}}, {"all": {}}, {"single": {}}))),
        "preemptionPolicy": draw(st.sampled_from(("PreemptLowerPriority",) * 3 + ("Never",))),
    }
    if cls:
        spec |= {"priorityClassName": cls, "priority": CLASSES[cls]}
    if draw(st.integers(0, 4)) == 0:
        spec["schedulingConstraints"] = {"topology": [{"key": draw(topology_keys)}]}
    if draw(st.integers(0, 2)) == 0:
        spec["parentCompositePodGroupName"] = draw(st.sampled_from(COMPOSITES))
    return {
        "composite": {"metadata": {"name": draw(st.sampled_from(COMPOSITES))}, "spec": spec},
        "gone": draw(st.integers(0, 5)) == 0,
    }


@st.composite
def trees(draw: st.DrawFn) -> Obj:
    """A tree whose groups have pods bound and pending."""
    found = [draw(composites()), draw(composites())]
    for _ in range(draw(st.integers(1, 3))):
        g = draw(groups())
        found.append(g)
        many = draw(pods())
        many["pod"]["spec"]["schedulingGroup"] = {"podGroupName": g["group"]["metadata"]["name"]}
        many["pod"]["metadata"]["labels"] = {}
        found.append(many)
    return {"several": draw(st.permutations(found))}


member_groups = st.builds(
    lambda name, least: {"member": {"metadata": {"name": name}, "spec": {"minMember": least}}},
    st.sampled_from(NAMES),
    counts,
)
budgets = st.builds(
    lambda name, chosen, allowed, policy, healthy: {
        "budget": {
            "metadata": {"name": name},
            "spec": {
                "selector": chosen,
                "maxUnavailable": allowed,
                "unhealthyPodEvictionPolicy": policy,
            },
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": 1,
            },
        }
    },
    st.sampled_from(("x", "y")),
    selectors,
    st.integers(0, 2),
    st.sampled_from(("IfHealthyBudget", "IfHealthyBudget", "AlwaysAllow")),
    st.integers(0, 1),
)
many_budgets = st.builds(
    lambda many, how, keys, pods, churn: {
        "budgets": {"many": many, "how": how, "keys": keys, "pods": pods},
        "churn": churn,
    },
    st.sampled_from((2, 40, 300)),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.integers(1, 10),
    st.sampled_from((1, 6, 40)),
    st.integers(0, 4),
)
"""Budgets that match all or none of the tenant's pods, each by several requirements; then one more
of them, and one pod more, as often as ``churn`` says."""


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


SOURCES = ("jobset", "job", "leader-worker-set", "ray-cluster", "pytorchjob", "mpijob", "workload")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
PARTS = ("w", "W", "lead", "Worker", "Master", "Launcher", "x" * 300)
ODD: tuple[Any, ...] = (0, -1, 2**31 - 1, 2**31, 2**63, 10**30, 1.5, "3", True, None, [], {})
numbers = st.one_of(
    st.sampled_from((1, 2, 3, 4, 12)), st.sampled_from((1, 2, 3, 50, 1024)), st.sampled_from(ODD)
)
flags = st.sampled_from((None, False, True, "true", 1))
lengths = st.sampled_from((1,) * 8 + (255, 256, 257, 3000))
"""How often an entry of a list is repeated."""


@st.composite
def templates(draw: st.DrawFn) -> Any:
    """A pod template, or what is none."""
    if draw(st.integers(0, 9)) == 0:
        none: tuple[Any, ...] = (None, [], "pod", 3, {"spec": []}, {"spec": {"containers": 1}})
        return draw(st.sampled_from(none))
    requests = draw(resources)
    if draw(st.booleans()):
        requests["cpu"] = draw(st.one_of(quantities, st.just("-7")))
    container = {"name": "c", "resources": {"requests": requests}}
    spec = {"containers": [container] * draw(st.sampled_from((1, 1, 40))), **draw(constraints())}
    return {"metadata": {"labels": draw(st.sampled_from(({}, {"app": "a"}, None)))}, "spec": spec}


def _repeated(entries: list[Any], times: int) -> list[Any]:
    return [*entries[1:], *entries[:1] * times]


@st.composite
def replicated_jobs(draw: st.DrawFn) -> Obj:
    """One entry of a JobSet's."""
    job = {
        "parallelism": draw(numbers),
        "completions": draw(numbers),
        "template": draw(templates()),
    }
    template: Obj = {"spec": job}
    if draw(st.integers(0, 3)) == 0:
        template["metadata"] = {"annotations": {EXCLUSIVE: draw(texts)}}
    found: Obj = {
        "name": draw(st.sampled_from(PARTS)),
        "replicas": draw(numbers),
        "template": template,
    }
    if draw(st.integers(0, 3)) == 0:
        before = [{"name": "lead", "status": "Ready"}]
        found["dependsOn"] = before * draw(st.sampled_from((0, 1, 99)))
    return found


@st.composite
def specs(draw: st.DrawFn, source: str) -> tuple[Any, Any]:
    """(spec, status) of an owner."""
    if draw(st.integers(0, 14)) == 0:
        return draw(st.sampled_from((None, [], "x", {}))), draw(st.sampled_from((None, [], {})))
    over = {"succeeded": draw(numbers)}
    spec: Obj
    if source == "jobset":
        jobs = _repeated(draw(st.lists(replicated_jobs(), max_size=3)), draw(lengths))
        order = draw(st.sampled_from(("InOrder", "AnyOrder", "", None, 1)))
        spec = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": order}}
        return spec | {"suspend": draw(flags)}, {"replicatedJobsStatus": [{"name": "w", **over}]}
    if source == "job":
        spec = {"parallelism": draw(numbers), "completions": draw(numbers), "suspend": draw(flags)}
        ended = {"type": draw(st.sampled_from(("Complete", "Failed", ""))), "status": "True"}
        conditions = [ended] * draw(st.sampled_from((0, 0, 0, 1, 3000)))
        return spec | {"template": draw(templates())}, over | {"conditions": conditions}
    if source == "leader-worker-set":
        workers = {"size": draw(numbers), "workerTemplate": draw(templates())}
        policy = draw(st.sampled_from(("LeaderReady", "LeaderCreated", "", 1)))
        return {"leaderWorkerTemplate": workers, "startupPolicy": policy}, {}
    if source == "ray-cluster":
        group = {
            "groupName": draw(st.sampled_from((*PARTS, None, 1))),
            **{
                key: draw(numbers)
                for key in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")
            },
            "suspend": draw(flags),
        }
        spec = {"workerGroupSpecs": [group] * draw(lengths), "suspend": draw(flags)}
        return spec | {"enableInTreeAutoscaling": draw(flags)}, {}
    if source == "workload":
        of = {"kind": draw(st.sampled_from(("WorkloadPriorityClass", "x", 1))), "name": draw(texts)}
        return {"priorityClassRef": of, "priority": draw(numbers)}, {}
    kind = "mpiReplicaSpecs" if source == "mpijob" else "pytorchReplicaSpecs"
    replicas: Obj = {
        name: {"replicas": draw(numbers), "template": draw(templates())}
        for name in draw(st.lists(st.sampled_from(PARTS), max_size=3, unique=True))
    }
    replicas |= {f"r{i}": {"replicas": 1} for i in range(draw(lengths) - 1)}
    least = {"schedulingPolicy": {"minAvailable": draw(numbers)}, "suspend": draw(flags)}
    spec = {kind: replicas, "runPolicy": least, "elasticPolicy": {"minReplicas": draw(numbers)}}
    after = draw(st.sampled_from(("WaitForWorkersReady", "AtStartup", 1)))
    return spec | {"launcherCreationPolicy": after}, {"replicaStatuses": {"Worker": over}}


@st.composite
def owner_owners(draw: st.DrawFn, source: str = "", name: str = "") -> Obj:
    """An object that makes pods; deleted again, now and then."""
    source = source or draw(st.sampled_from(SOURCES))
    spec, status = draw(specs(source))
    meta: Obj = {"name": name or draw(st.sampled_from(NAMES))}
    if source == "job" and draw(st.booleans()):
        meta["labels"] = {"jobset.sigs.k8s.io/jobset-name": meta["name"]}
        meta["name"] += draw(st.sampled_from(("-w-0", "-w-1", "-lead-0", "")))
    if draw(st.integers(0, 3)) == 0:
        meta["annotations"] = {EXCLUSIVE: draw(st.sampled_from(("rack", "", "a b", "x" * 5000)))}
    document = {
        "kind": OTHER_KINDS[source].kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    return {"owner": source, "document": document, "gone": draw(st.integers(0, 5)) == 0}


def _meta(source: str, name: str, part: str, index: str) -> Obj:
    """Metadata of a pod that such an owner makes."""
    training = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": part}
    operator = "training.kubeflow.org/operator-name"
    labels: dict[str, Obj] = {
        "jobset": {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": part,
            INDEX: index,
        },
        "job": {INDEX: index},
        "leader-worker-set": {
            "leaderworkerset.sigs.k8s.io/name": name,
            "leaderworkerset.sigs.k8s.io/group-index": "0",
            "leaderworkerset.sigs.k8s.io/worker-index": index,
        },
        "ray-cluster": {"ray.io/cluster": name, "ray.io/node-type": "worker"},
        "pytorchjob": training | {operator: "pytorchjob-controller"},
        "mpijob": training | {operator: "mpi-operator"},
        "workload": {"kueue.x-k8s.io/pod-group-name": name},
    }
    meta: Obj = {"labels": labels[source], "annotations": {}}
    if source == "leader-worker-set":
        meta["annotations"] = {"leaderworkerset.sigs.k8s.io/size": "3"}
    if source == "job":
        of = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
        meta["ownerReferences"] = [of]
    return meta


@st.composite
def owned(draw: st.DrawFn, pods: st.SearchStrategy[Obj]) -> Obj:
    """An owner with pods bound and pending, written in any order, and perhaps written anew."""
    source, name = draw(st.sampled_from(SOURCES)), draw(st.sampled_from(NAMES))
    found = [draw(owner_owners(source, name))]
    if source == "jobset" and draw(st.booleans()):
        found.append(draw(owner_owners("job", f"{name}-w-0")))
    for _ in range(draw(st.integers(1, 3))):
        many = draw(pods)
        many["pod"]["spec"].pop("schedulingGroup", None)
        part, index = draw(st.sampled_from(PARTS)), draw(st.sampled_from(("0", "1", "7", "-1", "")))
        many["pod"]["metadata"] |= _meta(source, name, part, index)
        found.append(many)
    found = draw(st.permutations(found))
    if draw(st.integers(0, 2)) == 0:
        found = [*found, draw(owner_owners(source, name))]
    return {"several": found}


steps = st.one_of(
    pods(),
    pods(),
    pods(),
    shielded(),
    trees(),
    trees(),
    owned(pods()),
    owned(pods()),
    owner_owners(),
    composites(),
    groups(),
    member_groups,
    budgets,
    many_budgets,
)
attacks = st.tuples(st.booleans(), st.lists(steps, min_size=1, max_size=8))
"""Whether the administrator lets the tenant opt out, and what it creates, in order."""
