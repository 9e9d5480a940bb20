"""A long question in a thread of its own, so that a signal can end it with what it has."""

from __future__ import annotations

import signal
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TypeVar

Answer = TypeVar("Answer")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_SECONDS = 0.05


def interruptible(ask: Callable[[array[int]], Answer]) -> Answer:
    """Return ``ask(flag)``; SIGTERM or SIGINT sets the flag, a second one ends the process.

    Compiled loops run no signal handler; they run beside the main thread, which does.
    """
    flag = array("b", [0])

    def stop(number: int, _: FrameType | None) -> None:
        if flag[0]:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        flag[0] = 1

    if threading.current_thread() is not threading.main_thread():
        return ask(flag)
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(ask, flag)
            while not future.done():
                threading.Event().wait(LOOK_SECONDS)
            return future.result()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
