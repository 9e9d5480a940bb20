"""Whether pods find room, answered by trying all ways and without the extender's own code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def fits(free: Mapping[str, int], wants: Iterable[int]) -> bool:
    """Return whether pods of these sizes fit into the nodes' free CPU."""
    sizes = sorted(wants, reverse=True)
    if len(set(sizes)) == 1:
        return sum(max(0, room) // sizes[0] for room in free.values()) >= len(sizes)
    return _place(sorted(free.values(), reverse=True), sizes, 0)


def _place(free: list[int], sizes: list[int], at: int) -> bool:
    if at == len(sizes):
        return True
    tried = set()
    for index, room in enumerate(free):
        if room >= sizes[at] and room not in tried:
            tried.add(room)
            free[index] -= sizes[at]
            found = _place(free, sizes, at + 1)
            free[index] += sizes[at]
            if found:
                return True
    return False
