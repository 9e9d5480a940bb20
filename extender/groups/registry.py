"""The dialects that exist, and the choice that configuration makes among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.groups.custom import CustomDialect
from extender.groups.dialect import Dialect
from extender.groups.indexed_job import IndexedJobDialect
from extender.groups.jobset import JobSetDialect
from extender.groups.kai import KaiDialect
from extender.groups.koordinator import KoordinatorDialect
from extender.groups.koordinator_pod_group import KoordinatorPodGroupDialect
from extender.groups.kueue import KueueDialect
from extender.groups.leader_worker_set import LeaderWorkerSetDialect
from extender.groups.pod_group import PodGroupDialect
from extender.groups.ray_cluster import RayClusterDialect
from extender.groups.scheduling_plugins import SchedulingPluginsDialect
from extender.groups.scheduling_plugins_label import SchedulingPluginsLabelDialect
from extender.groups.skypilot import SkyPilotDialect
from extender.groups.spark import SparkDialect
from extender.groups.training_operator import TrainingOperatorDialect
from extender.groups.volcano import VolcanoDialect
from extender.groups.yunikorn import YuniKornDialect
from extender.model.errors import InvalidInput
from extender.settings.custom_groups import custom_problems
from extender.settings.settings import GroupSettings

DIALECTS: tuple[Dialect, ...] = (
    PodGroupDialect(),
    SchedulingPluginsDialect(),
    SchedulingPluginsLabelDialect(),
    VolcanoDialect(),
    KoordinatorPodGroupDialect(),
    KoordinatorDialect(),
    KueueDialect(),
    KaiDialect(),
    YuniKornDialect(),
    JobSetDialect(),
    LeaderWorkerSetDialect(),
    TrainingOperatorDialect(),
    RayClusterDialect(),
    SparkDialect(),
    IndexedJobDialect(),
    SkyPilotDialect(),
)


def chosen(settings: GroupSettings, dialects: Iterable[Dialect] = DIALECTS) -> tuple[Dialect, ...]:
    """Return the configured dialects, explicit ones first, else in configured order.

    Those of groups.custom go last among the explicit ones, or first among the others.

    Raises InvalidInput that names every dialect which does not exist, is listed
    twice, or is given a unit although its groups state theirs.
    """
    known = {dialect.name: dialect for dialect in dialects}
    wrong = [
        *_unknown("groups.dialects", settings.dialects, known),
        *_unknown("groups.unit", settings.unit, known),
        *_unknown("groups.startsWhole", settings.starts_whole, known),
    ]
    if len(set(settings.dialects)) < len(settings.dialects):
        wrong.append("groups.dialects lists a dialect twice")
    wrong += _unknown(
        "groups.patienceSeconds",
        settings.patience_seconds,
        {**known, **{group.name: None for group in settings.custom}},
    )
    wrong += custom_problems(settings.custom, known)
    wrong += [
        f"groups.unit: {name} groups state their own unit, leave it out"
        for name in settings.unit
        if name in known and known[name].states_unit
    ]
    if wrong:
        raise InvalidInput("; ".join(wrong))
    listed = [known[name] for name in settings.dialects]
    own = [CustomDialect(group) for group in settings.custom]
    return (
        *(dialect for dialect in (*listed, *own) if dialect.explicit),
        *(dialect for dialect in (*own, *listed) if not dialect.explicit),
    )


def _unknown(where: str, names: Iterable[str], known: Mapping[str, object]) -> list[str]:
    return [
        f"{where}: {name!r} is no dialect (known: {', '.join(known)})"
        for name in names
        if name not in known
    ]
