"""ExtenderBindingArgs in, ExtenderBindingResult out.

kube-scheduler does not read the body of anything but a 200, so a refusal that its owner should see
(it becomes the text of a FailedScheduling event) travels as ``error``.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from extender.model.errors import InvalidInput
from extender.wire.reading import read
from extender.wire.spelling import fields, keep


class BindArgs(Struct, frozen=True):
    """What bind is asked: give this pod that node."""

    name: str
    namespace: str
    uid: str
    node: str


class BindResult(Struct, frozen=True):
    """What bind answers: "" when the pod is bound, else why it is not."""

    error: str = ""


class _BindArgs(Struct):
    name: str | UnsetType = field(default=UNSET, name="PodName")
    namespace: str | UnsetType = field(default=UNSET, name="PodNamespace")
    uid: str | UnsetType = field(default=UNSET, name="PodUID")
    node: str | UnsetType = field(default=UNSET, name="Node")


class _BindAnswer(Struct):
    error: str = field(name="Error")


_args = msgspec.json.Decoder(_BindArgs)
_raw = msgspec.json.Decoder(msgspec.Raw)
_encode = msgspec.json.Encoder().encode
_respell = fields({"PodName": keep, "PodNamespace": keep, "PodUID": keep, "Node": keep})


def decode_bind_args(body: bytes) -> BindArgs:
    """Decode ExtenderBindingArgs. Raises InvalidInput when a field is missing or empty."""
    args = read(_args, body)
    if UNSET in (args.name, args.namespace, args.uid, args.node):
        args = read(_args, _respell(read(_raw, body)))
    return bind_args(
        PodName=args.name, PodNamespace=args.namespace, PodUID=args.uid, Node=args.node
    )


def bind_args(**named: str | UnsetType) -> BindArgs:
    """Return the question. Raises InvalidInput that names the first field without a value."""
    for name, value in named.items():
        if not isinstance(value, str) or not value:
            raise InvalidInput("is missing or empty", name)
    return BindArgs(*(str(value) for value in named.values()))


def encode_bind_result(result: BindResult) -> bytes:
    """Encode ExtenderBindingResult."""
    return _encode(_BindAnswer(result.error))
