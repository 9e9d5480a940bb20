"""ExtenderArgs in (filter and prioritize), ExtenderFilterResult and HostPriorityList out.

With nodeCacheCapable kube-scheduler sends NodeNames and reads NodeNames; without
it sends Nodes, whole objects, and reads Nodes. Of a Node only the name is read
here; the rest is kept as the bytes that came and goes back as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.wire.pod_json import read_pod
from extender.wire.reading import is_null, read
from extender.wire.spelling import fields, keep

MAX_SCORE = 10
"""extender/v1 MaxExtenderPriority: the top of a HostPriority's score."""

_ABSENT = Raw()
_BEFORE_NAMES = b',"NodeNames":['
"""As Go writes it, which has the Pod before. The comma: no quote before it is escaped."""


class FilterArgs(Struct, frozen=True):
    """What filter and prioritize are asked."""

    pod: Pod
    node_names: list[str]
    """The nodes on offer, in the order sent; may be empty."""
    names_only: bool = True
    """False: whole Node objects were sent, and whole ones are expected back."""
    nodes: dict[str, Raw] = field(default_factory=dict)
    """Node name -> the object's bytes; only when names_only is False."""
    names_json: Raw = _ABSENT
    """``node_names`` as they came, where it was quick to find: the same list goes back as it is."""


class FilterResult(Struct, frozen=True):
    """What filter answers.

    A node that is in none of the three counts to kube-scheduler as failed and
    unresolvable. ``failed`` leaves a node open to preemption; on kube-scheduler
    <= 1.37 preemption breaks on such a node when the in-tree filters pass it, so
    nodes that are held back belong in ``failed_and_unresolvable``. A non-empty
    ``error`` makes kube-scheduler ignore the rest and retry the pod with back-off.
    """

    node_names: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    failed_and_unresolvable: dict[str, str] = field(default_factory=dict)
    error: str = ""
    seat_of: str = ""
    """The gang in which the one node kept is the pod's open seat; never on the wire of HTTP."""


class HostPriority(Struct, frozen=True):
    """One node's score, 0..MAX_SCORE."""

    host: str
    score: int


class _FilterArgs(Struct, rename="pascal"):
    pod: Raw = _ABSENT
    nodes: Raw = _ABSENT
    node_names: list[str] | UnsetType | None = UNSET


class _NodeList(Struct):
    items: list[Raw] | None = None


class _NodeMeta(Struct):
    name: str


class _Node(Struct):
    metadata: _NodeMeta


class _NodesAnswer(Struct):
    metadata: dict[str, str]
    items: list[Raw]


class _FilterAnswer(Struct, rename="pascal"):
    nodes: _NodesAnswer | None
    node_names: Sequence[str] | Raw | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str


class _Score(Struct, rename="pascal"):
    host: str
    score: int


_args = msgspec.json.Decoder(_FilterArgs)
_node_list = msgspec.json.Decoder(_NodeList)
_node = msgspec.json.Decoder(_Node)
_raw = msgspec.json.Decoder(Raw)
_encode = msgspec.json.Encoder().encode
_respell = fields({"Pod": keep, "Nodes": keep, "NodeNames": keep})


def decode_filter_args(body: bytes) -> FilterArgs:
    """Decode ExtenderArgs.

    NodeNames, when not null, wins over Nodes. Raises InvalidInput when the Pod
    is missing or null, when both lists are, and on anything malformed.
    """
    args, names_json = read(_args, body), _ABSENT
    if args.pod is _ABSENT or args.nodes is _ABSENT or args.node_names is UNSET:
        args = read(_args, _respell(read(_raw, body)))
    elif args.node_names:
        names_json = _names_json(body)
    pod = read_pod(args.pod)
    if isinstance(args.node_names, list):
        return FilterArgs(pod, args.node_names, names_json=names_json)
    if is_null(args.nodes):
        raise InvalidInput("neither NodeNames nor Nodes is given", "NodeNames")
    nodes = _named(read(_node_list, args.nodes, "Nodes").items or [])
    return FilterArgs(pod, list(nodes), names_only=False, nodes=nodes)


def _names_json(body: bytes) -> Raw:
    """Return the text of the list in a document that was read, _ABSENT where it is not told soon.

    The only closing bracket behind its beginning is the list's, and what it closes ends the
    document: so it is the document's own, and the last of its key. Encoding 5,000 names takes ten
    times as long as copying them.
    """
    at, last = body.find(_BEFORE_NAMES), body.rfind(b"]}")
    begin = at + len(_BEFORE_NAMES) - 1
    if at < 0 or body.find(b"]", begin) != last or body[last + 2 :].strip():
        return _ABSENT
    return Raw(memoryview(body)[begin : last + 1])


def encode_filter_result(result: FilterResult, args: FilterArgs) -> bytes:
    """Encode ExtenderFilterResult in the form that ``args`` were sent in.

    Raises LookupError when whole nodes are expected and the result names one
    that was not sent: there is no object to give back.
    """
    nodes = None
    if not args.names_only:
        missing = [name for name in result.node_names if name not in args.nodes]
        if missing:
            raise LookupError(f"nodes that were not offered: {', '.join(missing[:5])}")
        nodes = _NodesAnswer({}, [args.nodes[name] for name in result.node_names])
    names: Sequence[str] | Raw = result.node_names
    if names is args.node_names and args.names_json is not _ABSENT:
        names = args.names_json
    return _encode(
        _FilterAnswer(
            nodes=nodes,
            node_names=names if nodes is None else None,
            failed_nodes=result.failed,
            failed_and_unresolvable_nodes=result.failed_and_unresolvable,
            error=result.error,
        )
    )


def encode_priorities(scores: Sequence[HostPriority]) -> bytes:
    """Encode HostPriorityList, a bare array."""
    return _encode([_Score(score.host, score.score) for score in scores])


def _named(objects: list[Raw]) -> dict[str, Raw]:
    nodes: dict[str, Raw] = {}
    for index, raw in enumerate(objects):
        name = read(_node, raw, f"Nodes.items[{index}]").metadata.name
        if not name:
            raise InvalidInput("is empty", f"Nodes.items[{index}].metadata.name")
        nodes[name] = raw
    return nodes
