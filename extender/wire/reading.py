"""One way to turn what the decoder dislikes into an error that says what and where."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from msgspec import Raw

from extender.model.errors import InvalidInput

T = TypeVar("T")
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)


def read(decoder: msgspec.json.Decoder[T], document: bytes | Raw, where: str = "") -> T:
    """Return the decoded document. Raises InvalidInput with the path below ``where``."""
    try:
        return decoder.decode(document)
    except RecursionError:
        raise InvalidInput("JSON is nested too deeply", where) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"JSON is not UTF-8 ({error.reason})", where) from None
    except msgspec.MsgspecError as error:
        match = _PLACE.fullmatch(str(error))
        what, path = (match["what"], match["path"] or "") if match else (str(error), "")
        dot = "." if where and path and not path.startswith("[") else ""
        raise InvalidInput(what, f"{where}{dot}{path}") from None


def starts(raw: Raw, mark: bytes) -> bool:
    """Whether the value's JSON text begins with ``mark``; looks at its head only."""
    return bytes(memoryview(raw)[:64]).lstrip().startswith(mark)


def is_null(raw: Raw) -> bool:
    """Whether the value is null, or was not there at all (an empty Raw)."""
    return not memoryview(raw).nbytes or starts(raw, b"n")
