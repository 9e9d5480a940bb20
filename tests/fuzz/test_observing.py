"""A few seconds of the fuzzer of observe mode, and that it sees what it is there to see."""

from __future__ import annotations

import json

import pytest

from extender.wire.filter_json import FilterArgs, FilterResult
from tests.fuzz.observing import Observing
from tests.fuzz.playing import one_round


def test_a_round() -> None:
    with Observing() as target:
        assert one_round(target, 1, 60, lambda: False) >= 60
        target.check()
        assert {"make", "ask", "pass"} <= set(target.statuses)


def test_the_fuzzer_notices() -> None:
    """A node that is kept from a pod, and somebody who goes."""
    with Observing() as target:
        question = {"Pod": target.names.pods[0], "NodeNames": ["n0", "n1"]}
        target.tell([("ask", json.dumps(question).encode()), ("pass", 61.0)])

        async def fewer(args: FilterArgs) -> FilterResult:
            return FilterResult(args.node_names[:1])

        target.rig.verbs.filter = fewer  # type: ignore[method-assign]
        with pytest.raises(AssertionError):
            target.tell([("ask", json.dumps(question).encode())])
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match=r"evicted: \{'low-0'\}"):
            target.check()
