"""A plugin of pytest: what a test waits for comes soon, or never.

Tests wait for a minute, since machines may be slow. Where a rule was taken out, what they wait for
often never comes. The same tests run so with nothing taken out, which shows that it is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from tests.gang.rig import Rig

PATIENCE = 15.0
T = TypeVar("T")
_timeout, _wait_for = asyncio.timeout, asyncio.wait_for


def timeout(delay: float | None) -> asyncio.Timeout:
    """As asyncio.timeout, of PATIENCE seconds at most."""
    return _timeout(None if delay is None else min(delay, PATIENCE))


async def wait_for(what: Awaitable[T], timeout: float | None) -> T:
    """As asyncio.wait_for, of PATIENCE seconds at most."""
    return await _wait_for(what, None if timeout is None else min(timeout, PATIENCE))


asyncio.timeout = timeout
asyncio.wait_for = wait_for  # type: ignore[assignment]
Rig.patience = PATIENCE
