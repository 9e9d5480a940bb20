"""What listeners of both transports share: bytes of questions, turns, and who is at work."""

from __future__ import annotations

from extender.model.settings import ServerSettings
from extender.server.budget import Budget
from extender.server.verb_turns import Turns


class Load:
    """One a process."""

    def __init__(self, settings: ServerSettings) -> None:
        self.budget = Budget(settings.max_bytes_in_flight)
        self.turns = Turns()
        self.working = 0
        """Requests that are being answered."""
