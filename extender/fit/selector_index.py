"""Which of many label selectors pick a pod, without asking them all.

Whoever may create selectors may create thousands that want, refuse or forbid anything. A label is
looked up once: the table says for which selectors it fulfils a requirement, and for which it breaks
one. Sets of selectors are bits of integers, so that 64 selectors are one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.model.objects import LabelSelector

Scoped = tuple[str, LabelSelector | None]
"""A namespace, and a selector that picks pods of it; None picks none."""
Label = tuple[str, str | None]
"""A key and a value; None: whatever the value is."""
VALUES_EACH = 10
"""How many values the selectors of a namespace may list for each selector that it may have. One
selector may list twenty thousand, and each is looked up by itself."""


class _Table:
    """Labels and the selectors that each concerns; a set is made of those that a pod has only."""

    def __init__(self) -> None:
        self._lists: dict[Label, list[int]] = {}
        self._sets: dict[Label, int] = {}

    def add(self, label: Label, at: int) -> None:
        self._lists.setdefault(label, []).append(at)

    def get(self, label: Label) -> int:
        """Return the selectors as bits."""
        found = self._sets.get(label)
        if found is None:
            listed = self._lists.get(label)
            if listed is None:
                return 0
            found = self._sets[label] = _bits(listed)
        return found


class _Selectors:
    """The selectors of one namespace."""

    def __init__(self, selectors: tuple[LabelSelector | None, ...]) -> None:
        self.selectors = selectors
        self.values = sum(map(_values, selectors))
        self._keys: set[str] = set()
        self._fulfils, self._breaks = _Table(), _Table()
        valid: list[int] = []
        needs: list[list[int]] = []
        for at, selector in enumerate(selectors):
            read = None if selector is None else _read(selector)
            if read is None:
                continue
            valid.append(at)
            wanted, refused = read
            for key, values in wanted.items():
                self._keys.add(key)
                for value in (None,) if values is None else values:
                    self._fulfils.add((key, value), at)
            for key, value in refused:
                self._keys.add(key)
                self._breaks.add((key, value), at)
            number, digit = len(wanted), 0
            while number:
                if len(needs) == digit:
                    needs.append([])
                if number & 1:
                    needs[digit].append(at)
                number, digit = number >> 1, digit + 1
        self._valid = _bits(valid)
        self._needs = [_bits(each) for each in needs]
        """Of how many labels each selector needs, by binary digit: the selectors that have it."""

    def picking(self, labels: Mapping[str, str]) -> int:
        """Return as bits which selectors pick such a pod."""
        broken, keys = 0, self._keys
        counts = [0] * len(self._needs)
        """Of how many needed labels the pod has, as ``_needs``."""
        for key, value in labels.items():
            if key not in keys:
                continue
            broken |= self._breaks.get((key, value)) | self._breaks.get((key, None))
            carry = self._fulfils.get((key, value)) | self._fulfils.get((key, None))
            digit = 0
            while carry:
                # A selector needs a key once, so that no count exceeds what it needs.
                counts[digit], carry = counts[digit] ^ carry, counts[digit] & carry
                digit += 1
        picked = self._valid & ~broken
        for needed, have in zip(self._needs, counts, strict=True):
            picked &= ~(needed ^ have)
        return picked


class SelectorIndex:
    """Selectors by what they ask for; a selector is named by its place among the entries.

    A namespace is crowded with more than ``most`` of them, or with more than VALUES_EACH times
    ``most`` values in them: none of its selectors is read, and each of its pods counts as picked by
    more than ``most``.
    """

    def __init__(
        self,
        entries: Iterable[Scoped] = (),
        last: SelectorIndex | None = None,
        most: int | None = None,
    ) -> None:
        """``last``: an index before this one, with the same ``most``; namespaces with the same
        selectors are its own. ``most`` None: no namespace is crowded."""
        places: dict[str, list[int]] = {}
        selectors: dict[str, list[LabelSelector | None]] = {}
        for at, (namespace, selector) in enumerate(entries):
            places.setdefault(namespace, []).append(at)
            selectors.setdefault(namespace, []).append(selector)
        self._places = places
        self._unread = 0 if most is None else most + 1
        """How many selectors pick a pod at least where they are not read."""
        self._of: dict[str, _Selectors] = {}
        self.crowded: dict[str, int] = {}
        """Namespace -> how many selectors it has."""
        self.namespaces = places.keys()
        """Those with a selector at all."""
        for namespace, listed in selectors.items():
            these, old = tuple(listed), None if last is None else last._of.get(namespace)
            if old is not None and old.selectors == these:
                self._of[namespace] = old
            elif most is not None and _too_many(these, most):
                self.crowded[namespace] = len(these)
            else:
                self._of[namespace] = _Selectors(these)

    def differing(self, other: SelectorIndex) -> set[str]:
        """Return the namespaces whose selectors differ; one index must come from the other."""
        mine, others = self._of, other._of
        found = {
            name for name in mine.keys() | others.keys() if mine.get(name) is not others.get(name)
        }
        return found | (self.crowded.keys() ^ other.crowded.keys())

    def size(self, namespace: str) -> int:
        """Return how many values the namespace's selectors list, 0 where they are not read.

        A selector or a requirement without any counts as one.
        """
        of = self._of.get(namespace)
        return 0 if of is None else of.values

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[int]:
        """Places of the selectors that pick such a pod, ascending; none of a crowded namespace."""
        of = self._of.get(namespace)
        picked = 0 if of is None else of.picking(labels)
        found = []
        while picked:
            lowest = picked & -picked
            found.append(self._places[namespace][lowest.bit_length() - 1])
            picked ^= lowest
        return found

    def count(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Return how many selectors pick such a pod."""
        of = self._of.get(namespace)
        if of is None:
            return max(self.crowded[namespace], self._unread) if namespace in self.crowded else 0
        return of.picking(labels).bit_count()


def _values(selector: LabelSelector | None) -> int:
    """As ``SelectorIndex.size``, of one selector."""
    if selector is None:
        return 1
    return max(1, sum(len(each.values) or 1 for each in selector.requirements))


def _too_many(selectors: tuple[LabelSelector | None, ...], most: int) -> bool:
    """Whether one namespace has more of them, or of their values, than are read."""
    left = VALUES_EACH * most
    for selector in selectors if len(selectors) <= most else ():
        left -= _values(selector)
        if left < 0:
            break
    return len(selectors) > most or left < 0


def _bits(places: list[int]) -> int:
    """Return the integer with these bits; ``places`` ascend."""
    if not places:
        return 0
    found = bytearray((places[-1] >> 3) + 1)
    for at in places:
        found[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(found, "little")


def _read(selector: LabelSelector) -> tuple[dict[str, set[str] | None], set[Label]] | None:
    """Return the keys that it needs with their values (None: any), and the labels that break it.

    None where it picks nothing, as extender.fit.selectors.matches says.
    """
    wanted: dict[str, set[str] | None] = {}
    refused: set[Label] = set()
    for requirement in selector.requirements:
        key, operator, values = requirement.key, requirement.operator, requirement.values
        if bool(values) != (operator in ("In", "NotIn")):
            return None  # malformed
        if operator == "In":
            before = wanted.get(key)
            wanted[key] = set(values) if before is None else before.intersection(values)
        elif operator == "NotIn":
            refused.update((key, value) for value in values)
        elif operator == "Exists":
            wanted.setdefault(key, None)
        elif operator == "DoesNotExist":
            refused.add((key, None))
        else:
            return None  # Gt and Lt do not exist in label selectors
    return wanted, refused
