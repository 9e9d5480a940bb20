"""What goes whole, read a second time from the raw pods, beside what plans evict.

The reading here is by the systems' own documentation and uses none of extender.groups: who is of
which group, and whether it has come together. Where pods contradict each other it says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from extender.decode.from_json import decode_pod
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.single import single_gang
from extender.groups.resolver import Resolver
from extender.model.plan import Plan
from extender.settings.settings import Settings
from tests.gang.world import group, node, pod, snapshot

Obj = dict[str, Any]
NODES = 3
SETTINGS = Settings()
RESOLVER = Resolver(SETTINGS.groups)
KUEUE, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
GANG = "gang.scheduling.koordinator.sh/"
YUNIKORN = "yunikorn.apache.org/"
LWS = "leaderworkerset.sigs.k8s.io/"
INDEX = "batch.kubernetes.io/job-completion-index"
FORMS = (
    "kueue",
    "kueue-annotation",
    "koordinator",
    "volcano",
    "yunikorn",
    "jobset",
    "lws",
    "pytorch",
    "ray",
    "spark",
    "job",
    "sky",
    "plugins-label",
)


def form(kind: str, name: str, i: int, size: str) -> Obj:
    """Metadata of a pod of one system, with what its maker says of the size."""
    labels: Obj = {}
    notes: Obj = {}
    more: Obj = {}
    if kind == "kueue":
        labels[KUEUE], notes[TOTAL] = name, size
    elif kind == "kueue-annotation":
        notes[KUEUE], notes[TOTAL] = name, size
    elif kind == "koordinator":
        notes |= {GANG + "name": name, GANG + "min-available": size}
    elif kind == "volcano":
        notes["scheduling.k8s.io/group-name"] = name
    elif kind == "yunikorn":
        labels[YUNIKORN + "app-id"] = name
        notes[YUNIKORN + "task-group-name"] = "w"
        notes[YUNIKORN + "task-groups"] = f'[{{"name":"w","minMember":{size}}}]'
    elif kind == "jobset":
        labels["jobset.sigs.k8s.io/jobset-name"] = name
    elif kind == "lws":
        labels |= {LWS + "name": name, LWS + "group-index": "0", LWS + "worker-index": str(i)}
        notes[LWS + "size"] = size
    elif kind == "pytorch":
        labels["training.kubeflow.org/job-name"] = name
        labels["training.kubeflow.org/operator-name"] = "pytorchjob-controller"
    elif kind == "ray":
        labels |= {"ray.io/cluster": name, "ray.io/node-type": "worker" if i else "head"}
    elif kind == "spark":
        labels |= {"spark-app-selector": name, "spark-role": "executor" if i else "driver"}
    elif kind == "job":
        labels[INDEX] = str(i)
        of = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
        more["ownerReferences"] = [of]
    elif kind == "sky":
        labels["skypilot-cluster-name"] = name
    elif kind == "plugins-label":
        prefix = "pod-group.scheduling.sigs.k8s.io/"
        labels |= {prefix + "name": name, prefix + "min-available": size}
    return {"labels": labels, "annotations": notes, **more}


def names_of(meta: Obj) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(system, group) of a pod: those named on purpose, and those implied, in order."""
    labels, notes = meta["labels"], meta["annotations"]
    purpose = [
        ("plugins-label", labels.get("pod-group.scheduling.sigs.k8s.io/name")),
        ("volcano", notes.get("scheduling.k8s.io/group-name")),
        ("koordinator", notes.get(GANG + "name")),
        ("kueue", notes.get(KUEUE) or labels.get(KUEUE)),
    ]
    owner = meta.get("ownerReferences")
    set_ = labels.get(LWS + "name")
    implied = [
        ("yunikorn", labels.get(YUNIKORN + "app-id")),
        ("jobset", labels.get("jobset.sigs.k8s.io/jobset-name")),
        ("lws", set_ and f"{set_}-{labels[LWS + 'group-index']}"),
        ("pytorch", labels.get("training.kubeflow.org/job-name")),
        ("ray", labels.get("ray.io/cluster")),
        ("spark", labels.get("spark-app-selector")),
        ("job", owner[0]["name"] if owner and INDEX in labels else None),
        ("sky", labels.get("skypilot-cluster-name")),
    ]
    return [(s, n) for s, n in purpose if n], [(s, n) for s, n in implied if n]


def stated(system: str, meta: Obj) -> str | None:
    """The size that is on a pod; None where its system puts none there."""
    notes = meta["annotations"]
    if system == "yunikorn":
        return str(notes[YUNIKORN + "task-groups"]).split(":")[-1].rstrip("}]")
    where = {"kueue": TOTAL, "koordinator": GANG + "min-available", "lws": LWS + "size"}
    return notes.get(where[system]) if system in where else None


def units(pods: list[Obj]) -> list[frozenset[str]]:
    """The pods that must go together or stay: a group that says one thing and that runs."""
    found: defaultdict[tuple[str, str, str], list[Obj]] = defaultdict(list)
    unclear: set[tuple[str, str, str]] = set()
    for each in pods:
        meta = each["metadata"]
        if each["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        purpose, implied = names_of(meta)
        for of in purpose or implied[:1]:
            key = (meta["namespace"], *of)
            found[key].append(each)
            if len(purpose) > 1:
                unclear.add(key)
    result = []
    for key, members in found.items():
        if key in unclear or key[1] == "plugins-label":
            continue
        here = [each for each in members if "deletionTimestamp" not in each["metadata"]]
        runs = [each for each in here if each["spec"].get("nodeName")]
        sizes = {stated(key[1], each["metadata"]) for each in here}
        if len(sizes) != 1 or not runs:
            continue
        (text,) = sizes
        if text is not None and not (text.isdigit() and int(text) >= 1):
            continue
        if key[1] == "yunikorn" and str(text).startswith("0"):
            continue  # no JSON
        waits = len(runs) < len(here)
        size = len(here) if text is None else int(text)
        if key[1] == "job" or not waits or len(runs) >= size:
            result.append(frozenset(each["metadata"]["uid"] for each in runs))
    return result


@st.composite
def clusters(draw: st.DrawFn) -> list[Obj]:
    """Pods of up to five groups in two namespaces, some of them odd; one name may be of many."""
    pods: list[Obj] = []
    for g in range(draw(st.integers(1, 5))):
        kind, name = draw(st.sampled_from(FORMS)), draw(st.sampled_from("ab"))
        count = draw(st.integers(1, 4))
        size = draw(st.sampled_from((str(count), str(count), "3", "07", " 4", "0", "1e3", "-1")))
        second = draw(st.sampled_from((None, None, None, *FORMS)))
        namespace = draw(st.sampled_from(("one", "two")))
        for i in range(count):
            said = draw(st.sampled_from((size,) * 9 + ("2",)))
            meta = form(kind, name, i, said)
            if second is not None and draw(st.integers(0, 3)):
                other = form(second, draw(st.sampled_from((name, "c"))), i, said)
                for part in ("labels", "annotations"):
                    meta[part] |= other[part]
                meta |= {"ownerReferences": other["ownerReferences"]} if len(other) > 2 else {}
            state = draw(st.sampled_from(("runs",) * 8 + ("waits", "gated", "ends", "over")))
            uid = f"{namespace}-{g}-{i}"
            meta |= {"namespace": namespace, "name": uid, "uid": uid}
            meta["creationTimestamp"] = "2027-01-15T07:00:00Z"
            request = {"cpu": draw(st.sampled_from(("2", "3")))}
            container = {"name": "c", "resources": {"requests": request}}
            spec: Obj = {"containers": [container], "priority": draw(st.sampled_from((0, 0, 5)))}
            status: Obj = {"phase": "Pending"}
            if state in ("runs", "ends", "over"):
                spec["nodeName"] = f"n{draw(st.integers(0, NODES - 1))}"
                status = {"phase": "Running", "startTime": "2027-01-15T07:00:01Z"}
            if state == "ends":
                meta |= {"deletionTimestamp": "2027-01-15T08:00:10Z"}
            elif state == "over":
                status["phase"] = draw(st.sampled_from(("Succeeded", "Failed")))
            elif state == "gated":
                spec["schedulingGates"] = [{"name": "x"}]
            pods.append({"metadata": meta, "spec": spec, "status": status})
    return pods


@given(clusters(), st.integers(1, 4), st.sampled_from((2, 3, 4)), st.sampled_from((3, 100)))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_plan_takes_a_part_of_what_goes_whole(
    raw: list[Obj], count: int, cpu: int, priority: int
) -> None:
    urgent = [pod(f"u{i}", cpu=cpu, priority=priority, group="urgent") for i in range(count)]
    alone = pod("alone", cpu=4, priority=priority)
    nodes = [node(f"n{i}") for i in range(NODES)]
    live = [each for each in raw if each["status"]["phase"] in ("Pending", "Running")]
    decoded = [decode_pod(each) for each in live]
    state = snapshot(nodes, [*decoded, *urgent, alone], [group("urgent", count)])
    together = units(raw)
    priorities = {each["metadata"]["uid"]: each["spec"]["priority"] for each in raw}
    planner = Planner(SETTINGS, RESOLVER)
    for gang in (*RESOLVER.resolve_all(state), single_gang(alone)):
        if not gang.missing or not gang.starts_whole:
            continue
        plan = planner.plan(GangQuestion(gang, state))
        if not isinstance(plan, Plan):
            continue
        gone = {victim.uid for victim in plan.victims}
        event(f"{min(len(gone), 3)} victims or more")
        assert all(priorities[uid] < plan.priority for uid in gone)
        assert len(plan.seats) >= gang.missing
        # A member that is too urgent stays, and does not spare the others (docs/choices.md).
        below = [[uid for uid in unit if priorities[uid] < plan.priority] for unit in together]
        for unit in map(set, below):
            assert not gone & unit or unit <= gone, (gang.key, sorted(gone), sorted(unit))
