"""Is every configuration key and every metric found by the search of the site?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from extender.settings.settings import Settings
from tools.docs import reference

Index = Mapping[str, Any]


def read(script: str) -> Index:
    """Return what ``searchindex.js`` has."""
    index: Index = json.loads(script[script.index("(") + 1 : script.rindex(")")])
    return index


def names() -> Iterator[str]:
    """Yield every key and every metric."""
    yield from (key.path for key in reference.keys(Settings))
    yield from (metric.name for metric in reference.metrics())


def unfound(index: Index, wanted: Iterable[str], stem: Callable[[str], str]) -> Iterator[str]:
    """Yield the names for which the search finds no page that has all their words.

    ``stem``: how the index shortens a word.
    """
    for name in wanted:
        words = [stem(word.lower()) for word in re.findall(r"\w+", name)]
        if not set.intersection(*(_pages(index, word) for word in words)):
            yield name


def _pages(index: Index, word: str) -> set[int]:
    found: set[int] = set()
    for terms in (index["terms"], index["titleterms"]):
        pages = terms.get(word, [])
        found |= {pages} if isinstance(pages, int) else set(pages)
    return found
