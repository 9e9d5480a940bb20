"""Pods without a seat that others' seats kept waiting, and how kube-scheduler is made to try them.

It tries a pod that an extender refused when a pod or node changes, at the latest after five
minutes; that a plan is over is no such change, so the pod itself is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from msgspec import Struct

from extender.gang.act.background import Background, each
from extender.gang.act.clocks import Clocks
from extender.gang.act.notifier import Notifier
from extender.model.objects import Pod
from extender.model.shares import Shares
from extender.model.snapshot import Snapshot

MAX_HELD_BACK = 4096
"""Who is not among them waits until kube-scheduler tries it of itself, five minutes at most: where
there are more, the namespace with most of them makes room."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0

Value = TypeVar("Value")


class _Held(Struct, frozen=True):
    pod: Pod
    unit: str
    """What it waits to see gone, "" = a seat is in its way."""


class HeldBack:
    """Remembers and wakes them. ``snapshot`` gives the newest state, ``gate`` bounds all hints."""

    def __init__(
        self,
        notifier: Notifier,
        snapshot: Callable[[], Snapshot],
        clocks: Clocks,
        background: Background,
        gate: asyncio.Semaphore,
        at_a_time: int,
    ) -> None:
        self._notifier = notifier
        self._snapshot = snapshot
        self._clocks = clocks
        self._spawn = background.spawn
        self._gate = gate
        self._at_a_time = at_a_time
        self._kept: Shares[str, _Held] = Shares(MAX_HELD_BACK)
        """By uid, to be woken when a plan ends."""
        self._failed: Shares[str, Pod] = Shares(MAX_HELD_BACK)
        """By uid, those that could not be woken."""
        self._again_at = 0.0
        self._pause = FIRST_PAUSE

    def note(self, pod: Pod, unit: str = "") -> None:
        """Remember a pod without a seat that a seat kept off a node: of no gang, or beyond the
        quorum that is being seated; or that waits until its ``unit`` has gone."""
        _put(self._kept, pod, _Held(pod, unit))

    def tried(self, pod: Pod) -> None:
        """kube-scheduler tries a pod again of itself: it need not be woken for what was before."""
        self._failed.pop(pod.uid)

    def gone(self, pod: Pod) -> None:
        """Forget a pod that is bound or gone."""
        self._kept.pop(pod.uid)
        self._failed.pop(pod.uid)

    def pods(self) -> list[Pod]:
        """Return those that are to be woken when a plan ends, the oldest first."""
        return [held.pod for held in self._kept.values()]

    def wake_all(self) -> None:
        """Wake the pods that a seat has kept waiting."""
        waiting, self._kept = self.pods(), Shares(MAX_HELD_BACK)
        self.wake(waiting)

    def units(self) -> set[str]:
        """Return what some of them wait to see gone."""
        return {held.unit for held in self._kept.values() if held.unit}

    def unit_ended(self, name: str) -> None:
        """Wake those who wait until this unit has gone."""
        self.units_ended({name})

    def units_ended(self, names: AbstractSet[str]) -> None:
        """Wake those who wait until one of these units has gone, or goes no more."""
        waiting = [held.pod for held in self._kept.values() if held.unit in names]
        for pod in waiting:
            self._kept.pop(pod.uid)
        self.wake(waiting)

    def wake(self, pods: Sequence[Pod]) -> None:
        """Wake pods that have no seat."""
        if pods:
            self._spawn(self._wake(pods))

    def round(self) -> None:
        """Try again to wake some that could not be written, namespaces by turns.

        Not all at once: it may be that none can be, or none of a namespace with thousands.
        """
        now = self._clocks.monotonic()
        if not len(self._failed) or now < self._again_at:
            return
        self._again_at = now + self._pause
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        pending = self._snapshot().pending
        failed = [self._failed.take() for _ in range(self._at_a_time)]
        self.wake([pod for pod in failed if pod is not None and pod.uid in pending])

    async def _wake(self, pods: Sequence[Pod]) -> None:
        moment = self._clocks.wall()

        async def one(pod: Pod) -> None:
            async with self._gate:
                woken = await self._notifier.wake(pod, "", moment)
            if woken:
                self._pause = FIRST_PAUSE
            else:
                _put(self._failed, pod, pod)

        await each(pods, self._at_a_time, one)


def _put(kept: Shares[str, Value], pod: Pod, value: Value) -> None:
    if pod.uid in kept or kept.takes(pod.namespace):
        kept.put(pod.uid, value, pod.namespace)
