"""What is asked of the filters of kube-scheduler itself before pods are evicted, and their answer.

Who answers is the program ``verifier`` of plugin/ (docs/verifier.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from extender.model.objects import Pod
from extender.model.plan import Victim


class VerifierQuestion(Struct, frozen=True):
    """Would these members be accepted on these nodes?"""

    seats: Sequence[tuple[Pod, str]]
    """The members with their nodes, in the order in which they are placed."""
    gone: Sequence[Victim]
    """Pods that are gone then."""
    held: Sequence[tuple[Pod, str]]
    """Members of other gangs on the seats that are held for them."""


class SeatVerdict(Struct, frozen=True):
    """One member that is refused on its node."""

    uid: str
    node: str
    plugin: str
    """"" where no plugin was asked."""
    reasons: tuple[str, ...]
    any_node: bool
    """Another node would not help."""


class NoVerdict(Exception):  # noqa: N818 - what has happened, not a fault of the caller
    """There is no answer; the text says why."""


class Verifier(Protocol):
    """Who answers."""

    async def refusals(self, question: VerifierQuestion) -> Sequence[SeatVerdict]:
        """Return the members that are refused, none where all are accepted.

        Raises NoVerdict: not in time, not on a state that is new enough, or not at all.
        """
