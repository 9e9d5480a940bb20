"""What came of a run: what was seen, what was measured, and what did not hold."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.history import History
from tests.chaos.invariants import Problem
from tests.chaos.measuring import Measures

TOLD_SECONDS = 60.0
"""How far back the story of a violation goes that is seen at once."""
GROUP_NAME = re.compile(r"\bg\d+\b")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold, with what led to it."""

    at: float
    problem: Problem
    story: list[str]


@dataclass
class Run:
    """What came of a run."""

    minor: str
    seed: int
    history: History = field(default_factory=History)
    measures: Measures = field(default_factory=Measures)
    violations: list[Violation] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    rounds: int = 0
    began: float = 0.0
    seconds: float = 0.0
    gaps: int = 0


class Violations:
    """Keeps those of a run, each once. ``say`` is told of them, a line at a time."""

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self._run = run
        self._say = say
        self._found: set[tuple[str, str]] = set()

    def add(self, problem: Problem, since: float | None = None) -> None:
        """Keep a violation with what led to it, from ``since`` on, and say so; once only."""
        key = (problem.invariant, problem.subject)
        if key in self._found:
            return
        self._found.add(key)
        now = time.time()
        self._run.history.tell(now, f"VIOLATION {problem.invariant}: {problem.text}")
        story = story_of(self._run.history, problem, since or now - TOLD_SECONDS)
        self._run.violations.append(Violation(now, problem, story))
        self._say(f"VIOLATION {problem.invariant}: {problem.text}")


def story_of(history: History, problem: Problem, since: float) -> list[str]:
    """What has happened since, as far as it is about the subject or a fault."""
    names = {problem.subject.rpartition("/")[2], *GROUP_NAME.findall(problem.text)}
    related = [
        (at, text)
        for at, text in sorted(history.story)
        if at >= since
        and (
            any(_names(text, name) for name in names)
            or text.startswith(("FAULT", "fault over", "REST", "VIOLATION"))
        )
    ]
    began = history.story[0][0] if history.story else since
    return [f"{at - began:8.2f} s  {text}" for at, text in related]


def _names(text: str, name: str) -> bool:
    """Whether a line is about a group, not about one whose name only begins alike."""
    at = text.find(name)
    while at >= 0:
        after = text[at + len(name) : at + len(name) + 1]
        if not after.isdigit() and not text[at - 1 : at].isalnum():
            return True
        at = text.find(name, at + 1)
    return False
