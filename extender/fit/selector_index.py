"""Which of many label selectors pick a pod, without asking them all.

A selector that wants one of some values under a key is looked up by the pod's own value;
only the rest, which are rare, are asked one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.fit.selectors import matches
from extender.model.objects import LabelSelector

Scoped = tuple[str, LabelSelector | None]
"""A namespace, and a selector that picks pods of it; None picks none."""


class SelectorIndex:
    """Selectors by what they ask for; a selector is named by its place in ``entries``."""

    def __init__(self, entries: Iterable[Scoped] = ()) -> None:
        self.entries = tuple(entries)
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        self._others: dict[str, list[int]] = {}
        self._namespaces: set[str] = set()
        for at, (namespace, selector) in enumerate(self.entries):
            if selector is None:
                continue
            self._namespaces.add(namespace)
            wanted = next((r for r in selector.requirements if r.operator == "In"), None)
            if wanted is None:
                self._others.setdefault(namespace, []).append(at)
            else:
                for value in dict.fromkeys(wanted.values):
                    self._by_label.setdefault((namespace, wanted.key, value), []).append(at)

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[int]:
        """Places of the selectors that pick such a pod, ascending."""
        if namespace not in self._namespaces:
            return []
        places = list(self._others.get(namespace, ()))
        for key, value in labels.items():
            places += self._by_label.get((namespace, key, value), ())
        return sorted(at for at in places if matches(self.entries[at][1], labels))
