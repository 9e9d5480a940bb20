"""A signal ends a long question with what it has."""

from __future__ import annotations

import os
import signal
import threading
import time
from array import array

import pytest

from extender.cli.interruptible import interruptible


def until(flag: array[int]) -> str:
    """A question that ends only when it is asked to."""
    give_up = time.monotonic() + 20
    while not flag[0] and time.monotonic() < give_up:
        time.sleep(0.001)
    return "best so far" if flag[0] else "never asked"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_the_answer_is_returned(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    sender = threading.Timer(0.1, os.kill, (os.getpid(), number))
    sender.start()
    try:
        assert interruptible(until) == "best so far"
    finally:
        sender.join()
    assert signal.getsignal(number) is before


def test_what_the_question_raises_comes_through() -> None:
    def fails(_: array[int]) -> None:
        raise LookupError("no gang")

    with pytest.raises(LookupError, match="no gang"):
        interruptible(fails)
