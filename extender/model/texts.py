"""Messages that many get to read, cut to a length that many can be sent; and times in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

MOST_BYTES = 256
"""Of one message: kube-scheduler is sent one for each node, and repeats them in events."""
END = "..."


def cut(text: str, most: int = MOST_BYTES) -> str:
    """Return the text, or as much of its beginning as fits into ``most`` bytes of UTF-8."""
    if len(text) <= most // 4:
        return text
    data = text.encode(errors="replace")
    if len(data) <= most:
        return text
    return data[: most - len(END)].decode(errors="ignore") + END


def one_reason(text: str) -> str:
    """Return a text as one entry of a list that kube-scheduler makes, with commas between."""
    return cut(text.replace(", ", "; "))


_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
"""Control characters, and those that change the order or the width of what stands beside them."""


def visible(text: str, mark: str) -> str:
    """Return a text in which every character shows: ``mark`` for each that would not.

    Line ends and tabs stay.
    """
    return _UNSEEN.sub(mark, text)


def unseen(text: str) -> bool:
    """Whether a character of the text would not show, line ends and tabs apart."""
    return _UNSEEN.search(text) is not None


def escaped(text: str) -> str:
    """Return JSON, or YAML of quoted texts, with an escape for each character that would not show.

    It reads the same: both know the escape, and such characters stand in their quoted texts only.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


LAST: Final = 253_402_300_799.0
"""9999-12-31T23:59:59Z, in seconds since the epoch."""


def some(parts: Sequence[str], most: int = 3, of: int | None = None, by: str = ", ") -> str:
    """Return a few parts as one text, and how many more there are of ``of`` in all."""
    left = (len(parts) if of is None else of) - most
    return by.join(parts[:most]) + (f" and {left} more" if left > 0 else "")


def counted(count: int, what: str, one: str = "", several: str = "") -> str:
    """Return a number of things as text: "1 pod", "2 pods"; ``what`` is the singular.

    With a verb for one and for several of them: "1 pod goes", "2 pods go".
    """
    verb = one if count == 1 else several
    return f"{count} {noun(count, what)}" + (verb and f" {verb}")


def all_of(count: int, what: str, one: str, several: str) -> str:
    """Return all of a number of things with a verb: "the 1 pod goes", "all 2 pods go"."""
    return f"{'the' if count == 1 else 'all'} {counted(count, what, one, several)}"


def noun(count: int, what: str) -> str:
    """Return what stands behind a number: "pod", "pods"; ``what`` is the singular."""
    if count == 1:
        return what
    return what[:-1] + "ies" if what.endswith("ry") else f"{what}s"


def rfc3339(seconds: float) -> str:
    """Return seconds since the epoch as the API writes times; the last it can write if later.

    A pod may have a grace period of 9e18 seconds.
    """
    return datetime.fromtimestamp(max(0.0, min(seconds, LAST)), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
