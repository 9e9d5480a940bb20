"""By which labels and annotations a pod shows that it may belong to a gang.

For those who tell members from other pods without asking (a scheduler with a mirror of the seats).
A pod with none of these keys and no spec.schedulingGroup is of no gang that waits for its members;
one that has a key may still be of none, and has to be asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extender.groups.dialect import Dialect
from extender.groups.indexed_job import IndexedJobDialect
from extender.groups.registry import chosen
from extender.settings.settings import GroupSettings


def gang_keys(settings: GroupSettings) -> tuple[str, ...]:
    """Return the keys of the dialects that are enabled, sorted.

    Indexed Jobs only where groups.startsWhole makes them wait: they are many.
    Raises InvalidInput for settings that name no dialect.
    """
    waiting = (each for each in chosen(settings) if _waits(each.name, settings))
    return tuple(sorted(all_keys(waiting)))


def all_keys(dialects: Iterable[Dialect]) -> frozenset[str]:
    """Return the keys of all these dialects, whether their gangs wait or not."""
    return frozenset(key for dialect in dialects for key in dialect.keys)


def explicit_keys(dialects: Iterable[Dialect]) -> dict[str, int]:
    """Return, by key, of how many of the explicit dialects it is: a pod with keys of less than
    two of them names one group at most."""
    return dict(Counter(key for each in dialects if each.explicit for key in each.keys))


def waits_for_jobs(settings: GroupSettings) -> bool:
    """Return whether Indexed Jobs start whole: only then their size matters."""
    name = IndexedJobDialect.name
    return name in settings.dialects and _waits(name, settings)


def _waits(name: str, settings: GroupSettings) -> bool:
    return name != IndexedJobDialect.name or settings.starts_whole.get(
        name, IndexedJobDialect.starts_whole
    )
