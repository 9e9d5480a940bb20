"""By which labels and annotations a pod says that it is not to be preempted.

Each as its own scheduler reads it. Whether it counts is not the pod's to say: model.policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.model.names import label_value_problem, quoted

VOLCANO = "volcano.sh/preemptable"
OPT_OUT_LABELS = {
    "quota.scheduling.koordinator.sh/preemptible": "false",
    "scheduling.koordinator.sh/disable-preemptible": "true",
    "kai.scheduler/preemptibility": "non-preemptible",
}
"""Pod label -> the value by which a pod opts out."""
OPT_OUT_ANNOTATIONS = {
    "podgroup-extender.io/protected": "true",
    "yunikorn.apache.org/allow-preemption": "false",
}
"""Pod annotation -> the value by which a pod opts out."""
KEYS = (*OPT_OUT_LABELS, *OPT_OUT_ANNOTATIONS, VOLCANO)
LABEL_KEYS = frozenset((*OPT_OUT_LABELS, VOLCANO))
ANNOTATION_KEYS = frozenset((*OPT_OUT_ANNOTATIONS, VOLCANO))

GO_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
"""What strconv.ParseBool of Go takes for true."""


def opt_outs(
    labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return (key, in words by what) of each way in which a pod opts out; hardly any does."""
    if LABEL_KEYS.isdisjoint(labels) and ANNOTATION_KEYS.isdisjoint(annotations):
        return ()
    found = [
        (key, f"{place} {key}={value}")
        for place, keys, there in (
            ("label", OPT_OUT_LABELS, labels),
            ("annotation", OPT_OUT_ANNOTATIONS, annotations),
        )
        for key, value in keys.items()
        if there.get(key) == value
    ]
    # GetPodPreemptable of volcano-sh/volcano pkg/scheduler/api: the annotation before the label,
    # and what is no boolean is false.
    place = "annotation" if VOLCANO in annotations else "label"
    text = annotations.get(VOLCANO, labels.get(VOLCANO))
    if text is not None and text not in GO_TRUE:
        shown = quoted(text) if label_value_problem(text) else text
        found.append((VOLCANO, f"{place} {VOLCANO}={shown}"))
    return tuple(found)
