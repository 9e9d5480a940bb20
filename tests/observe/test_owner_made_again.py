"""An owner that is deleted and made again while its old pods run on: what the report counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
from msgspec.structs import replace

from extender.observe.cases import PART_SECONDS
from extender.observe.preemptions import SETTLE_SECONDS
from tests.gang.rig import FAST, PODS
from tests.groups.owners import jobset_pod
from tests.observe.bed import Bed

SIZE = "podgroup-extender.io/gang-size"


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    """Four nodes; on two of them run the pods of the JobSet that was deleted."""
    async with Bed(replace(FAST, mode="observe")) as made:
        await made.nodes(4)
        await made.classes(high=100)
        for i in range(2):
            await member(made, "old", i)
            await made.bound(f"old-{i}", f"n{i}")
        await made.rounds()
        await made.rounds(SETTLE_SECONDS + 0.1)
        assert made.ledger.total.whole == 1
        yield made


async def member(bed: Bed, life: str, index: int) -> None:
    meta = jobset_pod(index, "w", "g", index)
    meta["labels"]["jobset.sigs.k8s.io/jobset-uid"] = life
    meta["annotations"][SIZE] = "2"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    name = f"{life}-{index}"
    await bed.client.create(
        PODS, {"metadata": {"name": name, **meta}, "spec": {"containers": [container]}}
    )
    await bed.until(partial(_is_cached, bed, name), name)


def _is_cached(bed: Bed, name: str) -> bool:
    return bed.cache.pod_named("default", name) is not None


async def test_old_pods_are_no_part_of_a_quorum(bed: Bed) -> None:
    await member(bed, "new", 0)
    await member(bed, "new", 1)
    await bed.rounds()
    await bed.tried("new-0")
    await bed.bound("new-0", "n2")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert bed.ledger.total.whole == 1, "one of two"
    await bed.client.patch(f"{PODS}/old-0", {"metadata": {"annotations": {"seen": "again"}}})
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert bed.ledger.total.whole == 1, "one of two"
    (case,) = bed.observer.cases
    assert case.told.most_bound == 1
    await bed.bound("new-1", "n3")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert bed.ledger.total.whole == 2


async def test_nor_do_they_sit_in_part(bed: Bed) -> None:
    await member(bed, "new", 0)
    await bed.rounds()
    for _ in range(3):
        await bed.rounds(PART_SECONDS + 0.1)
    assert bed.ledger.total.gangs == 2
    assert bed.ledger.total.in_part_gangs == 0, "none of the new ones has a node"
