"""What every object has: name, version, times, labels, annotations and owner.

Equal parts of many objects are decoded once, by their JSON bytes (see interning.py). Functions
that take ``where`` name that field in InvalidInput.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Raw

from extender.model.apishape import NO_RAW, RawMeta, RawOwner
from extender.model.errors import InvalidInput
from extender.model.interning import Memo
from extender.model.objects import Owner

KEPT_ANNOTATIONS = (
    "podgroup-extender.io/",
    "scheduling.k8s.io/group-name",
    "kueue.x-k8s.io/",
    "gang.scheduling.koordinator.sh/",
    "volcano.sh/",
    "scheduling.volcano.sh/",
    "yunikorn.apache.org/",
    "pod-group-name",
    "kai.scheduler/",
    "batch.kubernetes.io/job-completion-index",
    "jobset.sigs.k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
)
"""Prefixes of the annotation keys some dialect or option reads; all others are dropped."""

NOTHING: dict[str, str] = {}
"""The one empty mapping; records are read-only, so it is shared."""

_string_map = msgspec.json.Decoder(dict[str, str])
_owner_list = msgspec.json.Decoder(list[RawOwner])
_labels: Memo[bytes, dict[str, str]] = Memo()
_annotations: Memo[bytes, dict[str, str]] = Memo()
_time_decoder = msgspec.json.Decoder(Annotated[datetime, msgspec.Meta(tz=True)] | None)
_times: Memo[bytes, float] = Memo()
_owners: Memo[bytes, Owner | Literal[False]] = Memo()


def named(meta: RawMeta | None) -> RawMeta:
    """Return the metadata of an object that has a name. InvalidInput when it has none."""
    if meta is None or not meta.name:
        raise InvalidInput("metadata.name: is missing")
    return meta


def version_of(meta: RawMeta) -> int:
    """Return resourceVersion as a number, 0 where there is none."""
    text = meta.resource_version
    return int(text) if text and text.isdecimal() else 0


def moment(raw: Raw, where: str) -> float:
    """Return a time in seconds since the epoch; 0.0 for none."""
    if raw is NO_RAW:
        return 0.0
    key = bytes(raw)
    found = _times.get(key)
    if found is not None:
        return found
    try:
        time = _time_decoder.decode(key)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error
    return _times.put(key, time.timestamp() if time is not None else 0.0)


def string_mapping(raw: Raw, where: str) -> dict[str, str]:
    """Return labels, or another mapping of strings. Shared: not to be changed."""
    if raw is NO_RAW:
        return NOTHING
    key = bytes(raw)
    found = _labels.get(key)
    if found is not None:
        return found
    if key == b"null":
        return NOTHING
    try:
        return _labels.put(key, _string_map.decode(key) or NOTHING)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error


def kept_annotations(raw: Raw) -> dict[str, str]:
    """Return the annotations some dialect or option reads (KEPT_ANNOTATIONS)."""
    if raw is NO_RAW:
        return NOTHING
    key = bytes(raw)
    found = _annotations.get(key)
    if found is not None:
        return found
    if key == b"null":
        return NOTHING
    try:
        every = _string_map.decode(key)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"metadata.annotations: {error}") from error
    kept = {name: value for name, value in every.items() if name.startswith(KEPT_ANNOTATIONS)}
    return _annotations.put(key, kept or NOTHING)


def controller_of(raw: Raw) -> Owner | None:
    """Return the owner that controls the object, None where there is none."""
    if raw is NO_RAW:
        return None
    key = bytes(raw)
    found = _owners.get(key)
    if found is not None:
        return found or None
    if key == b"null":
        return None
    try:
        owners = _owner_list.decode(key)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"metadata.ownerReferences: {error}") from error
    for owner in owners:
        if owner.controller:
            return _owners.put(key, Owner(owner.kind, owner.name, owner.uid)) or None
    _owners.put(key, False)
    return None
