"""Whether nodes are on their way for a gang: what the cluster's autoscalers have said of its pods.

Read in the public code:

- cluster-autoscaler, ``processors/status/eventing_scale_up_processor.go``: events on pods with
  the reasons ``TriggeredScaleUp`` and ``NotTriggerScaleUp``. The latter is sent only where no node
  group grows in that round. A pod that fits on a node which is coming gets neither.
- Karpenter, ``pkg/controllers/provisioning/scheduling/events.go``: ``Nominated`` ("Pod should
  schedule on: nodeclaim/NAME") and ``FailedScheduling`` ("Failed to schedule pod, ..."). It sends
  five nominations a second at most, so some members have none. EKS Auto Mode sends both as
  ``eks-auto-mode/compute``.
- ProvisioningRequest, ``apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go``: conditions
  ``Accepted``, ``Provisioned``, ``Failed``, ``BookingExpired`` and ``CapacityRevoked``. A pod names
  its request in the annotation ``autoscaling.x-k8s.io/consume-provisioning-request``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from extender.model.plan import Code, Plan, Refusal
from extender.model.texts import counted, cut, rfc3339, visible

REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of a pod: the ProvisioningRequest that it consumes."""
TOLD: dict[str, tuple[bool, str]] = {
    "TriggeredScaleUp": (True, ""),
    "NotTriggerScaleUp": (False, ""),
    "Nominated": (True, "Pod should schedule on: "),
    "FailedScheduling": (False, "Failed to schedule pod, "),
}
"""Reason of an event -> whether a node comes, and how its message begins: kube-scheduler sends
FailedScheduling too."""
REQUESTED = {
    "Failed": False,
    "CapacityRevoked": False,
    "BookingExpired": False,
    "Provisioned": True,
    "Accepted": True,
}
"""Condition of a ProvisioningRequest that is True -> whether nodes come; the first one counts."""
NO_SECONDS = 600.0
"""A no counts for so long. Karpenter repeats an unchanged one every five minutes."""
AHEAD_SECONDS = 10.0
"""A clock may be ahead of ours by so much. What is later is not believed."""
MOST_BYTES = 200
"""Of what an autoscaler has said, when it is repeated."""


class Word(Struct, frozen=True):
    """What one autoscaler has said of one pod. Anybody who may write events can have said it."""

    uid: str
    yes: bool
    by: str
    first: float
    """When it was said for the first time, in seconds since the epoch ..."""
    last: float
    """... and for the last time."""
    why: str = ""


class Awaited(Struct, frozen=True):
    """What the words on a gang's waiting members come to."""

    until: float = 0.0
    """It is waited until then; 0.0: it is not."""
    by: str = ""
    """Who has announced a node; "": nobody has said anything yet."""
    refused: str = ""
    """Why no node comes, where an autoscaler has said so."""


def answer(
    words: Iterable[Word],
    members: Mapping[str, float],
    now: float,
    seconds: float,
    first_seconds: float = 0.0,
) -> Awaited:
    """Return whether a node is waited for, and until when.

    ``members``: the uids of the pods that wait for a node, and when each was created. Each
    autoscaler's newest word on a pod counts. A pod that one has said no to, and none says yes to
    any more, ends the wait: the gang starts whole or not at all. One yes is enough to begin it:
    not every pod gets one.

    ``seconds`` are counted from the first yes. One that comes during the wait, or within as many
    seconds after it, begins no other: the gang has its turn however often a yes is repeated.

    ``first_seconds``: how long a first word is waited for, counted from the youngest pod. Moments
    that are still to come are not believed, or a clock that is set back would prolong the wait.
    """
    ours = [each for each in words if each.uid in members and each.last <= now + AHEAD_SECONDS]
    newest: dict[tuple[str, str], Word] = {}
    for word in sorted(ours, key=lambda each: (each.last, not each.yes)):
        newest[word.uid, word.by] = word
    standing = [each for each in newest.values() if each.yes or now - each.last < NO_SECONDS]
    helped = {each.uid for each in standing if each.yes}
    for word in standing:
        if word.uid not in helped:
            return Awaited(refused=f"{word.by} adds no node: {word.why}")
    since, by = float("-inf"), ""
    for moment, name in sorted((at, each.by) for each in ours if each.yes for at in _times(each)):
        if moment > since + 2 * seconds:
            since, by = moment, name
    if helped and now < since + seconds:
        return Awaited(since + seconds, by)
    youngest = max(members.values(), default=0.0)
    asked = not newest and youngest <= now + AHEAD_SECONDS and now < youngest + first_seconds
    return Awaited(youngest + first_seconds) if asked else Awaited()


def _times(word: Word) -> tuple[float, float]:
    return (min(word.first, word.last), word.last)


def waits(plan: Plan, found: Awaited, generation: int) -> Refusal:
    """Return the refusal of a gang whose plan would evict pods while a node is on its way."""
    clock = rfc3339(found.until)[11:19]
    then = counted(len(plan.victims), "pod")
    what = f"a node that {found.by} has announced" if found.by else "an autoscaler's answer"
    return Refusal(
        gang=plan.gang,
        code=Code.SCALE_UP,
        message=f"waits for {what}, until {clock} UTC; then {then} would be evicted",
        generation=generation,
        until=found.until,
    )


def told(text: str) -> str:
    """Return what somebody wrote as a part of a line of ours."""
    return cut(" ".join(visible(text, "?").split()), MOST_BYTES)
