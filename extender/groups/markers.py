"""By which labels and annotations a pod shows that it may belong to a gang.

For those who tell members from other pods without asking (a scheduler with a mirror of the seats).
A pod with none of these keys and no spec.schedulingGroup is of no gang that waits for its members;
one that has a key may still be of none, and has to be asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from extender.groups import (
    indexed_job,
    jobset,
    kai,
    koordinator,
    koordinator_pod_group,
    kueue,
    leader_worker_set,
    ray_cluster,
    scheduling_plugins,
    scheduling_plugins_label,
    skypilot,
    spark,
    training_operator,
    volcano,
    yunikorn,
)
from extender.model.custom_groups import CustomGroup
from extender.model.settings import GroupSettings

KEYS: dict[str, tuple[str, ...]] = {
    "pod-group": (),  # spec.schedulingGroup
    "scheduling-plugins": (scheduling_plugins.LABEL,),
    "scheduling-plugins-label": (scheduling_plugins_label.NAME_LABEL,),
    "volcano": (volcano.ANNOTATION,),
    "koordinator-pod-group": (koordinator_pod_group.LABEL,),
    "koordinator": (koordinator.NAME,),
    "kueue": (kueue.NAME,),
    "kai": (kai.ANNOTATION,),
    "yunikorn": (yunikorn.GROUP, yunikorn.GROUPS),
    "jobset": (jobset.LABEL,),
    "leader-worker-set": (leader_worker_set.NAME, leader_worker_set.GROUP_KEY),
    "training-operator": (training_operator.TrainingOperatorDialect.label,),
    "ray-cluster": (ray_cluster.RayClusterDialect.label,),
    "spark": (spark.SparkDialect.label,),
    "indexed-job": (indexed_job.INDEX,),
    "skypilot": (skypilot.LABEL,),
}
"""By dialect: one of these is on every member."""


def gang_keys(settings: GroupSettings) -> tuple[str, ...]:
    """Return the keys of the dialects that are enabled, sorted.

    Indexed Jobs only where groups.startsWhole makes them wait: they are many.
    """
    found = {
        key for name in settings.dialects if _waits(name, settings) for key in KEYS.get(name, ())
    }
    return tuple(sorted(found.union(map(_custom, settings.custom))))


def all_keys(settings: GroupSettings) -> frozenset[str]:
    """Return the keys of all dialects that are enabled, whether their gangs wait or not."""
    found = {key for name in settings.dialects for key in KEYS[name]}
    return frozenset(found.union(map(_custom, settings.custom)))


def explicit_keys(settings: GroupSettings, names: Collection[str]) -> dict[str, int]:
    """Return, by key, of how many of these dialects it is: a pod with keys of less than two of
    them names one group at most."""
    found: Counter[str] = Counter()
    for name in names:
        found.update(KEYS.get(name, ()))
    found.update(_custom(group) for group in settings.custom if group.name in names)
    return dict(found)


def waits_for_jobs(settings: GroupSettings) -> bool:
    """Return whether Indexed Jobs start whole: only then their size matters."""
    name = indexed_job.IndexedJobDialect.name
    return name in settings.dialects and _waits(name, settings)


def _waits(name: str, settings: GroupSettings) -> bool:
    return name != indexed_job.IndexedJobDialect.name or settings.starts_whole.get(
        name, indexed_job.IndexedJobDialect.starts_whole
    )


def _custom(group: CustomGroup) -> str:
    return group.label or group.annotation
