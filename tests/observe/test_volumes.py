"""Observe mode knows which pods hold the attachments that members need."""

from __future__ import annotations

from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.rig import FAST
from tests.gang.test_in_the_way import with_volume
from tests.observe.bed import Bed

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


async def test_pods_that_hold_attachments_are_in_the_plan() -> None:
    async with Bed(FAST) as bed:
        await bed.nodes(2)
        await bed.classes(low=1, high=100)
        for i in range(2):
            await with_volume(bed, f"low-{i}", on=f"n{i}")
        await bed.group("g", 2, "high")
        await bed.until_cached(GROUPS, lambda: {key[2] for key in bed.cache.snapshot().groups})
        for i in range(2):
            await with_volume(bed, f"g-{i}")
        await bed.tried("g-0", "g-1")
        offered = {f"n{i}": NodeVictims((bed.cached(f"low-{i}").uid,)) for i in range(2)}
        for i in range(2):
            await bed.verbs.preempt(PreemptArgs(bed.cached(f"g-{i}"), offered))
        await bed.rounds(3.0)
        await bed.rounds(3.0)
        (case,) = bed.observer.cases
        assert case.plan is not None
        assert {victim.name for victim in case.plan.victims} == {"low-0", "low-1"}
