"""A search that cannot be stopped must not keep the process."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import threading
from extender.app import process_end
process_end.WAIT_SECONDS = 0.2
threading.Thread(target=threading.Event().wait, name="{name}").start()
process_end.leave_behind(3)
print("left alone", flush=True)
import os; os._exit(0)
"""


def ended(name: str) -> tuple[int, str]:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(name=name)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return found.returncode, found.stdout


def test_a_search_that_does_not_end_is_left_behind() -> None:
    assert ended("search_0") == (3, "")


def test_other_threads_are_python_s_own_matter() -> None:
    assert ended("another") == (0, "left alone\n")
