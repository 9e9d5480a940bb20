"""Numbers on the command line, as argparse's types: what is out of range is bad input."""

from __future__ import annotations

import argparse
import math

from extender.settings.settings_rules import MOST_COUNT, MOST_SECONDS

LONGEST = 20
"""Digits that are read."""
LEAST_FACTOR, MOST_FACTOR = 0.001, 1000


def port_number(text: str) -> int:
    """Return a TCP port to connect to."""
    return _whole(text, 1, 65535, f"{text!r} is no port: 1 to 65535")


def listening_port(text: str) -> int:
    """Return a TCP port to listen at; 0 takes a free one."""
    return _whole(text, 0, 65535, f"{text!r} is no port: 0 to 65535")


def seconds(text: str) -> float:
    """Return a time that is not negative."""
    found = _fraction(text)
    if not 0 <= found <= MOST_SECONDS:
        wrong = f"{text!r} is no number of seconds: 0 to {MOST_SECONDS}"
        raise argparse.ArgumentTypeError(wrong)
    return found


def factor(text: str) -> float:
    """Return what times are multiplied with."""
    found = _fraction(text)
    if not LEAST_FACTOR <= found <= MOST_FACTOR:
        wrong = f"{text!r} is no factor: {LEAST_FACTOR} to {MOST_FACTOR}"
        raise argparse.ArgumentTypeError(wrong)
    return found


def priority(text: str) -> int:
    """Return a pod's priority."""
    digits = text.removeprefix("-")
    wrong = f"{text!r} is no priority: -{MOST_COUNT} to {MOST_COUNT}"
    return _whole(digits, 0, MOST_COUNT, wrong) * (-1 if digits != text else 1)


def at_least_one(text: str) -> int:
    """Return a count."""
    wrong = f"{text!r} is no whole number: 1 to {MOST_COUNT}"
    return _whole(text, 1, MOST_COUNT, wrong)


def _whole(text: str, least: int, most: int, wrong: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= LONGEST
    if not digits or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(wrong)
    return int(text)


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
