"""Disruption budgets that come, or allow more or less, while a plan is under way."""

from __future__ import annotations

import random
import time

from tests.chaos.groups import GROUP_LABEL
from tests.chaos.history import PodLife
from tests.chaos.injecting import Injection
from tests.controlplane.objects import make_pdb

NAME = "changed"


class BudgetFaults:
    """One at a time; the budget is gone when the fault is over."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection

    async def change(self, rng: random.Random) -> None:
        """A budget comes over a group that runs, most likely one that goes now: it allows
        nothing, then anything, and then it is deleted."""
        groups = self._groups(marked=True) or self._groups(marked=False)
        if not groups:
            return
        name, share = rng.choice(groups), rng.choice((1, "100%"))
        client = self._injection.bed.client
        tight = {"minAvailable": 1000} if rng.random() < 0.5 else {"maxUnavailable": 0}
        async with self._injection.fault("budget changed", f"{tight} on {name}"):
            self._injection.history.disturb(time.time(), f"budget over {name}")
            budget = make_pdb(NAME, {GROUP_LABEL: name}, **tight)
            await self._injection.blocking(lambda: client.create(budget))
            await self._injection.pause(rng.choice((0.5, 3.0, 8.0)))
            loose = {**dict.fromkeys(tight), "minAvailable": None, "maxUnavailable": share}
            await self._injection.blocking(
                lambda: client.patch("PodDisruptionBudget", NAME, {"spec": loose})
            )
            await self._injection.pause(rng.choice((0.0, 2.0)))
        await self.restore()

    async def restore(self) -> None:
        """Take the budget away, also one that was left since the API server was down."""
        client = self._injection.bed.client
        await self._injection.blocking(
            lambda: client.delete("PodDisruptionBudget", NAME, missing_ok=True)
        )

    def _groups(self, *, marked: bool) -> list[str]:
        """Groups that run; ``marked``: those of which pods are to go."""

        def meant(life: PodLife) -> bool:
            return bool(life.seen.disrupted) and life.exists if marked else life.seated

        history = self._injection.history
        found = {life.seen.group for life in history.pods.values() if meant(life)}
        return sorted(name for name in found if name in history.groups)
