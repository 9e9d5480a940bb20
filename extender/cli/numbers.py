"""Numbers on the command line, as argparse's types: what is out of range is bad input."""

from __future__ import annotations

import argparse
import math


def port_number(text: str) -> int:
    """Return a TCP port."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def seconds(text: str) -> float:
    """Return a time that is not negative."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds: 0 or more")
    return found


def positive(text: str) -> float:
    """Return a factor above 0."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return found


def at_least_one(text: str) -> int:
    """Return a count."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)
