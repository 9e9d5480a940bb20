"""What every object has: name, version, times, labels, annotations and owner.

Equal parts of many objects are decoded once, by their JSON bytes (see interning.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Raw

from extender.decode.api_objects import NO_RAW, RawMeta, RawOwner
from extender.decode.interning import Memo
from extender.model.errors import InvalidInput
from extender.model.memory_limits import LARGE, dense, estimate
from extender.model.memory_limits import named as named_text
from extender.model.objects import Owner
from extender.model.opt_outs import ANNOTATION_KEYS
from extender.model.owner_budget import BUDGET_KEYS

KEPT_ANNOTATIONS = (
    "podgroup-extender.io/",
    "scheduling.k8s.io/group-name",
    "kueue.x-k8s.io/",
    "gang.scheduling.koordinator.sh/",
    "volcano.sh/",
    "scheduling.volcano.sh/",
    "yunikorn.apache.org/",
    "internal.yunikorn.apache.org/placeholder",
    "pod-group-name",
    "kai.scheduler/",
    "batch.kubernetes.io/job-completion-index",
    "kubernetes.io/config.mirror",
    "jobset.sigs.k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
    "preemption-toleration.scheduling.x-k8s.io/",
    "autoscaling.x-k8s.io/consume-provisioning-request",
)
"""Prefixes of the annotation keys some dialect or option reads; all others are dropped."""

READ_ANNOTATIONS = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "batch.kubernetes.io/job-completion-index",
    "gang.scheduling.koordinator.sh/groups",
    "gang.scheduling.koordinator.sh/min-available",
    "gang.scheduling.koordinator.sh/name",
    "internal.yunikorn.apache.org/placeholder",
    "kubernetes.io/config.mirror",
    "kueue.x-k8s.io/pod-group-fast-admission",
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/pod-group-serving",
    "kueue.x-k8s.io/pod-group-total-count",
    "kueue.x-k8s.io/podset-preferred-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/size",
    "pod-group-name",
    "podgroup-extender.io/expected-run-seconds",
    "podgroup-extender.io/gang-size",
    "podgroup-extender.io/last-checkpoint",
    "podgroup-extender.io/patience-seconds",
    "podgroup-extender.io/preferred-topology",
    "podgroup-extender.io/required-topology",
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority",
    "preemption-toleration.scheduling.x-k8s.io/toleration-seconds",
    "scheduling.k8s.io/group-name",
    "volcano.sh/task-spec",
    "yunikorn.apache.org/app-id",
    "yunikorn.apache.org/placeholder",
    "yunikorn.apache.org/task-group-name",
    "yunikorn.apache.org/task-groups",
    *sorted(ANNOTATION_KEYS),
    *BUDGET_KEYS,
)
"""Those that are read today: all that is kept of annotations of more than LARGE bytes."""

LISTS = {
    "gang.scheduling.koordinator.sh/groups": 8192,
    "yunikorn.apache.org/task-groups": 8192,
}
"""Those that hold more than a name -> characters kept of them, then."""

BATCH, BATCH_JOB = "batch", "Job"
"""The one kind whose controller's word about its pods is taken (their completion index)."""

NOTHING: dict[str, str] = {}
"""The one empty mapping; records are read-only, so it is shared."""

Value = TypeVar("Value")
_UNKNOWN: Any = object()


def _field(
    decode: Callable[[bytes], Value], absent: Value, known: Memo[bytes, Value] | None = None
) -> Callable[[Raw, str], Value]:
    """Return a function that decodes a field's JSON, equal bytes once.

    It takes the field as sent, and its name, with which InvalidInput then begins. Its values
    are shared: not to be changed. Absent and null count as ``absent``.
    """
    memo: Memo[bytes, Value] = Memo() if known is None else known
    get, put = memo.get, memo.put

    def remember(key: bytes, value: Value) -> Value:
        return value if len(key) > LARGE else put(key, value, len(key) + estimate(key))

    def read(raw: Raw, where: str) -> Value:
        if raw is NO_RAW:
            return absent
        key = bytes(raw)
        found: Value = get(key, _UNKNOWN)
        if found is not _UNKNOWN:
            return found
        if key == b"null":
            return absent
        try:
            return remember(key, decode(key))
        except msgspec.DecodeError as error:
            raise InvalidInput(f"{where}: {error}") from error

    return read


_time = msgspec.json.Decoder(Annotated[datetime, msgspec.Meta(tz=True)] | None)
_strings = msgspec.json.Decoder(dict[str, str])
_owners = msgspec.json.Decoder(list[RawOwner])


def _moment(text: bytes) -> float:
    time = _time.decode(text)
    return time.timestamp() if time is not None else 0.0


def _string_mapping(text: bytes) -> dict[str, str]:
    """Labels that are too many to be kept select nothing and are selected by nothing."""
    if dense(text):
        return NOTHING
    return _strings.decode(text) or NOTHING


_annotations_known: Memo[bytes, dict[str, str]] = Memo()
_own: frozenset[str] = frozenset()
"""Annotation keys that the configuration says to read (groups.custom)."""


def keep_annotations(keys: Iterable[str]) -> None:
    """Keep these annotations too, in all that is decoded from now on.

    For the whole process, like the memory of what was decoded: to be called before it.
    """
    global _own
    wanted = _own.union(keys)
    if wanted != _own:
        _own = wanted
        _annotations_known.clear()


def _kept(text: bytes) -> dict[str, str]:
    every = _strings.decode(text)
    if len(text) <= LARGE:
        kept = {
            name: value
            for name, value in every.items()
            if name.startswith(KEPT_ANNOTATIONS) or name in _own
        }
    else:
        kept = {
            name: every[name][: LISTS[name] + 1] if name in LISTS else named_text(every[name])
            for name in (*READ_ANNOTATIONS, *_own)
            if name in every
        }
    return kept or NOTHING


def _controller(text: bytes) -> Owner | None:
    for owner in _owners.decode(text):
        if owner.controller:
            return Owner(_kind(owner), named_text(owner.name), named_text(owner.uid))
    return None


def _kind(owner: RawOwner) -> str:
    if owner.kind == BATCH_JOB and owner.api_version is not None:
        group = owner.api_version.rpartition("/")[0]
        if group != BATCH:
            return named_text(f"{owner.kind}.{group}")
    return named_text(owner.kind)


moment = _field(_moment, 0.0)
"""A time, in seconds since the epoch; 0.0 for none."""
string_mapping = _field(_string_mapping, NOTHING)
"""Labels, or another mapping of strings."""
kept_annotations = _field(_kept, NOTHING, _annotations_known)
"""The annotations some dialect or option reads (KEPT_ANNOTATIONS)."""
controller_of = _field(_controller, None)
"""The owner that controls the object."""


def named(meta: RawMeta | None) -> RawMeta:
    """Return the metadata of an object that has a name. InvalidInput when it has none."""
    if meta is None or not meta.name:
        raise InvalidInput("metadata.name: is missing")
    return meta


def version_of(meta: RawMeta) -> int:
    """Return resourceVersion as a number, 0 where there is none."""
    text = meta.resource_version
    return int(text) if text and text.isdecimal() else 0
