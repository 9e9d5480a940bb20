"""The mutation testing itself: what it changes, and that nothing else is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.mutation.operators import changed, mutants
from tests.mutation.rooms import ROOMS, Room

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
