"""One thing that happens in a simulation."""

from __future__ import annotations

from msgspec import Struct

from tests.simulation.objects import Work

MOMENTS = ("record", "recorded", "rehearsed", "evict", "evicted", "gone", "wake", "bound")
"""What a happening may follow: a plan record is sent or stored, a rehearsal, an eviction is sent
or takes effect, a victim is gone, a member is woken, a member of a gang is bound."""


class Happening(Struct, frozen=True, kw_only=True):
    """One thing that happens: at a time, or ``at`` seconds after the ``nth`` of a moment."""

    at: float
    kind: str
    after: str = ""
    nth: int = 1
    name: str = ""
    """A work, node or resource; "": whoever is concerned at that moment."""
    number: float = 0.0
    work: Work | None = None

    def told(self) -> str:
        """Return one line for people."""
        when = f"{self.at:.3f} s after {self.after} no. {self.nth}" if self.after else ""
        parts = (self.kind, self.name, self.work.told() if self.work else "", when)
        number = f"{self.number:g}" if self.number else ""
        return " ".join(part for part in (*parts, number) if part)
