"""The package of HiGHS, an optional extra, and how it is asked.

HiGHS computes in floating point. So a level is asked only while its cost stays below ``MOST_COST``,
or in units of which it has no more: a bound is then off by far less than the half that rounding
forgives.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from extender.search.problem.stop import Flag

MOST_COST = 1_000_000
"""Of a level that is asked, the most that an answer known costs there."""
ROUNDING = 0.01
"""By so much a bound may be too high: far more than the tolerances allow at such costs."""
OPTIMAL, NO_ANSWER = "kOptimal", "kInfeasible"
DOUBTED = (1, 16)
"""From this version on nothing is believed: 1.16.0 calls the answer that it was started with
optimal where presolve is on, and the bound is then above the optimum."""
CUT = ("kTimeLimit", "kInterrupt")
"""HiGHS' own words: names of HighsModelStatus."""

OPTIONS: dict[str, object] = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-7,
    # Like units on like nodes are many, and what is found of them is not worth the time.
    "mip_detect_symmetry": False,
    # An answer is mostly there, or found by rounding: what remains is the proof.
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
}


@cache
def loaded() -> Any:
    """highspy, or None where it is not installed, or not to be believed. The first call loads it:
    some 0.1 s."""
    try:
        highs = import_module("highspy")
    except ImportError:
        return None
    return highs if (highs.HIGHS_VERSION_MAJOR, highs.HIGHS_VERSION_MINOR) < DOUBTED else None


def fresh(program: Any, cancel: Flag | None) -> Any:
    """A Highs that was handed the program, and ends when the flag is set."""
    highs = loaded().Highs()
    for name, value in OPTIONS.items():
        highs.setOptionValue(name, value)
    highs.passModel(program)
    if cancel is not None:

        def ask(event: Any) -> None:
            if cancel[0]:
                event.interrupt()

        highs.cbMipInterrupt += ask
    return highs
