"""PodGroups and CompositePodGroups as kube-apiserver 1.37.0 stores them.

Fields and defaults of k8s.io/api v0.37.0, scheduling/v1beta1 and v1alpha3; the priority is what
admission fills in. A composite's workloadRef is required there and not read here.
"""

from __future__ import annotations

from typing import Any

from extender.decode.from_json import decode_group
from extender.model.objects import GroupObject

Obj = dict[str, Any]


def pod_group(name: str, of: str = "", least: int | None = 2, **more: Any) -> GroupObject:
    """A PodGroup; ``least`` None is a basic one."""
    return decode_group("core", document("PodGroup", name, of, "minCount", least, **more))


def composite(name: str, of: str = "", least: int | None = None, **more: Any) -> GroupObject:
    """A CompositePodGroup; ``least`` None is a basic one."""
    made = document("CompositePodGroup", name, of, "minGroupCount", least, **more)
    return decode_group("core-composite", made)


def document(
    kind: str,
    name: str,
    of: str = "",
    count: str = "minCount",
    least: int | None = None,
    *,
    whole: bool = False,
    priority: int | None = None,
    topology: str = "",
    namespace: str = "ns",
    **spec: Any,
) -> Obj:
    """Either of them, as written."""
    made: Obj = {
        "workloadRef": {"workloadName": "w", "templateName": name},
        "schedulingPolicy": {"basic": {}} if least is None else {"gang": {count: least}},
        "disruptionMode": {"all": {}} if whole else {"single": {}},
        **spec,
    }
    if of:
        made["parentCompositePodGroupName"] = of
    if priority is not None:
        made["priority"] = priority
    if topology:
        made["schedulingConstraints"] = {"topology": [{"key": topology}]}
    version = "v1beta1" if kind == "PodGroup" else "v1alpha3"
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"{kind}-{name}"},
        "spec": made,
    }
