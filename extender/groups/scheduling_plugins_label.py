"""The old lightweight form of scheduler-plugins coscheduling: two labels, no object.

Source: kubernetes-sigs/scheduler-plugins before the PodGroup CRD; deprecated
there, still in manifests. Both labels belong on every member.
"""

from __future__ import annotations

from extender.groups.dialect import Declaration
from extender.model.gang import UNIT_SINGLE
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import some

NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"


class SchedulingPluginsLabelDialect:
    """A gang is the pods that share the name label; the second label is the quorum."""

    name = "scheduling-plugins-label"
    explicit = True
    unit = UNIT_SINGLE
    states_unit = False
    starts_whole = True

    def key(self, pod: Pod) -> GangKey | None:
        """Return the group of the name label."""
        group = pod.labels.get(NAME_LABEL)
        return GangKey(self.name, pod.namespace, group) if group else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the one quorum that the members' labels agree on, or the problem."""
        stated: dict[str, Pod] = {}
        silent = 0
        for pod in members:
            text = pod.labels.get(MIN_LABEL)
            if text is None:
                silent += 1
            else:
                stated.setdefault(text, pod)
        if not stated:
            return Declaration(problems=(f"no pod has the label {MIN_LABEL}",))
        if len(stated) > 1:
            said = some(
                [f"{text!r} on {pod.key}" for text, pod in sorted(stated.items(), key=_first)[:3]],
                of=len(stated),
            )
            return Declaration(problems=(f"label {MIN_LABEL} differs between pods: {said}",))
        text, pod = next(iter(stated.items()))
        count = _count(text)
        if count is None:
            return Declaration(
                problems=(
                    f"label {MIN_LABEL} of pod {pod.key} is {text!r}, "
                    "it must be a whole number of at least 1",
                )
            )
        notes = (f"{silent} pods lack the label {MIN_LABEL}",) if silent else ()
        return Declaration(min_count=count, notes=notes)


def _first(item: tuple[str, Pod]) -> str:
    return item[0]


def _count(text: str) -> int | None:
    """Return the number, or None; a label value has at most 63 characters, int32 fits in 10."""
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) >= 1:
        return int(text)
    return None
