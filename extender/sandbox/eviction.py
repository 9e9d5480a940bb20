"""The eviction subresource and the tiny loop that fills PodDisruptionBudget status.

Source: pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption.
Scales are counted from the pods that exist (no owner look-up), so
maxUnavailable and percentages are of the matching, non-finished pods.
"""

from __future__ import annotations

import math

from extender.decode.from_api import MOST_DISRUPTED
from extender.sandbox.api_status import Obj, StatusError, bad_request
from extender.sandbox.list_selectors import selects
from extender.sandbox.patches import strategic
from extender.sandbox.resources import BUDGETS, PODS
from extender.sandbox.rest import FINISHED, Api
from extender.sandbox.storage import DELETED, MODIFIED, StorageChange


def matching_budgets(api: Api, pod: Obj) -> list[Obj]:
    """Return the budgets of the pod's namespace that select it."""
    budgets = api.storage.all(BUDGETS.key, pod["metadata"]["namespace"])
    if not budgets:
        return []
    labels = pod["metadata"].get("labels") or {}
    return [
        budget for budget in budgets if selects((budget.get("spec") or {}).get("selector"), labels)
    ]


def evict(api: Api, namespace: str, name: str, body: Obj) -> None:
    """Delete the pod when its budget allows: 429 when not, 500 with several budgets."""
    if body.get("kind", "Eviction") != "Eviction":
        raise bad_request("body is no policy/v1 Eviction")
    pod = api.get(PODS, namespace, name)
    options = body.get("deleteOptions") or {}
    preconditions = options.get("preconditions") or {}
    uid = preconditions.get("uid", "")
    if uid in ("", pod["metadata"]["uid"]) and not _free_to_go(pod):
        _charge(api, pod)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": api.now(),
        }
        held = pod["status"].get("conditions") or []
        if not any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in held):
            status = strategic(pod["status"], {"conditions": [condition]})
            api.replace(PODS, namespace, name, {"status": status}, status=True)
    api.delete(
        PODS,
        namespace,
        name,
        uid=uid,
        version=preconditions.get("resourceVersion", ""),
        grace=options.get("gracePeriodSeconds"),
    )


def _free_to_go(pod: Obj) -> bool:
    phase = pod["status"].get("phase")
    return phase in (*FINISHED, "Pending") or "deletionTimestamp" in pod["metadata"]


def _ready(pod: Obj) -> bool:
    held = pod["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in held)


def _charge(api: Api, pod: Obj) -> None:
    budgets = matching_budgets(api, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise StatusError(500, "InternalError", f"{why} does not support.")
    budget = budgets[0]
    name = budget["metadata"]["name"]
    status = budget.get("status") or {}
    if not _ready(pod):
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        wanted = status.get("desiredHealthy", 0)
        if always or status.get("currentHealthy", 0) >= wanted > 0:
            return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        why = f"The disruption budget {name} is still being processed by the server."
        raise StatusError(429, "TooManyRequests", why)
    if len(status.get("disruptedPods") or ()) > MOST_DISRUPTED:
        raise StatusError(403, "Forbidden", "DisruptedPods map too big")
    if status.get("disruptionsAllowed", 0) <= 0:
        why = f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods"
        raise StatusError(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [{"reason": "DisruptionBudget", "message": why}]},
        )
    charged = {
        **status,
        "disruptionsAllowed": status["disruptionsAllowed"] - 1,
        "disruptedPods": {
            **(status.get("disruptedPods") or {}),
            pod["metadata"]["name"]: api.now(),
        },
    }
    namespace = budget["metadata"]["namespace"]
    api.replace(BUDGETS, namespace, name, {"status": charged}, status=True)


async def keep_budgets(api: Api) -> None:
    """Count healthy pods for every budget, again at each change of a pod or budget."""
    changes = api.storage.subscribe(PODS.key, BUDGETS.key)
    try:
        for budget in api.storage.all(BUDGETS.key):
            _count(api, budget)
        while True:
            recount(api, await changes.next())
    finally:
        changes.close()


def recount(api: Api, change: StorageChange) -> None:
    """Count again what a change of a pod or budget touches."""
    for budget in _touched(api, change):
        _count(api, budget)


def _touched(api: Api, change: StorageChange) -> list[Obj]:
    if change.resource == BUDGETS.key:
        fresh = change.type != DELETED and not (
            change.type == MODIFIED and change.old and change.old.get("spec") == change.new["spec"]
        )
        meta = change.new["metadata"]
        held = api.storage.get(BUDGETS.key, meta["namespace"], meta["name"])
        return [held] if fresh and held else []
    return matching_budgets(api, change.new)


def _count(api: Api, budget: Obj) -> None:
    meta, spec = budget["metadata"], budget.get("spec") or {}
    pods = [
        pod
        for pod in api.storage.all(PODS.key, meta["namespace"])
        if selects(spec.get("selector"), pod["metadata"].get("labels") or {})
        and pod["status"].get("phase") not in FINISHED
    ]
    held = (budget.get("status") or {}).get("disruptedPods") or {}
    alive = {p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]}
    disrupted = {name: at for name, at in held.items() if name in alive}
    healthy = sum(_ready(p) and p["metadata"]["name"] in alive - set(disrupted) for p in pods)
    expected = len(pods)
    if "maxUnavailable" in spec:
        desired = max(0, expected - _share(spec["maxUnavailable"], expected))
    else:
        desired = _share(spec.get("minAvailable", 1), expected)
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": max(0, healthy - desired),
        "disruptedPods": disrupted,
        "observedGeneration": meta.get("generation", 1),
    }
    api.replace(BUDGETS, meta["namespace"], meta["name"], {"status": status}, status=True)


def _share(value: int | str, total: int) -> int:
    """An absolute number, or a percentage rounded up."""
    if isinstance(value, str):
        return math.ceil(int(value.rstrip("%")) * total / 100)
    return value
