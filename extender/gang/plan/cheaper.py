"""What a cheaper plan would need: who could stay, and for how much room elsewhere. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from extender.model.plan import Proof, Seat, Victim
from extender.model.texts import counted


class AvoidableVictims(Struct, frozen=True):
    """Victims that could stay if the seats on their nodes had room on others."""

    unit: str
    """The gang that goes whole, or namespace/name of a pod alone."""
    pods: int
    seats: int
    """Seats on the nodes of these pods: as many at most have to move."""

    @property
    def words(self) -> str:
        """One sentence."""
        # A gang's key has a colon, which no namespace or pod has.
        gang = ":" in self.unit
        who = f"{counted(self.pods, 'pod')} of {self.unit}" if gang else f"pod {self.unit}"
        seats = counted(self.seats, "seat")
        return f"cheaper only with free room elsewhere: with that for {seats} {who} could stay"


def easiest_to_spare(
    seats: Sequence[Seat], victims: Sequence[Victim], proof: Proof
) -> AvoidableVictims | None:
    """Return the victims that fewest seats need, of several the most urgent; None for none.

    A seat needs what goes on its node, whole units with all they have there; where a node has
    free room beside that, fewer seats than told may have to move. None too where the plan is not
    proved least: a cheaper one may need no room elsewhere.
    """
    if proof is not Proof.OPTIMAL:
        return None
    on = Counter(seat.node for seat in seats)
    units: dict[str, list[Victim]] = {}
    for victim in victims:
        units.setdefault(victim.unit or f"{victim.namespace}/{victim.name}", []).append(victim)
    found = [
        (
            sum(on[node] for node in {victim.node for victim in pods}),
            -max(victim.priority for victim in pods),
            unit,
        )
        for unit, pods in units.items()
    ]
    # Of a unit on none of the seats' nodes it is not known what it is needed for.
    count, _, unit = min((each for each in found if each[0]), default=(0, 0, ""))
    return AvoidableVictims(unit, len(units[unit]), count) if count else None
