"""Which API groups serve a PodGroup, and what each is called here."""

from __future__ import annotations

CORE = "core"
SCHEDULING_PLUGINS = "scheduling-plugins"
API_GROUPS = {
    CORE: "scheduling.k8s.io",
    SCHEDULING_PLUGINS: "scheduling.x-k8s.io",
    "volcano": "scheduling.volcano.sh",
    "koordinator-pod-group": "scheduling.sigs.k8s.io",
    "kai": "scheduling.run.ai",
}
"""GroupObject.source -> API group. All but core's and scheduler-plugins' are named like their
dialect, and optional: without the right to read them, gangs are what their pods say."""
OPTIONAL = frozenset(API_GROUPS) - {CORE, SCHEDULING_PLUGINS}
