"""Makes a failing script smaller: what can be left out without mending it is left out."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tests.simulation.script import Script
from tests.simulation.simulation import Simulation, SimulationOutcome


def shrink(script: Script, most: int = 200) -> tuple[Script, SimulationOutcome]:
    """Return the smallest script found that breaks the same rule, and how it ends.

    ``most`` is how many simulations may be played for it.
    """
    outcome = Simulation(script).run()
    rule = outcome.rule
    tried = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(script):
            if tried >= most:
                return script, outcome
            tried += 1
            found = Simulation(candidate).run()
            if found.rule == rule:
                script, outcome, smaller = candidate, found, True
                break
    return script, outcome


def _smaller(script: Script) -> Iterator[Script]:
    """Yield scripts with one thing less, what matters most first."""
    for index in range(len(script.faults)):
        kept = script.faults[:index] + script.faults[index + 1 :]
        yield replace(script, faults=kept)
    for index in range(len(script.happenings)):
        rest = script.happenings[:index] + script.happenings[index + 1 :]
        yield replace(script, happenings=rest)
    for index in range(len(script.works)):
        yield replace(script, works=script.works[:index] + script.works[index + 1 :])
    for name in script.nodes:
        if not any(name in work.on for work in script.works):
            left = {node: cpu for node, cpu in script.nodes.items() if node != name}
            yield replace(script, nodes=left)
    for plain in (
        {"shuffle": False},
        {"bind_fails": 0.0},
        {"slow": 0.005},
        {"lag": 0.01},
        {"latency": 0.005},
        {"scheduler_lag": 0.01},
    ):
        if any(getattr(script, name) != value for name, value in plain.items()):
            yield replace(script, **plain)
