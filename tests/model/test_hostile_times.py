"""What any object the API server accepts costs in time: its owner may change a label each second.

See docs/security.md, row 3.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from extender.decode.from_json import decode_pod

COUNT = 3000
TIMES = 20
"""Above what others of the same number and size take; what grows with the square took 150."""
Obj = dict[str, Any]


def asks(number: int) -> Obj:
    return {"name": f"c{number}", "resources": {"requests": {f"example.com/r{number}": "1"}}}


def taken(spec: Obj) -> float:
    """CPU seconds for such a pod, the least of three, each new to every memo."""
    spent = []
    for attempt in range(3):
        spec["containers"] = [*spec.get("containers", ()), asks(-attempt - 1)]
        body = msgspec.json.encode({"metadata": {"name": "p", "uid": "u"}, "spec": spec})
        began = time.process_time()
        decode_pod(body)
        spent.append(time.process_time() - began)
    return min(spent)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: {**asks(number), "restartPolicy": "Always"},
        asks,
        lambda number: {**asks(number), "restartPolicy": "Always"} if number % 2 else asks(number),
    ],
    ids=["sidecars", "init containers", "both"],
)
def test_init_containers_cost_no_more_than_containers(make: Callable[[int], Obj]) -> None:
    plain = taken({"containers": [asks(number) for number in range(COUNT)]})
    assert taken({"initContainers": [make(number) for number in range(COUNT)]}) < TIMES * plain
