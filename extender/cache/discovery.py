"""Which PodGroups, and which owners of pods, the API server serves at the moment.

Core PodGroups (scheduling.k8s.io) come in one version per Kubernetes minor and are
off by default; all others are CRDs. Any may appear or vanish while we run. Those of other
schedulers are followed only where we have the right to; that too may come and go.
"""

from __future__ import annotations

from typing import Any

from extender.kube.api import KubeApi
from extender.kube.api_errors import NotFound
from extender.model.group_sources import OPTIONAL
from extender.model.owner_kinds import OTHER_KINDS

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
    **{
        source: tuple(f"/apis/{kind.group}/{version}" for version in kind.versions)
        for source, kind in OTHER_KINDS.items()
    },
}
"""Source -> group versions that may serve its objects, best first."""


async def served(client: KubeApi, source: str) -> str | None:
    """Return the path at which ``source``'s objects can be watched, None when at none.

    Raises Forbidden for an optional source that we have no right to list, and ApiError when it
    cannot be known now (an unanswered question is not a no).
    """
    owner = OTHER_KINDS.get(source)
    plural = "podgroups" if owner is None else owner.plural
    for version in CANDIDATES[source]:
        try:
            document = await client.get(version)
        except NotFound:
            continue
        if _watchable(document, plural):
            path = f"{version}/{plural}"
            if source in OPTIONAL and not await _is_there(client, path):
                return None
            return path
    return None


async def _is_there(client: KubeApi, path: str) -> bool:
    try:
        await client.get(f"{path}?limit=1")
    except NotFound:
        return False
    return True


def _watchable(document: dict[str, Any], plural: str) -> bool:
    resources = document.get("resources")
    if not isinstance(resources, list):
        return False
    for entry in resources:
        if isinstance(entry, dict) and entry.get("name") == plural:
            verbs = entry.get("verbs")
            return isinstance(verbs, list) and "list" in verbs and "watch" in verbs
    return False
