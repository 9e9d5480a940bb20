"""Injected time."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct


class Clocks(Struct, frozen=True):
    """``monotonic`` drives what we wait for; ``wall`` is compared with times that objects state."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


def boot_time() -> float:
    """Return a clock that goes on while the process is stopped or the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


LEASE_CLOCKS = Clocks(monotonic=boot_time)
