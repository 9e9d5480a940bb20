"""``MORE["profiles"]``: a gang's members have two scheduler names, and questions come twice.

Both are profiles of one kube-scheduler, which has one queue, so they ask alternately. What stands
between it and the extender sends every third question twice; the answer of either comes back.
"""

from __future__ import annotations

from msgspec.structs import replace

from tests.simulation.chance import Chance
from tests.simulation.script import Script

NAMES = ("default-scheduler", "gang-scheduler")


def profiles(script: Script, chance: Chance) -> Script:
    """The names are in the configuration, or are learned from who asks."""
    known = chance.pick("profiles-known", ((), NAMES))
    settings = replace(script.settings, scheduler_names=known)
    doubled = chance.pick("doubled", (0.1, 0.3, 0.6))
    return replace(script, settings=settings, profiles=NAMES, doubled=doubled)
