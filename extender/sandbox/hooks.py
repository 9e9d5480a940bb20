"""What a play may do to the extender, whichever world it plays in."""

from __future__ import annotations

from typing import Any, Protocol


class Hooks(Protocol):
    """The extender's life as the player of a scenario may change it."""

    async def kill_extender(self) -> None:
        """Kill it (-9) now."""

    async def kill_extender_after(self, deletes: int) -> None:
        """Kill it (-9) as soon as this many of its evictions have gone through."""

    async def slow_evictions(self, seconds: float) -> None:
        """Let every eviction take this long on its way to the API server, one at a time."""

    async def start_extender(self) -> None:
        """Start it again and wait until it is ready."""

    def extender_alive(self) -> bool:
        """Whether its process runs."""

    async def decisions(self) -> list[dict[str, Any]]:
        """Return what /debug/decisions says, newest first; empty when it does not answer."""

    def check(self) -> None:
        """Raise when the world itself has broken down."""
