"""Any letter case in, Go's spelling out.

Go's decoder takes ``NODENAMES`` for ``NodeNames`` (an upstream test pins it), so
somebody may send it. Typed decoders below know Go's spelling alone; a document
that lacks it is rewritten here first. The detour costs a second pass, which
kube-scheduler's own documents never take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Raw

from extender.wire.reading import read, starts

Rewrite = Callable[[Raw], Raw]

_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])
_encode = msgspec.json.Encoder().encode


def keep(value: Raw) -> Raw:
    """Return the value as it is."""
    return value


def fields(known: Mapping[str, Rewrite]) -> Rewrite:
    """Rewrite an object's keys to the known spelling; the last of two spellings wins.

    Other keys are dropped. A value that is no object is returned as it is: the
    typed decoder that follows has the better message.
    """
    by_fold = {name.casefold(): (name, rewrite) for name, rewrite in known.items()}

    def rewrite_fields(value: Raw) -> Raw:
        if not starts(value, b"{"):
            return value
        found: dict[str, Raw] = {}
        for key, inner in read(_object, value).items():
            match = by_fold.get(key.casefold())
            if match is not None:
                found[match[0]] = match[1](inner)
        return Raw(_encode(found))

    return rewrite_fields


def values(rewrite: Rewrite) -> Rewrite:
    """Rewrite every value of an object whose keys are names, not fields."""

    def rewrite_values(value: Raw) -> Raw:
        if not starts(value, b"{"):
            return value
        return Raw(_encode({k: rewrite(v) for k, v in read(_object, value).items()}))

    return rewrite_values


def items(rewrite: Rewrite) -> Rewrite:
    """Rewrite every item of an array."""

    def rewrite_items(value: Raw) -> Raw:
        if not starts(value, b"["):
            return value
        return Raw(_encode([rewrite(v) for v in read(_array, value)]))

    return rewrite_items
