"""No pod is evicted for members that name a claim which one pod alone may use."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.plan.volumes import claims_together
from extender.gang.tell.decisions import Verb
from extender.groups.resolver import Resolver
from extender.model.objects import PodShape
from extender.model.plan import Plan, Refusal
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import ServedResource
from extender.settings.settings import GroupSettings
from tests.gang.rig import Rig
from tests.gang.test_devices import claiming
from tests.gang.world import gang_key, group, node, plan_for, pod, snapshot

CLAIMS = ServedResource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PATH = CLAIMS.path("default")
SHARED = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}


class Volumes(Rig):
    """An API server that has claims, and a gang of two that names one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ApiServer(bookmark_seconds=0.05, extra=(CLAIMS,))

    async def claim(self, *modes: str) -> None:
        await self.client.create(
            PATH, {"metadata": {"name": "data"}, "spec": {"accessModes": modes}}
        )

    async def ask(self) -> None:
        """Two full nodes, and kube-scheduler's question for each member."""
        await self.nodes(2)
        await self.classes(low=1, high=100)
        await self.gang("low", 2, "low", on="n")
        await self.group("g", 2, "high")
        for i in range(2):
            await claiming(self, f"g-{i}", "g", SHARED, cpu="3")
        for i in range(2):
            await self.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])

    async def refusal(self) -> str:
        """Why nothing goes."""
        assert not len(self.coordinator.reservations)
        refused = await self.coordinator.ensure(self.resolver_key("g-0"), Verb.LOOP)
        assert isinstance(refused, Refusal)
        return refused.message


async def test_no_pod_is_evicted_for_a_claim_that_one_pod_may_use() -> None:
    async with Volumes() as rig:
        await rig.claim("ReadWriteOncePod")
        await rig.ask()
        told = await rig.refusal()
    assert "2 members name PersistentVolumeClaim data" in told
    assert "ReadWriteOncePod" in told


async def test_members_that_share_a_claim_preempt() -> None:
    async with Volumes() as rig:
        await rig.claim("ReadWriteMany", "ReadWriteOnce")
        await rig.ask()
        (preemption,) = rig.coordinator.reservations
        assert len(preemption.plan.victims) == 2


async def test_no_pod_is_evicted_where_the_claim_cannot_be_read() -> None:
    async with Volumes() as rig:
        await rig.claim("ReadWriteMany")
        rig.server.faults.plan(Fault(1000, "GET", PATH, status=403, reason="Forbidden"))
        await rig.ask()
        told = await rig.refusal()
    assert "access modes are not known" in told
    assert "403" in told


async def test_no_pod_is_evicted_for_a_claim_without_modes() -> None:
    async with Volumes() as rig:
        await rig.claim()
        await rig.ask()
        assert "access modes are not known: it has none" in await rig.refusal()


@pytest.mark.parametrize("count", [1, 2])
def test_claims_are_of_the_seated_members(count: int) -> None:
    """A claim of a member's own, without a name, is shared with no other pod."""
    shape = PodShape(unmodelled=("persistentVolumeClaim", "persistentVolumeClaim data"))
    members = [pod(f"g-{i}", cpu=1, priority=9, group="g", shape=shape) for i in range(2)]
    state = snapshot([node("n0", cpu=4)], members, [group("g", 2, priority=9)])
    gang = Resolver(GroupSettings()).resolve(gang_key("g"), state)
    plan = plan_for(state, "g")
    assert isinstance(plan, Plan)
    found = claims_together(replace(plan, seats=plan.seats[:count]), gang)
    assert found == ({("default", "data"): 2} if count == 2 else {})
