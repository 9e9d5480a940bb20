"""What the API server does with objects, without HTTP: the sandbox's own controllers call this.

Deletion follows k8s.io/apiserver/pkg/registry/rest/delete.go with the pod rules
of pkg/registry/core/pod/strategy.go (CheckGracefulDelete).
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from extender.sandbox import api_admission, patches
from extender.sandbox.api_status import (
    Obj,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from extender.sandbox.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    ServedResource,
)
from extender.sandbox.storage import Storage

Now = Callable[[], float]
Names = Callable[[str], str]
"""A name that begins with the prefix."""
FINISHED = ("Succeeded", "Failed")
PATCHES = {
    "application/merge-patch+json": patches.merge,
    "application/strategic-merge-patch+json": patches.strategic,
}
SERVERS_METADATA: tuple[str, ...] = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_NAMESPACES = ("default", "kube-system", "kube-public")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_ATTEMPTS = 8


def timestamp(seconds: float) -> str:
    """Return RFC 3339 with whole seconds, as metav1.Time."""
    return _rfc3339(int(seconds))


@lru_cache(maxsize=1024)
def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def generated(prefix: str) -> str:
    """Return the prefix and five random letters that make no words (names.SimpleNameGenerator)."""
    return prefix + "".join(random.choices(_LETTERS, k=5))


class Api:
    """Create, read, change and delete objects with the API server's rules. Synchronous."""

    def __init__(
        self,
        storage: Storage,
        resources: Iterable[ServedResource],
        clock: Now = time.time,
        names: Names = generated,
        uids: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.storage = storage
        self.resources = list(resources)
        self.clock = clock
        self._names = names
        self._uids = uids
        for name in _NAMESPACES:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in api_admission.SYSTEM_CLASSES.items():
            self.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})

    def now(self) -> str:
        """The time as objects carry it."""
        return timestamp(self.clock())

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the served resource, or None."""
        for item in self.resources:
            if (item.group, item.version, item.plural) == (group, version, plural):
                return item
        return None

    def get(self, resource: ServedResource, namespace: str, name: str) -> Obj:
        """Return one object; 404 when it is gone."""
        obj = self.storage.get(resource.key, namespace, name)
        if obj is None:
            raise not_found(resource.plural, name)
        return obj

    def create(self, resource: ServedResource, namespace: str, obj: Obj) -> Obj:
        """Store a new object; 409 when the name is taken, 404 when its namespace is missing."""
        meta: Obj = dict(obj.get("metadata") or {})
        if resource.namespaced:
            if meta.get("namespace", namespace) != namespace:
                raise bad_request("the namespace of the object does not match that of the request")
            if self.storage.get(NAMESPACES.key, "", namespace) is None:
                raise not_found("namespaces", namespace)
            meta["namespace"] = namespace
        meta["name"] = self._free_name(resource, meta)
        for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
            meta.pop(field, None)
        meta.update(uid=self._uids(), creationTimestamp=self.now(), generation=1)
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        # A node is created with its status, because kubelets register themselves that way.
        keeps = not resource.status or resource.key == NODES.key
        fresh = {k: v for k, v in obj.items() if k != "status" or keeps}
        return self.storage.put(
            resource.key,
            api_admission.admit(
                resource, {**kind, **fresh, **kind, "metadata": meta}, self.storage
            ),
        )

    def replace(
        self, resource: ServedResource, namespace: str, name: str, obj: Obj, *, status: bool = False
    ) -> Obj:
        """Update the object, or only its status; 409 for a stale version or another UID."""
        old = self.get(resource, namespace, name)
        given = obj.get("metadata") or {}
        version, uid = given.get("resourceVersion"), given.get("uid")
        if version and version != old["metadata"]["resourceVersion"]:
            why = "the object has been modified; please apply your changes to the latest version"
            raise conflict(resource.plural, name, why)
        if uid and uid != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise conflict(resource.plural, name, why + old["metadata"]["uid"])
        new = self._status_only(old, obj) if status else self._all_but_status(resource, old, obj)
        new["metadata"] = _metadata(old["metadata"], given, status=status)
        if _same(new, old):
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if new["metadata"].get("deletionTimestamp") and self._may_go(new):
            return self._remove(resource, namespace, name)
        return self.storage.put(resource.key, new)

    def patch(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        patch: Obj,
        kind: str,
        *,
        status: bool = False,
    ) -> Obj:
        """Apply a patch of the content type ``kind``; 415 for a type that is not served."""
        apply = PATCHES.get(kind)
        if apply is None or (resource.custom and apply is patches.strategic):
            raise StatusError(
                415, "UnsupportedMediaType", f"the patch type {kind!r} is not supported here"
            )
        old = self.get(resource, namespace, name)
        return self.replace(resource, namespace, name, apply(old, patch), status=status)

    def delete(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace: int | None = None,
    ) -> Obj:
        """Delete with preconditions (409); a bound pod keeps its grace period (seconds)."""
        obj = self.get(resource, namespace, name)
        meta = obj["metadata"]
        if uid and uid != meta["uid"]:
            why = (
                f"the UID in the precondition ({uid}) does not match the UID in record "
                f"({meta['uid']}). The object might have been deleted and then recreated"
            )
            raise conflict(resource.plural, name, why)
        if version and version != meta["resourceVersion"]:
            raise conflict(resource.plural, name, "the resource version does not match")
        period = self._grace(obj, grace) if resource.key == PODS.key else 0
        held = meta.get("deletionGracePeriodSeconds")
        if held is not None and period >= held and not (period == 0 and self._may_go(obj)):
            return obj
        marked: Obj = {
            **meta,
            "deletionTimestamp": timestamp(self.clock() + period),
            "deletionGracePeriodSeconds": period,
        }
        dying = {**obj, "metadata": marked}
        if self._may_go(dying):
            return self._remove(resource, namespace, name)
        return self.storage.put(resource.key, dying)

    def bind(self, namespace: str, name: str, binding: Obj) -> None:
        """Give a pod its node; 409 when it has one, is on its way out or is another pod."""
        pod = self.get(PODS, namespace, name)
        uid = (binding.get("metadata") or {}).get("uid")
        node = (binding.get("target") or {}).get("name")
        if not node:
            raise invalid("pods", name, "target.name: Required value")
        if uid and uid != pod["metadata"]["uid"]:
            raise conflict("pods/binding", name, "the UID in the precondition does not match")
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict("pods/binding", name, f"pod {name} is being deleted")
        if pod["spec"].get("nodeName"):
            held = pod["spec"]["nodeName"]
            raise conflict("pods/binding", name, f"pod {name} is already assigned to node {held!r}")
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.now()}
        status = patches.strategic(pod["status"], {"conditions": [condition]})
        self.storage.put(
            PODS.key, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
        )

    def drop_namespace(self, name: str) -> Obj:
        """Remove a namespace and all it holds, at once."""
        self.get(NAMESPACES, "", name)
        for resource in self.resources:
            if resource.namespaced:
                for obj in self.storage.all(resource.key, name):
                    self.storage.remove(resource.key, name, obj["metadata"]["name"])
        return self.storage.remove(NAMESPACES.key, "", name)

    def set_status(self, resource: ServedResource, obj: Obj, status: Obj) -> Obj:
        """Merge into an object's status (conditions by type), as a controller does."""
        meta = obj["metadata"]
        where = (resource, meta.get("namespace", ""), meta["name"])
        merged = patches.strategic(self.get(*where).get("status") or {}, status)
        return self.replace(
            *where, {"metadata": {"uid": meta["uid"]}, "status": merged}, status=True
        )

    def event(self, about: Obj, *, reason: str, message: str, kind: str = "Normal") -> None:
        """Record a v1 Event about an object; a refusal is dropped, as client-go's recorder does."""
        meta = about["metadata"]
        namespace = meta.get("namespace") or "default"
        involved = {
            "kind": about["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
        }
        body: Obj = {
            "metadata": {"generateName": f"{meta['name']}."},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": self.now(),
            "lastTimestamp": self.now(),
            "source": {"component": "sandbox"},
        }
        with contextlib.suppress(StatusError):
            self.create(EVENTS, namespace, body)

    def _free_name(self, resource: ServedResource, meta: Obj) -> str:
        """Return the given name or a generated one that is free (rest.Create tries eight)."""
        space: str = meta.get("namespace") or ""
        name: str = meta.get("name") or ""
        prefix: str = meta.get("generateName") or ""
        if not name and not prefix:
            raise invalid(resource.plural, "", "metadata.name: name or generateName is required")
        for tried in [name] if name else (self._names(prefix) for _ in range(_NAME_ATTEMPTS)):
            if self.storage.get(resource.key, space, tried) is None:
                return tried
            name = tried
        raise already_exists(resource.plural, name)

    def _remove(self, resource: ServedResource, namespace: str, name: str) -> Obj:
        return self.storage.remove(resource.key, namespace, name)

    def _all_but_status(self, resource: ServedResource, old: Obj, obj: Obj) -> Obj:
        new = {**obj, "apiVersion": old["apiVersion"], "kind": old["kind"]}
        if resource.status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        name = old["metadata"]["name"]
        if resource.key == PODS.key:
            held, wanted = old["spec"].get("nodeName"), (new.get("spec") or {}).get("nodeName")
            if held != wanted:
                raise invalid("pods", name, "spec.nodeName: may not be changed by an update")
        return new

    def _status_only(self, old: Obj, obj: Obj) -> Obj:
        new = dict(old)
        if "status" in obj:
            new["status"] = obj["status"]
        return new

    def _grace(self, pod: Obj, asked: int | None) -> int:
        if not pod["spec"].get("nodeName") or pod["status"].get("phase") in FINISHED:
            return 0
        period = asked
        if period is None:
            period = int(pod["spec"].get("terminationGracePeriodSeconds", 0))
        return 1 if period < 0 else period

    def _may_go(self, obj: Obj) -> bool:
        meta = obj["metadata"]
        return not meta.get("finalizers") and meta.get("deletionGracePeriodSeconds", 0) == 0


def _metadata(old: Obj, given: Obj, *, status: bool) -> Obj:
    """Names, identity and deletion are the server's; labels and the like are the client's."""
    fixed = SERVERS_METADATA + (("finalizers", "ownerReferences") if status else ())
    free = {k: v for k, v in given.items() if k not in fixed}
    if status:
        free = {**old, **free}
    return {**free, **{k: old[k] for k in fixed if k in old}}


def _same(new: Obj, old: Obj) -> bool:
    """Whether a write changes nothing; it then makes no new version."""
    left: dict[str, Any] = {k: v for k, v in new.items() if v not in (None, {})}
    return left == {k: v for k, v in old.items() if v not in (None, {})}
