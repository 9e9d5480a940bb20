"""In which topology domain a gang wants to be: required by its group, or wished for by annotation.

Upstream's PodGroup knows one required key and no preference. Annotations on the
members say both for every dialect. Kueue's own annotation for a preference is read as
well: its required one is not, since Kueue asks it of each pod set by itself and pins
the pods to the domain with node selectors before they reach a scheduler. Exclusive
topology of JobSet and LWS arrives as affinity of the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from extender.model.names import label_key_problem
from extender.model.objects import Pod
from extender.model.texts import some

REQUIRED = ("podgroup-extender.io/required-topology",)
PREFERRED = (
    "podgroup-extender.io/preferred-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
)


class Topology(Struct, frozen=True):
    """Node labels whose value all members share, "" where nothing is said."""

    required: str = ""
    preferred: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def topology_of(group_key: str, members: Iterable[Pod]) -> Topology:
    """Return what the group object (``group_key``) and the members still to be seated say.

    Members that contradict each other or the group over what is required are a problem;
    over what is preferred they only lose the preference.
    """
    annotated = [pod for pod in members if not pod.node and pod.annotations]
    required = _stated(annotated, REQUIRED)
    preferred = _stated(annotated, PREFERRED)
    wanted = sorted({*required, *([group_key] if group_key else [])})
    wrong = [why for key in wanted if (why := label_key_problem(key))]
    if wrong:
        return Topology(problems=(f"required topology: {wrong[0]}",))
    if len(wanted) > 1:
        return Topology(problems=(f"different topology keys are required: {some(wanted)}",))
    wrong = [why for key in preferred if (why := label_key_problem(key))]
    if wrong:
        return Topology("".join(wanted), notes=(f"preferred topology: {wrong[0]}: none counts",))
    required_key = "".join(wanted)
    notes: tuple[str, ...] = ()
    preferred = [key for key in preferred if key != required_key]
    if len(preferred) > 1:
        notes = (f"different topology keys are preferred ({some(preferred)}): none counts",)
        preferred = []
    return Topology(required_key, "".join(preferred), notes=notes)


def _stated(pods: Sequence[Pod], names: tuple[str, ...]) -> list[str]:
    """The values of the first of these annotations that some pod has, sorted."""
    for name in names:
        found = {pod.annotations[name] for pod in pods if pod.annotations.get(name)}
        if found:
            return sorted(found)
    return []
