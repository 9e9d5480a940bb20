"""ExtenderPreemptionArgs in, ExtenderPreemptionResult out.

With nodeCacheCapable the victims come as UIDs (NodeNameToMetaVictims), without
it as whole Pods (NodeNameToVictims), of which only the UID is read. The answer
is UIDs either way. There is no error field: a failure is a non-200 answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.wire.pod_json import read_pod
from extender.wire.reading import read
from extender.wire.spelling import fields, items, keep, values

_ABSENT = Raw()
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class NodeVictims(Struct, frozen=True):
    """The victims on one node.

    In a question ``uids`` may be empty: kube-scheduler 1.38 offers nodes that
    only an extender's filter refused. In an answer it must not be: up to 1.37
    one empty entry makes the whole answer an error. Answers are by descending
    priority, since kube-scheduler takes the first for the most important.
    """

    uids: tuple[str, ...]
    pdb_violations: int = 0


class PreemptArgs(Struct, frozen=True):
    """What preempt is asked."""

    pod: Pod
    candidates: dict[str, NodeVictims]
    """Node name -> the pods that kube-scheduler would evict there."""


class PreemptResult(Struct, frozen=True):
    """What preempt answers; no candidate at all means: evict nothing, wait."""

    candidates: dict[str, NodeVictims] = field(default_factory=dict)


def victims_of(candidates: Mapping[str, NodeVictims]) -> dict[str, tuple[str, ...]]:
    """Return the uids of the pods that kube-scheduler would evict, by node."""
    return {node: found.uids for node, found in candidates.items()}


class _MetaPod(Struct):
    uid: str | UnsetType = field(default=UNSET, name="UID")


class _MetaVictims(Struct):
    pods: list[_MetaPod] | UnsetType | None = field(default=UNSET, name="Pods")
    violations: _Count | UnsetType | None = field(default=UNSET, name="NumPDBViolations")


class _PodMeta(Struct):
    uid: str = ""


class _WholePod(Struct):
    metadata: _PodMeta = field(default_factory=_PodMeta)


class _Victims(Struct):
    pods: list[_WholePod] | UnsetType | None = field(default=UNSET, name="Pods")
    violations: _Count | UnsetType | None = field(default=UNSET, name="NumPDBViolations")


class _PreemptArgs(Struct):
    pod: Raw = field(default=_ABSENT, name="Pod")
    victims: dict[str, _Victims | None] | UnsetType | None = field(
        default=UNSET, name="NodeNameToVictims"
    )
    meta: dict[str, _MetaVictims | None] | UnsetType | None = field(
        default=UNSET, name="NodeNameToMetaVictims"
    )


class _AnswerPod(Struct):
    uid: str = field(name="UID")


class _AnswerVictims(Struct):
    pods: list[_AnswerPod] = field(name="Pods")
    violations: int = field(name="NumPDBViolations")


class _PreemptAnswer(Struct):
    victims: dict[str, _AnswerVictims] = field(name="NodeNameToMetaVictims")


_args = msgspec.json.Decoder(_PreemptArgs)
_raw = msgspec.json.Decoder(Raw)
_encode = msgspec.json.Encoder().encode
_respell = fields(
    {
        "Pod": keep,
        "NodeNameToVictims": values(fields({"Pods": keep, "NumPDBViolations": keep})),
        "NodeNameToMetaVictims": values(
            fields({"Pods": items(fields({"UID": keep})), "NumPDBViolations": keep})
        ),
    }
)


def decode_preempt_args(body: bytes) -> PreemptArgs:
    """Decode ExtenderPreemptionArgs.

    Of the two maps the one that has entries counts, the UIDs first. Raises
    InvalidInput when the Pod is missing or null, when both maps are, when a
    victim has no UID, and on anything malformed.
    """
    args = read(_args, body)
    if not _spelt_as_go_does(args):
        args = read(_args, _respell(read(_raw, body)))
    pod = read_pod(args.pod)
    meta = args.meta if isinstance(args.meta, dict) else None
    victims = args.victims if isinstance(args.victims, dict) else None
    if meta is None and victims is None:
        raise InvalidInput(
            "neither NodeNameToMetaVictims nor NodeNameToVictims is given",
            "NodeNameToMetaVictims",
        )
    if meta or not victims:
        return PreemptArgs(pod, _from_meta(meta or {}))
    return PreemptArgs(pod, _from_victims(victims))


def encode_preempt_result(result: PreemptResult) -> bytes:
    """Encode ExtenderPreemptionResult."""
    return _encode(
        _PreemptAnswer(
            {
                node: _AnswerVictims([_AnswerPod(uid) for uid in one.uids], one.pdb_violations)
                for node, one in result.candidates.items()
            }
        )
    )


def _spelt_as_go_does(args: _PreemptArgs) -> bool:
    """Whether every field is there; Go's encoder writes all of them, empty or not."""
    if args.pod is _ABSENT or args.victims is UNSET or args.meta is UNSET:
        return False
    for one in (args.meta or {}).values():
        if one is None:
            continue
        if one.pods is UNSET or one.violations is UNSET:
            return False
        if any(pod.uid is UNSET for pod in one.pods or ()):
            return False
    return not any(
        other is not None and (other.pods is UNSET or other.violations is UNSET)
        for other in (args.victims or {}).values()
    )


def _from_meta(found: Mapping[str, _MetaVictims | None]) -> dict[str, NodeVictims]:
    candidates: dict[str, NodeVictims] = {}
    for node, one in found.items():
        pods = [] if one is None else one.pods or []
        uids = [pod.uid if isinstance(pod.uid, str) else "" for pod in pods]
        where = f"NodeNameToMetaVictims[{node!r}].Pods"
        candidates[node] = _candidate(uids, one, where, "UID")
    return candidates


def _from_victims(found: Mapping[str, _Victims | None]) -> dict[str, NodeVictims]:
    candidates: dict[str, NodeVictims] = {}
    for node, one in found.items():
        pods = [] if one is None else one.pods or []
        uids = [pod.metadata.uid for pod in pods]
        where = f"NodeNameToVictims[{node!r}].Pods"
        candidates[node] = _candidate(uids, one, where, "metadata.uid")
    return candidates


def _candidate(
    uids: list[str], one: _MetaVictims | _Victims | None, where: str, key: str
) -> NodeVictims:
    if "" in uids:
        raise InvalidInput("is missing or empty", f"{where}[{uids.index('')}].{key}")
    violations = one.violations if one is not None else 0
    return NodeVictims(tuple(uids), violations if isinstance(violations, int) else 0)
