"""Injected time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct


class Clocks(Struct, frozen=True):
    """``monotonic`` drives what is waited for; ``wall`` is compared with times that objects state.

    ``sleep`` is how a request that failed waits for its next try.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def boot_time() -> float:
    """Return a clock that goes on while the process is stopped or the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


LEASE_CLOCKS = Clocks(monotonic=boot_time)
