"""Messages that many get to read, cut to a length that many can be sent; and times in words."""

from __future__ import annotations

import unicodedata
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


_HIDDEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""General categories without a glyph: controls, formats (those that turn the order or change the
width of what stands beside them), lone halves, separators of lines and of paragraphs."""
_IGNORABLE: Final = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065)),
    *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point of the Unicode Character Database beyond the categories above, from
and to: DerivedCoreProperties.txt. Python does not have it; the ranges are closed, what is assigned
in them later is ignorable too."""


def _shows(character: str) -> bool:
    if unicodedata.category(character) in _HIDDEN:
        return character in "\n\t"
    code = ord(character)
    return not any(first <= code <= last for first, last in _IGNORABLE)


def _unseen_of(text: str) -> list[str]:
    """Return the characters of a text that would not show, each once."""
    if text.isascii() and text.isprintable():
        return []
    return [each for each in set(text) if not _shows(each)]


def visible(text: str, mark: str) -> str:
    """Return a text in which every character shows: ``mark`` for each that would not.

    Line ends and tabs stay.
    """
    hidden = _unseen_of(text)
    return text.translate(dict.fromkeys(map(ord, hidden), mark)) if hidden else text


def unseen(text: str) -> bool:
    """Whether a character of the text would not show, line ends and tabs apart."""
    return bool(_unseen_of(text))


def escaped(text: str) -> str:
    """Return JSON, or YAML of quoted texts, with an escape for each character that would not show.

    It reads the same: both know the escape, and such characters stand in their quoted texts only.
    Beyond 16 bits it is JSON's, in two halves; PyYAML has escaped those by itself.
    """
    hidden = _unseen_of(text)
    return text.translate({ord(each): _escape(each) for each in hidden}) if hidden else text


def _escape(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


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


def clean(text: str) -> str:
    """Return a text as one line in which all shows: what a webhook or a name says moves no cursor.

    Nor does it turn the order of what stands beside it.
    """
    return visible(text.replace("\n", " ").replace("\t", " "), "?")
