"""Who may act: of several replicas the one that holds the lease, and only while it surely does.

Source of the semantics: client-go's tools/leaderelection. A holder that cannot renew must
be still before anybody else can hold the lease, so ``acts`` is asked right before every
request that destroys, and turns False by the clock alone.
"""

from __future__ import annotations

from typing import Protocol


class Leadership(Protocol):
    """What acting needs to know of the lease."""

    @property
    def acts(self) -> bool:
        """Whether this process may evict and write records at this moment."""

    @property
    def epoch(self) -> int:
        """Grows each time the lease changes hands; written into every plan record."""


class Alone:
    """The only replica: always acts."""

    acts = True
    epoch = 0
    identity = ""

    def describe(self) -> str:
        """Return that there is nobody else."""
        return "this is the only replica"

    def note_asked(self) -> None:
        """Nobody has to be told."""


class LeaderCandidate(Leadership, Protocol):
    """What serving needs besides: whom to name, and whom to tell that it was asked."""

    @property
    def identity(self) -> str:
        """Who we are."""

    def describe(self) -> str:
        """Return, for a person, who leads."""

    def note_asked(self) -> None:
        """Note that kube-scheduler has asked this replica."""
