"""The end of the process, whatever its threads do."""

from __future__ import annotations

import os
import sys
import threading
import time

from extender.gang.controller.planner_thread import THREADS

WAIT_SECONDS = 2.0
"""How long a search that was told to stop may take for it."""


def leave_behind(status: int) -> None:
    """Return when no search runs any more; else end the process here and now.

    Python waits for every thread before it ends, so one search that cannot be stopped would
    keep the process until it is killed. Plans under way are recorded: nothing is lost.
    """
    until = time.monotonic() + WAIT_SECONDS
    searches = [each for each in threading.enumerate() if each.name.startswith(THREADS)]
    for each in searches:
        each.join(max(0.0, until - time.monotonic()))
    if any(each.is_alive() for each in searches):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
