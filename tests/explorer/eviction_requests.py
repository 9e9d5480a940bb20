"""Requests for evictions on their way between a machine and the API server, and the pods there.

Both worlds are made of it: what a request may come to is the same, whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Self

from extender.gang.core.victim_group import Answer, Answered, Failure, ReadBack
from extender.model.plan import Victim


class EvictionRequests:
    """What is on its way. A world says how it is copied, fed, and what may still go wrong."""

    here: frozenset[str]
    """Uids of the pods that the API server has."""
    shown: frozenset[str]
    """Uids of the pods that the watch has shown, and not as gone."""
    ours: frozenset[str]
    """Uids of the pods that an eviction has ended."""
    wire: dict[str, str]
    """Uid -> how far a request has come: asked, left, done, absent (404), denied."""
    reads: frozenset[str]
    """Uids of pods that are being read."""
    late: frozenset[str]
    """Uids of requests that were lost sight of and may arrive."""

    def copy(self) -> Self:
        """Return a world of its own that says the same."""
        raise NotImplementedError

    def feed(self, event: Any) -> Self:
        """Hand the machine an event and put its effects on their way."""
        raise NotImplementedError

    def may(self, trouble: str) -> int:
        """Return how often something may still go wrong."""
        raise NotImplementedError

    def spend(self, trouble: str) -> Self:
        """Return a copy in which it goes wrong once less from now on."""
        raise NotImplementedError

    def leave(self, uid: str) -> str:
        """Have a request leave, or be called off; return what happens."""
        raise NotImplementedError

    # -- the view that the machine is given -----------------------------------------------

    def victim_problem(self, victim: Victim, priority: int, *, alone: bool) -> str:
        return ""

    def there(self, victim: Victim) -> bool:
        return victim.uid in self.shown

    def whole_again(self, victim: Victim, known: AbstractSet[str], size: int) -> bool:
        return False

    def completing(self, name: str) -> bool:
        return False

    # -- what may happen ------------------------------------------------------------------

    def ask(self, uid: str) -> str:
        """Put a request on its way; return what is wrong with that."""
        wrong = f"{uid} is asked for twice at a time" if uid in self.wire else ""
        self.wire[uid] = "asked"
        return wrong

    def requests(self) -> Iterator[tuple[str, Self, bool]]:
        """Return what may come of requests and reads."""
        for uid, stage in sorted(self.wire.items()):
            if stage == "asked":
                world = self.copy()
                yield world.leave(uid), world, True
            elif stage == "left":
                yield from self._arrives(uid)
            else:
                answer, failure = Answer.GONE, None
                if stage == "done":
                    answer = Answer.ACCEPTED
                elif stage == "denied":
                    answer, failure = Answer.FAILED, Failure("no")
                world = self.copy()._answered(uid)
                said = Answered(uid, answer, failure)
                yield f"answer for {uid}: {answer.value}", world.feed(said), True
                if stage == "done" and self.may("lost"):
                    world = self.spend("lost")._answered(uid)
                    yield f"the answer for {uid} is lost", world.feed(_unclear(uid)), False
        for uid in sorted(self.reads):
            world = self.copy()
            world.reads -= {uid}
            goes = uid not in self.here
            told = "is gone" if goes else "is there"
            yield f"{uid} is read: it {told}", world.feed(ReadBack(uid, goes)), True

    def lost_requests(self) -> Iterator[tuple[str, Self, bool]]:
        """Return what may become of requests that were lost sight of."""
        for uid in sorted(self.late):
            for arrives in (False, True) if uid in self.here else (False,):
                world = self.copy()
                world.late -= {uid}
                if arrives:
                    world.take(uid)
                told = "arrives late" if arrives else "never arrives"
                yield f"the lost request for {uid} {told}", world, True

    def take(self, uid: str) -> None:
        """A request is done by the API server."""
        if uid in self.here:
            self.here -= {uid}
            self.ours |= {uid}

    def _arrives(self, uid: str) -> Iterator[tuple[str, Self, bool]]:
        world = self.copy()
        world.take(uid)
        world.wire[uid] = "done" if uid in self.here else "absent"
        yield f"the eviction of {uid} arrives", world, True
        if self.may("refusals") and uid in self.here:
            world = self.spend("refusals")
            world.wire[uid] = "denied"
            yield f"the eviction of {uid} is refused", world, False
        if self.may("lost"):
            world = self.spend("lost")._answered(uid)
            world.late |= {uid}
            yield f"the eviction of {uid} is lost sight of", world.feed(_unclear(uid)), False

    def _answered(self, uid: str) -> Self:
        del self.wire[uid]
        return self


def _unclear(uid: str) -> Answered:
    return Answered(uid, Answer.FAILED, Failure("no answer", passing=True, unclear=True))


def write_words(write: frozenset[str] | str) -> str:
    """Return what a write of a record says."""
    if write == "plan":
        return "under way"
    return f"owes {', '.join(sorted(write))}" if write else "nothing, it is deleted"
