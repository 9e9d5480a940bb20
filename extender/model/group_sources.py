"""Which API groups serve objects that tell of a gang, and what each is called here."""

from __future__ import annotations

from extender.model.owner_kinds import OTHER_KINDS

CORE = "core"
SCHEDULING_PLUGINS = "scheduling-plugins"
KOORDINATOR = "koordinator-pod-group"
API_GROUPS = {
    CORE: "scheduling.k8s.io",
    SCHEDULING_PLUGINS: "scheduling.x-k8s.io",
    "volcano": "scheduling.volcano.sh",
    KOORDINATOR: "scheduling.sigs.k8s.io",
    "kai": "scheduling.run.ai",
}
"""GroupObject.source of PodGroups -> API group. All but core's and scheduler-plugins' are named
like their dialect, and optional: without the right to read them, gangs are what their pods say."""
OTHER_GROUPS = frozenset(API_GROUPS) - {CORE, SCHEDULING_PLUGINS}
"""PodGroups of other schedulers."""
OPTIONAL = OTHER_GROUPS | OTHER_KINDS.keys()
"""Sources that may be read or not."""
SOURCES = (*API_GROUPS, *OTHER_KINDS)
"""Every source."""
