"""The form of the objects that ``check`` reads: types, where a rule looks.

What the API server would refuse for its type is bad input here, named with file and path, and no
rule has to expect it. Fields that no rule reads are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from extender.check.config import typed
from extender.check.documents import Document, kind_of
from extender.check.workloads import TEMPLATED, name_of

Texts = list[str] | None
StringMap = dict[str, str] | None


class _Metadata(Struct):
    name: str | None = None
    namespace: str | None = None
    labels: StringMap = None
    annotations: StringMap = None


class _Expression(Struct):
    key: str | None = None
    operator: str | None = None
    values: Texts = None


class _Selector(Struct, rename="camel"):
    match_labels: StringMap = None
    match_expressions: list[_Expression] | None = None


class _Request(Struct):
    path: str | None = None
    host: str | None = None
    scheme: str | None = None
    port: int | str | None = None


class _Probe(Struct, rename="camel"):
    http_get: _Request | None = None


class _Typed(Struct):
    type: str | None = None


class _Capabilities(Struct):
    add: Texts = None
    drop: Texts = None


class _Security(Struct, rename="camel"):
    privileged: bool | None = None
    run_as_user: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    capabilities: _Capabilities | None = None
    seccomp_profile: _Typed | None = None
    app_armor_profile: _Typed | None = None


class _Resources(Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Port(Struct, rename="camel"):
    name: str | None = None
    container_port: int | None = None


class _Mount(Struct, rename="camel"):
    name: str | None = None
    mount_path: str | None = None
    read_only: bool | None = None


class _Container(Struct, rename="camel"):
    name: str | None = None
    image: str | None = None
    command: Texts = None
    args: Texts = None
    ports: list[_Port] | None = None
    volume_mounts: list[_Mount] | None = None
    resources: _Resources | None = None
    security_context: _Security | None = None
    startup_probe: _Probe | None = None
    readiness_probe: _Probe | None = None
    liveness_probe: _Probe | None = None


class _Volume(Struct, rename="camel"):
    name: str | None = None
    host_path: dict[str, Any] | None = None


class _PodSpec(Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    security_context: _Security | None = None
    host_network: bool | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    host_ipc: bool | None = field(default=None, name="hostIPC")
    priority_class_name: str | None = None
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None


class _Object(Struct):
    """What every object has."""

    metadata: _Metadata | None = None


class _Pod(_Object):
    spec: _PodSpec | None = None


class _Templated(Struct):
    template: _Pod | None = None
    replicas: int | None = None
    strategy: _Typed | None = None


class _Workload(_Object):
    spec: _Templated | None = None


class _Block(Struct):
    cidr: str | None = None


class _Peer(Struct, rename="camel"):
    ip_block: _Block | None = None
    pod_selector: _Selector | None = None
    namespace_selector: _Selector | None = None


class _PolicyPort(Struct):
    port: int | str | None = None


class _Ingress(Struct):
    peers: list[_Peer] | None = field(default=None, name="from")
    ports: list[_PolicyPort] | None = None


class _Egress(Struct):
    peers: list[_Peer] | None = field(default=None, name="to")
    ports: list[_PolicyPort] | None = None


class _Policy(Struct, rename="camel"):
    pod_selector: _Selector | None = None
    policy_types: Texts = None
    ingress: list[_Ingress] | None = None
    egress: list[_Egress] | None = None


class _NetworkPolicy(_Object):
    spec: _Policy | None = None


class _Budget(Struct, rename="camel"):
    selector: _Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class _DisruptionBudget(_Object):
    spec: _Budget | None = None


class _Exposed(Struct):
    selector: StringMap = None


class _Service(_Object):
    spec: _Exposed | None = None


class _Rule(Struct, rename="camel"):
    api_groups: Texts = None
    resources: Texts = None
    verbs: Texts = None
    resource_names: Texts = None


class _Role(_Object):
    rules: list[_Rule] | None = None


class _Reference(Struct):
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class _Binding(_Object, rename="camel"):
    subjects: list[_Reference] | None = None
    role_ref: _Reference | None = None


class _ConfigMap(_Object):
    data: StringMap = None


SHAPES: dict[str, type[Struct]] = {
    "Pod": _Pod,
    **dict.fromkeys(TEMPLATED, _Workload),
    "NetworkPolicy": _NetworkPolicy,
    "PodDisruptionBudget": _DisruptionBudget,
    "Service": _Service,
    **dict.fromkeys(("Role", "ClusterRole"), _Role),
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _Binding),
    "ConfigMap": _ConfigMap,
}
"""By kind; an object of another kind is no rule's business."""


def well_formed(found: Iterable[Document]) -> list[Document]:
    """Return the documents. Raises InvalidInput for an object that is not of its kind's form."""
    listed = list(found)
    for document in listed:
        shape = SHAPES.get(kind_of(document))
        if shape is not None:
            place = f"{document.source}: {kind_of(document)} {name_of(document.value)}".rstrip()
            typed(Document(place, document.value), shape)
    return listed
