"""What listeners of both transports share: bytes of questions, turns, and who is at work."""

from __future__ import annotations

from extender.server.budget import ByteBudget
from extender.server.verb_turns import VerbTurns
from extender.settings.settings import ServerSettings


class Load:
    """One a process."""

    def __init__(self, settings: ServerSettings) -> None:
        self.budget = ByteBudget(settings.max_bytes_in_flight)
        self.turns = VerbTurns()
        self.working = 0
        """Requests that are being answered."""
