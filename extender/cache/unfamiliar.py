"""What of this API server this program has not been tested with, or does not read.

A newer minor may speak as before, or not: the extender goes on, and says so in its log and metrics
(``kubernetes_unfamiliar``) before anybody looks for a gang that is not seen.
"""

from __future__ import annotations

import re
from typing import Any

import structlog

from extender.cache.stats import CacheStats
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError

log = structlog.get_logger("cache")

OLDEST, NEWEST = (1, 34), (1, 37)
"""Minors of ``./run test-real --kube``, first and last (tests/controlplane/releases.py)."""
GROUP = "/apis/scheduling.k8s.io"
READ_VERSIONS = frozenset({"v1alpha1", "v1alpha2", "v1alpha3", "v1beta1"})
"""Versions of scheduling.k8s.io that cache.discovery asks for groups (v1alpha1: Workload)."""
GROUP_KINDS = frozenset({"podgroups", "compositepodgroups"})
"""What tells of gangs, wherever it is served."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.")


def untested(version: str) -> str:
    """Say that a release (gitVersion) lies outside those that were tested; "" when it does not."""
    found = _VERSION.match(version)
    if found is None:
        return f"the Kubernetes release {version!r} is unknown"
    minor = (int(found[1]), int(found[2]))
    if OLDEST <= minor <= NEWEST:
        return ""
    what = "newer" if minor > NEWEST else "older"
    return (
        f"Kubernetes {minor[0]}.{minor[1]} is {what} than those tested "
        f"({OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]})"
    )


class Familiarity:
    """Looks at each release of the API server once, and keeps what it found in ``stats``."""

    def __init__(self, client: KubeApi, stats: CacheStats) -> None:
        self._client = client
        self._stats = stats
        self._looked_at: str | None = None

    async def look(self, version: str) -> None:
        """Tell what is unfamiliar of a server of this version (gitVersion).

        Raises ApiError when the server does not say what it serves; the next call asks again.
        """
        if version == self._looked_at:
            return
        found = [text for text in (untested(version), await self._unread()) if text]
        self._looked_at = version
        self._stats.unfamiliar = tuple(found)
        for text in found:
            log.error(text, server=version)

    async def _unread(self) -> str:
        """Name the versions in which groups are served, unless one of them is read."""
        unread = []
        for version in sorted(_names(await self._ask(GROUP), "versions", "version")):
            kinds = _names(await self._ask(f"{GROUP}/{version}"), "resources", "name")
            if not kinds & GROUP_KINDS:
                continue
            if version in READ_VERSIONS:
                return ""
            unread.append(
                f"{', '.join(sorted(kinds & GROUP_KINDS))} of scheduling.k8s.io/{version}"
            )
        if not unread:
            return ""
        return f"{'; '.join(unread)} are served, which this program does not read"

    async def _ask(self, path: str) -> dict[str, Any]:
        """A discovery document; empty where there is none, or none that may be read."""
        try:
            return await self._client.get(path)
        except ApiError as error:
            if error.status in (403, 404):
                return {}
            raise


def _names(document: dict[str, Any], field: str, key: str) -> set[str]:
    entries = document.get(field)
    if not isinstance(entries, list):
        return set()
    return {
        entry[key]
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get(key), str)
    }
