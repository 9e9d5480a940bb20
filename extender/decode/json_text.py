"""JSON from outside as a typed value: whatever is wrong with it is one kind of error."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from extender.model.errors import InvalidInput

Shape = TypeVar("Shape")
TOO_DEEP = "too many lists and mappings in one another"


def decoded(data: bytes | Raw, shape: type[Shape]) -> Shape:
    """Return a JSON document as a shape. Raises InvalidInput, which says what is wrong and where.

    msgspec raises an error of Python's, not of its own, for text that is no UTF-8 and for lists in
    one another without an end.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except RecursionError:
        raise InvalidInput(TOO_DEEP) from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as problem:
        raise InvalidInput(str(problem)) from problem
