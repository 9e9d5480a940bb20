"""What is smaller in a simulation: the API server's objects, groups, samples of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from extender.cache import cache
from extender.cache.discovery import CANDIDATES
from extender.gang.core import record
from extender.gang.plan import lists
from extender.model.group_sources import OPTIONAL
from extender.sandbox import api_admission


class SmallObjects:
    """The sizes: of a part of a plan record, and what the API server takes."""

    part = 160
    most = 200


@contextmanager
def small_objects(*, small: bool) -> Iterator[None]:
    """Let the API server refuse larger objects, and the extender know it."""
    with ExitStack() as stack:
        if small:
            stack.enter_context(patch.object(api_admission, "MOST_DATA", SmallObjects.most))
            stack.enter_context(patch.object(record, "PART_BYTES", SmallObjects.part))
        yield


@contextmanager
def few_sources(*, few: bool) -> Iterator[None]:
    """Let the extender ask only for those groups that a simulation has objects of.

    Asking for the others (404 each) would be most of all requests of a small world.
    """
    with ExitStack() as stack:
        if few:
            asked = {name: paths for name, paths in CANDIDATES.items() if name not in OPTIONAL}
            stack.enter_context(patch.object(cache, "CANDIDATES", asked))
        yield


@contextmanager
def small_samples(least: int) -> Iterator[None]:
    """Let the extender know that kube-scheduler offers parts of so many nodes; 0: as in truth."""
    with ExitStack() as stack:
        if least:
            stack.enter_context(patch.object(lists, "SMALLEST_SAMPLE", least))
        yield
