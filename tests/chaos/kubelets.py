"""What kubelets do again until it works, and the bed's kwok does once or not at all."""

from __future__ import annotations

import functools
import time
from collections import Counter
from contextlib import suppress
from http.client import HTTPException

from tests.chaos.bed import Bed
from tests.chaos.history import History
from tests.controlplane.client import ApiError

SCHEDULER_ENDED = "kube-scheduler ended by itself and was started again"
STUCK = "pods that kwok did not remove after a failed request"
STUCK_SECONDS = 15.0
"""After so long at rest no pod is on its way out by its grace period, which is 5 s at most."""


async def look_after(bed: Bed, history: History, notes: Counter[str], since: float) -> None:
    """Start kube-scheduler where it has ended, and remove pods whose removal failed once.

    kube-scheduler ends itself when its cache contradicts its watch (pkg/scheduler/backend/cache:
    "Scheduler cache is corrupted"), and relies on being started again. kwok does not repeat a
    stage whose request failed, so that a pod may stay on its way out for good. ``since``: wall
    clock time at which the rest began.
    """
    if await bed.in_thread(bed.revive_scheduler):
        notes[SCHEDULER_ENDED] += 1
    for uid, life in list(history.pods.items()):
        if not (life.exists and life.deleting_at) or life.finished_at:
            continue
        if time.time() - max(since, life.deleting_at) > STUCK_SECONDS:
            notes[STUCK] += 1
            remove = functools.partial(
                bed.client.delete, "Pod", life.seen.name, grace=0, uid=uid, missing_ok=True
            )
            with suppress(OSError, HTTPException, ApiError):
                await bed.in_thread(remove)
