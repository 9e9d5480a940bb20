"""Seconds of the running event loop that pass at once: what must not happen has had its time.

A sleep before "nothing has happened" shows little: on a busy machine what should not happen is
merely late. Here every timer that falls due has run, however slow the machine is, and what its code
asks for in this process over loopback has been answered. What a thread or another process does is
not waited for.
"""

from __future__ import annotations

import asyncio

TURNS = 50
"""Of the loop; a request over loopback and its answer take about fifteen."""


async def turns(number: int = TURNS) -> None:
    """Let the loop go round so often: what is ready runs, and no time passes for timers."""
    for _ in range(number):
        await asyncio.sleep(0)


async def passes(seconds: float) -> None:
    """Let the loop's clock go on by so much, timer by timer, in the order in which they are due.

    Only what reads the loop's clock (asyncio.sleep, timeout, call_later) sees that time has passed.
    """
    loop = asyncio.get_running_loop()
    clock, ahead = loop.time, 0.0
    end = clock() + seconds
    loop.time = lambda: clock() + ahead  # type: ignore[method-assign]
    while True:
        await turns()
        timers = loop._scheduled  # type: ignore[attr-defined]
        due = min((timer.when() for timer in timers if not timer.cancelled()), default=end)
        ahead += max(0.0, min(due, end) - loop.time())
        if due >= end:
            break
    await turns()
