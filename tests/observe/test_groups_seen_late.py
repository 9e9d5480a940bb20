"""Watches do not keep step: pods of a gang may be seen, and bound, before what states its size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
from msgspec.structs import asdict, replace

from extender.observe.cases import PART_SECONDS
from extender.observe.preemptions import SETTLE_SECONDS
from tests.gang.rig import FAST
from tests.observe.bed import Bed


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    """Two empty nodes."""
    async with Bed(replace(FAST, mode="observe")) as made:
        await made.nodes(2)
        await made.classes(high=100)
        yield made


async def pods(bed: Bed, *numbers: int) -> None:
    for number in numbers:
        name = f"high-{number}"
        await bed.pod(name, cls="high", group="high")
        await bed.until(partial(_is_cached, bed, name), name)


def _is_cached(bed: Bed, name: str) -> bool:
    return bed.cache.pod_named("default", name) is not None


async def group(bed: Bed, count: int) -> None:
    await bed.group("high", count, "high")
    await bed.until(
        lambda: any(key[2] == "high" for key in bed.cache.snapshot().groups), "the PodGroup is seen"
    )


def whole(bed: Bed) -> int:
    return int(asdict(bed.ledger.total)["whole"])


@pytest.mark.parametrize("ticks", [0, 1])
async def test_a_gang_that_sits_in_part_was_never_whole(bed: Bed, ticks: int) -> None:
    await pods(bed, 0)
    await bed.bound("high-0", "n0")
    for _ in range(ticks):
        await bed.rounds()
    await group(bed, 3)
    await pods(bed, 1, 2)
    await bed.bound("high-1", "n1")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    await bed.rounds(PART_SECONDS + 0.1)
    assert whole(bed) == 0
    assert bed.ledger.total.in_part_gangs == 1
    (case,) = bed.observer.cases
    assert (case.told.quorum, case.told.most_bound) == (3, 2)


async def test_a_quorum_of_less_than_a_tick_counts(bed: Bed) -> None:
    await pods(bed, 0, 1)
    await bed.bound("high-0", "n0")
    await group(bed, 2)
    await bed.rounds()
    await bed.bound("high-1", "n1")
    await bed.remove("high-0")
    await bed.gone("high-0")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert whole(bed) == 1
