"""From the API's JSON to the reduced records, object by object.

Every ``decode_*`` takes one object as JSON bytes, as msgspec.Raw or as a decoded
mapping, and raises InvalidInput that names kind, namespace/name and field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from extender.decode.api_groups import RawMemberGroup, RawPodGroup
from extender.decode.api_objects import RawBudget, RawNamespace, RawNode, RawPod, RawPriorityClass
from extender.decode.from_api import (
    member_group_of,
    reduce_budget,
    reduce_core_group,
    reduce_namespace,
    reduce_node,
    reduce_pod,
    reduce_priority_class,
)
from extender.decode.json_text import TOO_DEEP
from extender.decode.owners import OWNER_SHAPES
from extender.model.errors import InvalidInput
from extender.model.group_sources import API_GROUPS, CORE
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.owner_kinds import OTHER_KINDS, PARTLY_DONE

Source = bytes | str | Raw | Mapping[str, Any]
_GROUP_SOURCES = {group: source for source, group in API_GROUPS.items()}
_OWNER_SOURCES = {
    (kind.group, kind.kind): source
    for source, kind in OTHER_KINDS.items()
    if source != PARTLY_DONE  # a Job of a file is read as such
}

DecodedObject = Pod | Node | PriorityClass | DisruptionBudget | Namespace | GroupObject
Shape = TypeVar("Shape")
Result = TypeVar("Result")


def decode_pod(source: Source) -> Pod:
    """Return a v1.Pod, reduced. A manifest without uid is accepted (uid "")."""
    return _decode("Pod", RawPod, reduce_pod, source)


def decode_node(source: Source) -> Node:
    """Return a v1.Node, reduced."""
    return _decode("Node", RawNode, reduce_node, source)


def decode_priority_class(source: Source) -> PriorityClass:
    """Return a scheduling.k8s.io/v1 PriorityClass."""
    return _decode("PriorityClass", RawPriorityClass, reduce_priority_class, source)


def decode_budget(source: Source) -> DisruptionBudget:
    """Return a policy/v1 PodDisruptionBudget."""
    return _decode("PodDisruptionBudget", RawBudget, reduce_budget, source)


def decode_namespace(source: Source) -> Namespace:
    """Return a v1.Namespace."""
    return _decode("Namespace", RawNamespace, reduce_namespace, source)


def decode_group(source: str, document: Source) -> GroupObject:
    """Return an object of one of SOURCES: a PodGroup, or an owner of pods."""
    if source == CORE:
        return _decode("PodGroup", RawPodGroup, reduce_core_group, document)
    if source in OTHER_KINDS:
        shape, reduce = OWNER_SHAPES[source]
        return _decode(OTHER_KINDS[source].kind, shape, reduce, document)
    return _decode("PodGroup", RawMemberGroup, member_group_of(source), document)


MOST_LISTS = 8
"""Lists of lists; kubectl prints one."""

# -- documents -----------------------------------------------------------------------------


class _Header(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    items: list[Raw] | None = None


_header = msgspec.json.Decoder(_Header)


def decode_documents(source: Source) -> Iterator[DecodedObject]:
    """Yield the records in one object or list, such as ``kubectl get pods,nodes -o json`` prints.

    Kinds the extender does not read are skipped; the items of a typed list (PodList)
    take their kind from it. Raises InvalidInput for the first object that is malformed.
    """
    yield from _documents(_bytes(source, "document"), "", "", 0)


def _documents(data: bytes | Raw, kind: str, version: str, depth: int) -> Iterator[DecodedObject]:
    if depth > MOST_LISTS:
        raise InvalidInput(f"document: {TOO_DEEP}")
    try:
        header = _header.decode(data)
    except RecursionError:
        raise InvalidInput(f"document: {TOO_DEEP}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"document: {error}") from error
    kind = header.kind or kind
    version = header.api_version or version
    if kind.endswith("List"):
        for item in header.items or ():
            yield from _documents(item, kind.removesuffix("List"), version, depth + 1)
        return
    decode = _decoder(kind, version)
    if decode is not None:
        yield decode(data)


def _decoder(kind: str, version: str) -> Callable[[Source], DecodedObject] | None:
    group = version.partition("/")[0] if "/" in version else ""
    simple: dict[tuple[str, str], Callable[[Source], DecodedObject]] = {
        ("", "Pod"): decode_pod,
        ("", "Node"): decode_node,
        ("", "Namespace"): decode_namespace,
        ("scheduling.k8s.io", "PriorityClass"): decode_priority_class,
        ("policy", "PodDisruptionBudget"): decode_budget,
    }
    if kind == "PodGroup" and group in _GROUP_SOURCES:
        return partial(decode_group, _GROUP_SOURCES[group])
    owner = _OWNER_SOURCES.get((group, kind))
    return simple.get((group, kind)) if owner is None else partial(decode_group, owner)


# -- shared parts --------------------------------------------------------------------------

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decode(
    kind: str, shape: type[Shape], reduce: Callable[[Shape], Result], source: Source
) -> Result:
    data = _bytes(source, kind)
    decoder = _decoders.get(shape)
    if decoder is None:
        decoder = _decoders[shape] = msgspec.json.Decoder(shape)
    try:
        return reduce(decoder.decode(data))
    except RecursionError:
        raise InvalidInput(f"{describe(kind, data)}: {TOO_DEEP}") from None
    except (msgspec.DecodeError, InvalidInput, OverflowError, ValueError) as error:
        raise InvalidInput(f"{describe(kind, data)}: {error}") from error


def _bytes(source: Source, what: str) -> bytes | Raw:
    if isinstance(source, (bytes, Raw)):
        return source
    if isinstance(source, str):
        return source.encode()
    try:
        return msgspec.json.encode(source)
    except RecursionError:  # it may hold itself, where YAML's aliases made it
        raise InvalidInput(f"{what}: {TOO_DEEP}") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: not a JSON object: {error}") from error


class _Name(msgspec.Struct, gc=False):
    name: Any = None
    namespace: Any = None


class _Named(msgspec.Struct, gc=False):
    metadata: _Name | None = None


_name_decoder = msgspec.json.Decoder(_Named)


def describe(kind: str, data: bytes | Raw) -> str:
    """Return "Kind namespace/name" of an object that may be malformed elsewhere."""
    try:
        meta = _name_decoder.decode(data).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        meta = None
    if meta is None or not isinstance(meta.name, str) or not meta.name:
        return f"{kind} (name unreadable)"
    if isinstance(meta.namespace, str) and meta.namespace:
        return f"{kind} {meta.namespace[:253]}/{meta.name[:253]}"
    return f"{kind} {meta.name[:253]}"
