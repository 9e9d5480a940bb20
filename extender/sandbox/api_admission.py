"""What the API server fills in and refuses before it stores an object.

Priority admission (plugin/pkg/admission/priority) for pods and pod groups, the
pod defaults that matter for scheduling, and the few validations a client can
trip over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from extender.model.errors import InvalidInput
from extender.sandbox.api_status import Obj, forbidden, invalid
from extender.sandbox.list_selectors import selector_of
from extender.sandbox.resources import BUDGETS, CONFIG_MAPS, PODS, PRIORITY_CLASSES, ServedResource
from extender.sandbox.storage import Storage

SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
DEFAULT_GRACE = 30
MOST_DATA = 1024 * 1024
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")


def check_name(resource: ServedResource, name: str) -> None:
    """Raise 422 when the name is no DNS subdomain."""
    if len(name) > 253 or not _NAME.match(name):
        raise invalid(resource.plural, name, "metadata.name: must be a lowercase RFC 1123 name")


def admit(resource: ServedResource, obj: Obj, storage: Storage) -> Obj:
    """Return a new object as it is to be stored; 403 or 422 when it may not be."""
    name = obj["metadata"]["name"]
    check_name(resource, name)
    if resource.key == PODS.key:
        return _pod(obj, storage)
    if resource.kind == "PodGroup" and not resource.custom:
        return _pod_group(resource, obj, storage)
    if resource.key == BUDGETS.key:
        _check_selector(name, obj)
    if resource.key == CONFIG_MAPS.key:
        _check_size(name, obj)
    if resource.key == PRIORITY_CLASSES.key and not isinstance(obj.get("value"), int):
        raise invalid(resource.plural, name, "value: required")
    return obj


def _check_selector(name: str, obj: Obj) -> None:
    """Raise 422 when a budget's selector breaks the rules of a LabelSelector."""
    try:
        selector_of((obj.get("spec") or {}).get("selector"))
    except InvalidInput as error:
        raise invalid(BUDGETS.plural, name, f"spec.selector: {error}") from error


def _check_size(name: str, obj: Obj) -> None:
    """Raise 422 when a ConfigMap's data is too long (MaxSecretSize in apis/core/validation)."""
    size = sum(len(value.encode()) for value in (obj.get("data") or {}).values())
    size += sum(len(value) * 3 // 4 for value in (obj.get("binaryData") or {}).values())
    if size > MOST_DATA:
        raise invalid("configmaps", name, f"[]: Too long: may not be more than {MOST_DATA} bytes")


def _pod(obj: Obj, storage: Storage) -> Obj:
    name = obj["metadata"]["name"]
    spec: Obj = dict(obj.get("spec") or {})
    containers = spec.get("containers")
    if not containers:
        raise invalid("pods", name, "spec.containers: Required value")
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_container(item) for item in spec[field]]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", DEFAULT_GRACE)
    chosen = _priority(spec, name, "pods", storage)
    if spec.get("priority") not in (None, chosen["value"]):
        raise forbidden("pods", name, "the integer value of priority must not be provided")
    spec["priority"] = chosen["value"]
    if chosen["metadata"]["name"]:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    spec["preemptionPolicy"] = chosen.get("preemptionPolicy") or "PreemptLowerPriority"
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def _container(container: Obj) -> Obj:
    """Requests default to limits."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return (
        {**container, "resources": {**resources, "requests": requests}} if requests else container
    )


def _pod_group(resource: ServedResource, obj: Obj, storage: Storage) -> Obj:
    name = obj["metadata"]["name"]
    spec: Obj = dict(obj.get("spec") or {})
    policy = spec.get("schedulingPolicy") or {}
    if ("gang" in policy) == ("basic" in policy):
        raise invalid(
            resource.plural, name, "spec.schedulingPolicy: exactly one of basic and gang is needed"
        )
    if "gang" in policy and (policy["gang"] or {}).get("minCount", 0) < 1:
        raise invalid(
            resource.plural, name, "spec.schedulingPolicy.gang.minCount: must be greater than zero"
        )
    _disruption_mode(resource, name, spec)
    chosen = _priority(spec, name, resource.plural, storage)
    spec["priority"] = chosen["value"]
    if chosen["metadata"]["name"]:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    return {**obj, "spec": spec}


def _disruption_mode(resource: ServedResource, name: str, spec: Obj) -> None:
    """A string on v1alpha2, a one-of object later; the other spelling is refused."""
    old_spelling = resource.version == "v1alpha2"
    default: Any = "Pod" if old_spelling else {"single": {}}
    mode = spec.setdefault("disruptionMode", default)
    fine: Callable[[], bool] = (
        (lambda: mode in ("Pod", "PodGroup"))
        if old_spelling
        else (lambda: isinstance(mode, dict) and set(mode) in ({"single"}, {"all"}))
    )
    if not fine():
        raise invalid(resource.plural, name, f"spec.disruptionMode: unsupported value {mode!r}")


def _priority(spec: Obj, name: str, plural: str, storage: Storage) -> Obj:
    """Return the PriorityClass that counts; a nameless one with value 0 when there is none."""
    wanted = spec.get("priorityClassName")
    classes = storage.all(PRIORITY_CLASSES.key)
    if wanted:
        for item in classes:
            if item["metadata"]["name"] == wanted:
                return item
        raise forbidden(plural, name, f"no PriorityClass with name {wanted} was found")
    defaults = [item for item in classes if item.get("globalDefault")]
    if defaults:
        return min(defaults, key=lambda item: int(item["value"]))
    return {"metadata": {"name": ""}, "value": 0}
