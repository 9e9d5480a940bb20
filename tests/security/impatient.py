"""A plugin of pytest: what a test waits for comes soon, or never.

Tests wait for a minute, since machines may be slow. Where a rule was taken out, what they wait for
often never comes. The same tests run so with nothing taken out, which shows that it is enough.
"""

from __future__ import annotations

import asyncio

from tests.gang.rig import Rig

PATIENCE = 15.0
_timeout = asyncio.timeout


def timeout(delay: float | None) -> asyncio.Timeout:
    """As asyncio.timeout, of PATIENCE seconds at most."""
    return _timeout(None if delay is None else min(delay, PATIENCE))


asyncio.timeout = timeout
Rig.patience = PATIENCE
