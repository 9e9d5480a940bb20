"""The mutation testing itself: what it changes, and that nothing else is."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fates import Fate, fate_of
from tests.mutation.operators import changed, mutants
from tests.mutation.rooms import ROOMS, Room
from tests.mutation.running import outcomes

SOURCE = '''
class Told:
    async def why(self, a: int = 1) -> str | None:
        """Words."""
        if a > 2 and not self.off:
            return f"{a + 1}"
        for b in (c for c in range(a) if c):
            continue
        return None
'''


def test_every_change_is_one_change_of_the_function_it_names() -> None:
    found = list(mutants("m", SOURCE))
    assert {(one.function, one.line) for one in found} == {
        ("Told.why", line) for line in (5, 6, 7, 8)
    }
    told = [f"{one.before} -> {one.after}" for one in found]
    assert told == [
        "if a > 2 and (not self.off): -> if not (a > 2 and (not self.off)):",
        "a > 2 and (not self.off) -> not self.off",
        "a > 2 and (not self.off) -> a > 2",
        "a > 2 -> a >= 2",
        "2 -> 3",
        "not self.off -> self.off",
        "return f'{a + 1}' -> return None",
        "for c ... if c -> for c ...",
        "continue -> pass",
    ]


def test_the_changed_code_is_what_runs() -> None:
    source = "def most(a, b):\n    return a if a > b else b\n"
    answers = set()
    for mutant in mutants("m", source):
        scope: dict[str, object] = {}
        exec(source, scope)
        most = scope["most"]
        most.__code__ = changed(mutant, source)  # type: ignore[attr-defined]
        answers.add((mutant.after, most(1, 2)))  # type: ignore[operator]
    assert answers == {("return None", None), ("b if a > b else a", 1), ("a >= b", 2)}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_modules_and_tests_of_a_room_are_there(room: Room) -> None:
    assert [name for name in room.modules if find_spec(name) is None] == []
    assert [test for test in room.tests if not Path(test).exists()] == []


COUNTED = "def most(a, b):\n    return a if a > b else b\n"
USERS = {
    "a_test_fails": (
        "import counted\n\n\ndef test_it():\n    assert counted.most(2, 1) == 2\n",
        Fate.KILLED,
    ),
    "it_passes": ("import counted\n\n\ndef test_it():\n    assert counted\n", Fate.SURVIVED),
    "it_cannot_be_collected": (
        "import counted\n\nassert counted.most(2, 1) == 2\n\n\ndef test_it():\n    pass\n",
        Fate.BROKEN,
    ),
    "there_is_no_test": ("import counted\n", Fate.BROKEN),
}
"""Tests of a module, and what becomes of a mutant that only they could mind."""


@pytest.mark.parametrize("case", USERS)
def test_a_mutant_is_killed_by_a_test_that_fails_and_by_nothing_else(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, expected = USERS[case]
    (tmp_path / "counted.py").write_text(COUNTED)
    tests = tmp_path / f"test_{case}.py"
    tests.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "counted", raising=False)
    turned = next(one for one in mutants("counted", COUNTED) if one.after == "b if a > b else a")
    room = Room("counted", ("counted",), (str(tests),))
    (outcome,) = outcomes([(turned, room, 120.0)], tmp_path, 1)
    assert outcome.fate is expected, outcome.said


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (None, Fate.HUNG),
        (0, Fate.SURVIVED),
        (1, Fate.KILLED),
        *((status, Fate.BROKEN) for status in (2, 3, 4, 5, 98, -9)),
    ],
)
def test_only_one_exit_status_says_that_a_test_failed(status: int | None, fate: Fate) -> None:
    assert fate_of(status) is fate
