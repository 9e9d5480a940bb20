"""Injected time."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct


class Clocks(Struct, frozen=True):
    """``monotonic`` drives deadlines; ``wall`` is only written down."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
