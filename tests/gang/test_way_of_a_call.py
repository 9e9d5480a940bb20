"""docs/walkthrough.md's way of a filter call is the way that one goes."""

from __future__ import annotations

import re
import sys
import threading
from types import FrameType

from extender.search.dispatcher import BACKEND
from tests.gang.rig import LOW, Rig, full_cluster
from tests.packaging.test_rooms import PACKAGE, walk


class Entered:
    """Which of these functions were entered, in the order of their first calls."""

    def __init__(self, functions: set[tuple[str, str]]) -> None:
        self._functions = functions
        self.found: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        name = frame.f_code.co_name
        file = frame.f_code.co_filename.removeprefix(f"{PACKAGE}/")
        if event == "call" and (file, name) in self._functions and (file, name) not in self.found:
            self.found.append((file, name))


def told() -> list[tuple[str, str]]:
    """The page's functions from the verbs on; classes, and what is compiled, leave no trace."""
    way = walk()
    begin = way.index(("verbs/verbs.py", "filter"))
    return [
        (file, name)
        for file, name in way[begin:]
        if file.endswith(".py")
        and (BACKEND == "compiled" or "/core/" not in file)
        and re.search(rf"^\s*(?:async )?def {name}\b", (PACKAGE / file).read_text(), re.M)
    ]


async def test_a_call_enters_the_files_in_the_order_of_the_page() -> None:
    entered = Entered(set(told()))
    threading.setprofile(entered)  # for the planner's thread, which is begun by the first search
    try:
        async with Rig() as rig:
            await rig.stop_rounds()  # no round asks before the call does
            await rig.nodes(2)
            await rig.classes(low=1, high=100)
            await full_cluster(rig)
            entered.found.clear()
            sys.setprofile(entered)
            await rig.filter("high-0", "n0", "n1")
            await rig.until(lambda: rig.cache.pod_named("default", LOW[0]) is None, "low-0 goes")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert len(told()) > 15
    assert entered.found == told()
