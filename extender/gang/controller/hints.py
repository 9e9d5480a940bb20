"""How kube-scheduler is brought to try pods again: nominations and wake-ups, behind one gate."""

from __future__ import annotations

from dataclasses import dataclass

from extender.gang.controller.held_back import HeldBack
from extender.gang.controller.nominations import Nominations
from extender.gang.controller.requeuing import Requeuing

CONCURRENCY = 32
"""Hints and events under way at a time: those of a gang of thousands must not crowd evictions
out."""


@dataclass(frozen=True)
class Hints:
    """Seats do not rest on any of it (they are held in the filter verb): a failure is passed
    over."""

    nominations: Nominations
    held_back: HeldBack
    requeuing: Requeuing
