"""Which PodGroup resources the API server serves at the moment.

Core PodGroups (scheduling.k8s.io) come in one version per Kubernetes minor and are
off by default; all others are CRDs. Any may appear or vanish while we run. Those of other
schedulers are followed only where we have the right to; that too may come and go.
"""

from __future__ import annotations

from typing import Any

from extender.kube.api import KubeApi
from extender.kube.errors import Forbidden, NotFound
from extender.model.group_sources import OPTIONAL

CANDIDATES: dict[str, tuple[str, ...]] = {
    "core": (
        "/apis/scheduling.k8s.io/v1beta1",
        "/apis/scheduling.k8s.io/v1alpha3",
        "/apis/scheduling.k8s.io/v1alpha2",
    ),
    "scheduling-plugins": ("/apis/scheduling.x-k8s.io/v1alpha1",),
    "volcano": ("/apis/scheduling.volcano.sh/v1beta1",),
    "koordinator-pod-group": ("/apis/scheduling.sigs.k8s.io/v1alpha1",),
    "kai": ("/apis/scheduling.run.ai/v2alpha2",),
}
"""Source -> group versions that may serve podgroups, best first."""


async def served(client: KubeApi, source: str) -> str | None:
    """Return the path at which ``source``'s PodGroups can be watched, None when at none.

    Raises ApiError when that cannot be known now (an unanswered question is not a no).
    """
    for version in CANDIDATES[source]:
        try:
            document = await client.get(version)
        except NotFound:
            continue
        if _watchable(document):
            path = f"{version}/podgroups"
            if source in OPTIONAL and not await _may_list(client, path):
                return None
            return path
    return None


async def _may_list(client: KubeApi, path: str) -> bool:
    try:
        await client.get(f"{path}?limit=1")
    except Forbidden:
        return False
    return True


def _watchable(document: dict[str, Any]) -> bool:
    resources = document.get("resources")
    if not isinstance(resources, list):
        return False
    for entry in resources:
        if isinstance(entry, dict) and entry.get("name") == "podgroups":
            verbs = entry.get("verbs")
            return isinstance(verbs, list) and "list" in verbs and "watch" in verbs
    return False
