"""Claims of members: volumes that one pod alone may use, and devices."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.volumes import claims_together
from extender.gang.tell.decisions import Verb
from extender.groups.resolver import Resolver
from extender.model.memory_limits import OVERSIZE
from extender.model.objects import GroupObject, Pod, PodShape
from extender.model.owner_kinds import DEVICE_CLASS_SOURCE
from extender.model.plan import Hold, Plan, Refusal
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import ServedResource
from extender.settings.settings import GroupSettings, Settings
from tests.gang.rig import PODS, Obj, Rig
from tests.gang.world import evicted, gang_key, group, node, plan_for, pod, seats, snapshot

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


TEMPLATE = PodShape(unmodelled=("resourceClaimTemplate gpus",))
DEVICE_SHARED = PodShape(unmodelled=("resourceClaim gpus",))


def planned(*members: Pod, low: tuple[Pod, ...], nodes: int = 2) -> Plan | Refusal:
    state = snapshot(
        [node(f"n{i}", cpu=32) for i in range(nodes)],
        [*low, *members],
        [group("g", len(members), priority=100)],
    )
    return plan_for(state, "g")


def members(count: int, shape: PodShape, cpu: int = 8) -> tuple[Pod, ...]:
    return tuple(pod(f"g-{i}", cpu=cpu, priority=100, group="g", shape=shape) for i in range(count))


def test_two_members_with_claims_are_not_seated_on_one_node_by_evictions() -> None:
    """One node, 8 devices, two members that claim 8 each: CPU can be had, devices cannot."""
    low = (pod("low", cpu=30, on="n0"),)
    answer = planned(*members(2, TEMPLATE), low=low, nodes=1)
    assert isinstance(answer, Refusal)
    assert answer.message.startswith("does not fit with at most one member that claims devices")
    assert "resourceClaimTemplate gpus" in answer.message


def test_members_with_claims_of_their_own_are_seated_apart() -> None:
    """Without devices one eviction would do: both members fit on the node of one pod."""
    low = (pod("low-0", cpu=30, on="n0"), pod("low-1", cpu=30, on="n1"))
    bare = planned(*members(2, PodShape()), low=low)
    assert len(evicted(bare)) == 1
    apart = planned(*members(2, TEMPLATE), low=low)
    assert evicted(apart) == {"low-0", "low-1"}
    assert set(seats(apart).values()) == {"n0", "n1"}


@pytest.mark.parametrize(
    "shape", [DEVICE_SHARED, PodShape(unmodelled=(OVERSIZE, "resourceClaimTemplate gpus"))]
)
def test_no_pod_is_evicted_for_a_claim_that_members_share(shape: PodShape) -> None:
    low = (pod("low-0", cpu=30, on="n0"), pod("low-1", cpu=30, on="n1"))
    answer = planned(*members(2, shape), low=low)
    assert isinstance(answer, Refusal)
    assert "no pod is evicted" in answer.message


@pytest.mark.parametrize("shape", [DEVICE_SHARED, TEMPLATE])
def test_a_plan_that_evicts_no_pod_needs_no_more_than_room(shape: PodShape) -> None:
    answer = planned(*members(4, shape), low=())
    assert isinstance(answer, Plan)
    assert not answer.victims


CLASSED = PodShape(unmodelled=("extendedResource example.com/gpu 1",))
GPU = GroupObject(DEVICE_CLASS_SOURCE, "gpu", "", "gpu", of="example.com/gpu")


def claims(made: Pod, shape: PodShape) -> Pod:
    """The pod with this claim; with the request, where that is what makes it."""
    if shape is not CLASSED:
        return replace(made, shape=shape)
    return replace(made, requests=tuple(sorted((*made.requests, ("example.com/gpu", 1)))))


def asked(pods: list[Pod], hold: Hold | None = None, went: str = "") -> Plan | Refusal:
    """Plan for "g" on two nodes; ``hold``: another gang's seat, ``went``: where a pod went from."""
    nodes = [node(f"n{i}") for i in range(2)]
    names = [each for each in pods if each.pod_group == "g"]
    state = snapshot(nodes, pods, [group("g", len(names), priority=100), GPU])
    state = replace(state, evicted_from=frozenset({went} - {""}))
    resolver = Resolver(Settings().groups)
    gang = resolver.resolve(gang_key("g"), state)
    holds = () if hold is None else (hold,)
    return Planner(Settings(), resolver).plan(GangQuestion(gang, state, holds=holds))


def low(*at: int) -> list[Pod]:
    return [pod(f"low-{i}", cpu=3.5, on=f"n{i}") for i in at]


@pytest.mark.parametrize("other", [TEMPLATE, CLASSED, PodShape()])
@pytest.mark.parametrize("shape", [TEMPLATE, CLASSED])
def test_a_seat_held_for_another_pod_with_a_claim_is_not_counted_on(
    shape: PodShape, other: PodShape
) -> None:
    """kube-scheduler has accepted the node for each of the two alone: it may have one device."""
    member = claims(pod("g-0", cpu=1, priority=100, group="g"), shape)
    held = claims(pod("other", cpu=0.1, priority=100, group="other"), other)
    found = {}
    for name in ("n0", "n1"):
        hold = Hold(gang_key("other"), 100, held.uid, name, held.requests)
        found[name] = seats(asked([*low(0, 1), member, held], hold))["g-0"]
    if other.unmodelled:
        assert found == {"n0": "n1", "n1": "n0"}
    else:
        assert len({*found.values()}) == 1


@pytest.mark.parametrize("sits", [TEMPLATE, CLASSED, PodShape()])
def test_a_member_that_sits_where_a_pod_went_has_the_device(sits: PodShape) -> None:
    """What a pod with a node asks for by a DeviceClass's name is known by its node."""
    member = pod("g-0", cpu=1, priority=100, group="g", shape=TEMPLATE)
    one = claims(pod("g-1", cpu=1, priority=100, group="g", on="n0"), sits)
    plan = asked([*low(1), member, one], went="n0")
    free = sits.unmodelled == ()
    assert evicted(plan) == (set() if free else {"low-1"})
    assert seats(plan) == {"g-0": "n0" if free else "n1"}


async def claiming(rig: Rig, name: str, group: str, claim: Obj, cpu: str = "1") -> None:
    await rig.client.create(
        PODS,
        {
            "metadata": {"name": name},
            "spec": {
                "schedulingGroup": {"podGroupName": group},
                "priorityClassName": "high",
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
                ],
                **claim,
            },
        },
    )
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


GPUS = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]}


async def test_a_seat_follows_the_nodes_that_have_devices_left(rig: Rig) -> None:
    """kube-scheduler has allocated the devices of each node that a member was assumed on."""
    await rig.nodes(2, first=2)
    left = {"n0", "n1", "n2", "n3"}
    await rig.group("g", 4, "high")
    for i in range(4):
        await claiming(rig, f"g-{i}", "g", GPUS)
    for i in range(4):
        answer = await rig.filter(f"g-{i}", *sorted(left))
        assert len(answer.node_names) == 1, f"g-{i}: {answer}"
        left -= set(answer.node_names)
    assert not left


async def test_seats_are_exchanged_where_every_node_is_held_for_the_gang(rig: Rig) -> None:
    """Each node has room for one member, and the first is offered only another one's."""
    await rig.group("g", 2, "high")
    for i in range(2):
        await claiming(rig, f"g-{i}", "g", GPUS, cpu="3")
    first = await rig.filter("g-0", "n0", "n1")
    (seat,) = first.node_names
    (other,) = {"n0", "n1"} - {seat}
    again = await rig.filter("g-0", other)
    assert again.node_names == [other]
    assert (await rig.filter("g-1", seat)).node_names == [seat]


async def test_what_is_known_of_one_claim_says_nothing_of_anothers(rig: Rig) -> None:
    """Both members have a volume of their own: the list of one is no evidence for the other."""
    await rig.gang("low", 2, "low", on="n")
    await rig.group("g", 2, "high")
    for i in range(2):
        volume = {"name": "d", "persistentVolumeClaim": {"claimName": f"d-{i}"}}
        await claiming(rig, f"g-{i}", "g", {"volumes": [volume]}, cpu="3")
    await rig.preempt("g-0", n0=["low-0"])
    assert not len(rig.coordinator.reservations), "kube-scheduler has named no node for the other"
    await rig.preempt("g-1", n0=["low-0"])
    assert not len(rig.coordinator.reservations), "both have to be on one node, and one fits there"
    for _ in range(100):  # the refusal stands for a moment
        await rig.preempt("g-1", n1=["low-1"])
        if len(rig.coordinator.reservations):
            break
        await asyncio.sleep(0.05)
    (preemption,) = rig.coordinator.reservations
    assert set(preemption.seats.values()) == {"n0", "n1"}
