"""Which members of a plan have arrived at their binding, and are held until all have.

Only state: who acts on it is ``bindings.py``. A bind is held as a future, which is answered with
"" (bound) or with why the pod is not bound. Nobody whose future is answered with an error while
it was held has been bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from msgspec import Struct

from extender.gang.runtime.clocks import Clocks


class HeldBind(Struct, eq=False):
    """One bind that is held. Times are monotonic."""

    uid: str
    node: str
    since: float
    answer: asyncio.Future[str]

    def settle(self, why: str) -> None:
        """Answer it: "" for bound. A caller that has gone is not told."""
        if not self.answer.done():
            self.answer.set_result(why)


class Barrier:
    """Held binds by plan and member. One event loop only."""

    def __init__(self, clocks: Clocks, hold_seconds: float) -> None:
        self._clocks = clocks
        self._hold_seconds = hold_seconds
        self._held: dict[str, dict[str, HeldBind]] = {}
        self.count = 0
        """How many binds are held now."""

    def arrive(self, plan: str, uid: str, node: str) -> HeldBind:
        """Hold a bind; an earlier one of the same pod is answered: its caller has asked again."""
        held = self._held.setdefault(plan, {})
        earlier = held.pop(uid, None)
        if earlier is not None:
            self.count -= 1
            earlier.settle("the bind was asked for again")
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        held[uid] = arrival = HeldBind(uid, node, self._clocks.monotonic(), future)
        self.count += 1
        return arrival

    def withdraw(self, plan: str, arrival: HeldBind) -> None:
        """Its caller has gone: nobody waits for this bind any more."""
        held = self._held.get(plan, {})
        if held.get(arrival.uid) is arrival:
            del held[arrival.uid]
            self.count -= 1
            if not held:
                del self._held[plan]

    def held(self, plan: str) -> Mapping[str, HeldBind]:
        """Return a plan's held binds by pod uid."""
        return self._held.get(plan, {})

    def plans(self) -> Iterator[str]:
        """Yield the plans of which binds are held."""
        yield from list(self._held)

    def complete(self, plan: str, seats: Mapping[str, str]) -> bool:
        """Whether the members of all these seats (uid -> node) have arrived, each for its own."""
        held = self._held.get(plan)
        return held is not None and all(
            uid in held and held[uid].node == node for uid, node in seats.items()
        )

    def overdue(self, plan: str) -> bool:
        """Whether a bind is held for as long as one may be."""
        now = self._clocks.monotonic()
        return any(now - each.since >= self._hold_seconds for each in self.held(plan).values())

    def take(self, plan: str) -> list[HeldBind]:
        """Hold a plan's binds no longer; the caller answers them."""
        taken = list(self._held.pop(plan, {}).values())
        self.count -= len(taken)
        return taken
