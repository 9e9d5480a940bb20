"""An API server that takes small objects only, so that a small plan needs several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from extender.gang.act import record
from extender.sandbox import admission


class SmallObjects:
    """The sizes: of a part of a plan record, and what the API server takes."""

    part = 160
    most = 200


@contextmanager
def small_objects(*, small: bool) -> Iterator[None]:
    """Let the API server refuse larger objects, and the extender know it."""
    with ExitStack() as stack:
        if small:
            stack.enter_context(patch.object(admission, "MOST_DATA", SmallObjects.most))
            stack.enter_context(patch.object(record, "PART_BYTES", SmallObjects.part))
        yield
