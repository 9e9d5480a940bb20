"""Evictions that lately came to nothing: the next plan takes somebody else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extender.gang.incremental.protection import BUDGET_REFUSED
from extender.model.snapshot import EMPTY

REFUSAL_SECONDS = 120.0
"""For how long other victims are taken after a right, a webhook or a rule said no ..."""
REHEARSED_SECONDS = 10.0
"""... at first, where that was a rehearsal: nobody has gone, and to ask again takes from nobody.
An API server that has just started forbids for some seconds what it allows later. It doubles with
each refusal of the pod."""
BUDGET_SECONDS = 60.0
"""... and after a disruption budget did, which may change its mind at any moment."""
STAYED = "it did not go in time"


class Refusals:
    """Remembered refusals by pod uid. ``monotonic`` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._refused: dict[str, tuple[str, float]] = {}
        """uid -> why its eviction was refused, and until when that is remembered."""
        self._rehearsed: dict[str, int] = {}
        """uid -> how many rehearsals in a row were refused."""
        self._shown: Mapping[str, str] = EMPTY
        self.version = 0
        """Grows when what ``unevictable`` returns changes, and when a pod that was asked for is
        found to stay."""

    def unevictable(self) -> Mapping[str, str]:
        """Return uid -> reason of pods whose eviction was lately refused for good.

        The same object as before while nothing changed; see Snapshot.unevictable.
        """
        if not self._refused and not self._shown:
            return self._shown
        now = self._now()
        present = {uid: why for uid, (why, until) in self._refused.items() if now < until}
        if len(present) < len(self._refused):
            self._refused = {uid: self._refused[uid] for uid in present}
        if present != self._shown:
            self._shown = present or EMPTY
            self.version += 1
        return self._shown

    def note(
        self,
        uid: str,
        why: str,
        *,
        passing: bool,
        unclear: bool,
        budgeted: bool,
        readable: bool,
        rehearsed: bool = False,
    ) -> None:
        """Remember what the API server said at last, all tries over.

        ``passing``: it passes by itself; ``unclear``: the request may have been done. ``budgeted``:
        the Eviction API was asked, so a 429 is a budget's no. ``rehearsed``: it was
        a dry run. ``readable``: the pod itself could be read after that. Else an unclear answer
        says nothing of the pod: it is the API server that does not answer. A webhook that is down
        is known by that: it fails the DELETE of the pods that it guards with 500, and no GET.
        """
        if unclear and not readable:
            return
        seconds = BUDGET_SECONDS if passing else REFUSAL_SECONDS
        if rehearsed and not passing:
            times = self._rehearsed.get(uid, 0)
            seconds = min(REFUSAL_SECONDS, REHEARSED_SECONDS * 2.0 ** min(times, 8))
            self._rehearsed[uid] = times + 1
        budget = budgeted and passing and not unclear
        told = f"{BUDGET_REFUSED}{why}" if budget else why
        self._refused[uid] = (told, self._now() + seconds)

    def stayed(self, uid: str) -> None:
        """Remember a pod that did not go in time: neither it nor its room is counted on."""
        self._refused[uid] = (STAYED, self._now() + REFUSAL_SECONDS)

    def found(self) -> None:
        """A pod that counted as going is there: who was refused by that is looked at again."""
        self.version += 1

    def forget(self, uid: str) -> None:
        """The pod goes after all, or is gone."""
        self._refused.pop(uid, None)
        self._rehearsed.pop(uid, None)
