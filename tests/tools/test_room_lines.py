"""What counts as a line of which room."""

from __future__ import annotations

import pytest

from tools.room_lines import counted, room_of, table


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("extender/cache/feed.py", "cache"),
        ("extender/console/static/console.js", ""),
        ("extender/gang/core/reservations.py", "gang/core"),
        ("extender/search/solver.py", "search"),
        ("extender/search/core/lp/basis.pyx", "search/core"),
        ("extender/search/core/mckp.pxd", "search/core"),
        ("extender/pb/podgroup/v1/watch_pb2.py", ""),
        ("extender/__init__.py", ""),
        ("tests/cache/test_feed.py", ""),
    ],
)
def test_a_file_is_of_one_room(path: str, room: str) -> None:
    assert room_of(path) == room


def test_blank_lines_are_none() -> None:
    files = {"extender/fit/a.py": "x = 1\n\n  \ny = 2\n", "extender/fit/b.py": "", "README.md": "a"}
    assert counted(files) == {"fit": (2, 2)}


def test_a_room_that_was_not_there_has_none() -> None:
    shown = table({"old": {"fit": (1, 1200)}, "new": {"fit": (1, 9), "wire": (2, 3)}})
    assert shown.splitlines() == [
        "| room | files, old | lines, old | files, new | lines, new |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| `fit` | 1 | 1,200 | 1 | 9 |",
        "| `wire` | 0 | 0 | 2 | 3 |",
        "| all | 1 | 1,200 | 3 | 12 |",
    ]
