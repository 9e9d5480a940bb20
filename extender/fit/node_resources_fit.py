"""NodeResourcesFit: the request must fit into what the node's pods leave.

Source: fitsRequest in pkg/scheduler/framework/plugins/noderesources. The number
of pods is always checked; a resource only when the pod asks for some of it, so
an overcommitted node still takes a pod that asks for none. A resource the node
does not list counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.decode.quantity import format_resource
from extender.model.objects import Requests
from extender.model.texts import some

PODS = "pods"
_NOTHING: Mapping[str, int] = {}


def fits(
    requests: Requests, allocatable: Mapping[str, int], used: Mapping[str, int], pods: int
) -> bool:
    """Tell whether the request fits beside ``pods`` pods that use ``used`` in sum."""
    if pods + 1 > allocatable.get(PODS, 0):
        return False
    for name, amount in requests:
        if amount > 0 and name != PODS and amount > allocatable.get(name, 0) - used.get(name, 0):
            return False
    return True


def why_not(
    requests: Requests,
    allocatable: Mapping[str, int],
    used: Mapping[str, int] = _NOTHING,
    pods: int = 0,
) -> str | None:
    """Return every resource that is short, and by how much; None when the request fits."""
    if fits(requests, allocatable, used, pods):
        return None
    short = []
    if pods + 1 > allocatable.get(PODS, 0):
        short.append(f"no free pod slot ({pods} of {allocatable.get(PODS, 0)} taken)")
    for name, amount in requests:
        free = allocatable.get(name, 0) - used.get(name, 0)
        if amount > 0 and name != PODS and amount > free:
            wants, left = _number(name, amount), _number(name, free)
            short.append(
                f"{format_resource(name, amount - free)} short (wants {wants}, {left} free)"
            )
    return f"NodeResourcesFit: {some(short, by='; ')}"


def _number(name: str, amount: int) -> str:
    """An amount without its resource's name."""
    text = format_resource(name, abs(amount))
    text = text.removesuffix(" CPU").removesuffix(f" {name}")
    return f"-{text}" if amount < 0 else text
