"""No pod is evicted for a gang while an autoscaler has announced a node for it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.gang.plan.scale_up import REQUEST
from extender.gang.tell.decisions import Verb
from extender.model.plan import Code, Refusal
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import ServedResource
from extender.settings.settings import PlanSettings
from tests.gang.rig import FAST, HIGH, LOW, PODS, Rig, full_cluster

EVENTS = "/api/v1/namespaces/default/events"
REQUESTS = ServedResource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
QUICK = replace(FAST, plan=PlanSettings(retry_seconds=0.05))
"""A refusal is looked at again at once, so a test need not wait for it."""


def stamp(ago: float) -> str:
    return datetime.fromtimestamp(time.time() - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Scaled(Rig):
    """A full cluster, in which a gang of two would evict another one."""

    def __init__(self, settings: Any = QUICK) -> None:
        super().__init__(settings)
        self._sent = 0

    async def say(
        self,
        reason: str,
        name: str = "high-0",
        *,
        ago: float = 0.0,
        uid: str = "",
        by: str = "cluster-autoscaler",
        message: str = "pod triggered scale-up: [{workers 2->4 (max: 9)}]",
    ) -> None:
        """Send an event as client-go's recorder does for an autoscaler."""
        self._sent += 1
        pod = await self.client.get(f"{PODS}/{name}")
        about = {"kind": "Pod", "namespace": "default", "name": name}
        about["uid"] = uid or pod["metadata"]["uid"]
        body = {
            "metadata": {"name": f"{name}.{self._sent}"},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Normal",
            "source": {"component": by},
            "firstTimestamp": stamp(ago),
            "lastTimestamp": stamp(ago),
            "eventTime": None,
            "count": 1,
        }
        await self.client.create(EVENTS, body)

    async def fill(self) -> None:
        """The high gang exists, and kube-scheduler has asked nothing for it yet."""
        await self.nodes(2)
        await self.classes(low=1, mid=50, high=100)
        await full_cluster(self)

    async def ask(self, name: str = "high-0") -> Any:
        return await self.coordinator.ensure(self.resolver_key(name), Verb.LOOP)

    async def waits(self) -> str:
        """What the gang is told that waits. It holds no node."""
        found = await self.ask()
        assert isinstance(found, Refusal), found
        assert found.code is Code.SCALE_UP
        assert not len(self.coordinator.reservations)
        return found.message

    async def answered(self) -> Preemption:
        """The plan, once there is one."""
        deadline = time.monotonic() + self.patience
        while isinstance(found := await self.ask(), Refusal):
            assert time.monotonic() < deadline, found.message
            await asyncio.sleep(0.02)
        assert isinstance(found, Preemption)
        return found

    def reads_again(self) -> None:
        """What was read is not used any more."""
        for read in self.coordinator.turns._announced._kept.values():
            read.until = 0.0

    async def evicts(self) -> None:
        """Both pods of the low gang go."""
        assert len((await self.answered()).plan.victims) == 2
        await self.until_names(*HIGH)


async def test_an_announced_node_is_used_and_nobody_is_evicted() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp")
        told = await rig.waits()
        assert told.startswith("waits for a node that cluster-autoscaler has announced, until ")
        assert told.endswith(" UTC; then 2 pods would be evicted")
        await rig.nodes(2, first=2)
        preemption = await rig.answered()
        assert not preemption.plan.victims
        assert set(preemption.seats.values()) == {"n2", "n3"}
        assert await rig.names() == {*LOW, *HIGH}


async def test_without_a_word_nothing_waits() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.evicts()


async def test_a_node_that_does_not_come_is_waited_for_until_the_deadline() -> None:
    """It is counted from the event's own time: a restart in between begins nothing anew."""
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp", ago=116)
        told = await rig.waits()
        await rig.restart()
        assert await rig.waits() == told
        began = time.monotonic()
        await rig.evicts()
        assert time.monotonic() - began < 30
        assert "penalty" not in rig.outcomes("high")


async def test_a_no_ends_the_wait_at_once() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp", ago=5)
        await rig.waits()
        why = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
        await rig.say("NotTriggerScaleUp", message=why)
        rig.reads_again()
        await rig.evicts()
        assert f"cluster-autoscaler adds no node: {why}" in rig.messages("high")


async def test_an_old_word_is_over() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp", ago=121)
        await rig.evicts()


async def test_a_word_on_a_pod_before_this_one_says_nothing() -> None:
    """A member that was made again has its name, and another uid."""
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp", uid="of-another-life")
        await rig.evicts()


async def test_a_node_of_karpenter_is_waited_for() -> None:
    async with Scaled() as rig:
        await rig.fill()
        text = "Pod should schedule on: nodeclaim/gpu-6csft"
        await rig.say("Nominated", by="eks-auto-mode/compute", message=text)
        assert "that eks-auto-mode/compute has announced" in await rig.waits()
        # kube-scheduler's word of the same reason, under another name than its own, is no no.
        await rig.say("FailedScheduling", by="other", message="0/2 nodes are available")
        rig.reads_again()
        await rig.waits()
        text = "Failed to schedule pod, no instance type met all requirements"
        await rig.say("FailedScheduling", by="eks-auto-mode/compute", message=text)
        rig.reads_again()
        await rig.evicts()


async def test_events_that_cannot_be_read_are_not_waited_for() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp")
        refused = Fault(1000, "GET", EVENTS, status=403, reason="Forbidden")
        rig.server.faults.plan(refused)
        await rig.evicts()
        assert refused.hits == 1, "it is not asked again for every plan"
        assert "no announced node is waited for: events cannot be read" in rig.messages("high")


async def test_what_was_read_before_stands_where_nothing_can_be_read_now() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp", ago=116)
        told = await rig.waits()
        refused = rig.server.faults.plan(Fault(1000, "GET", EVENTS, status=503))
        rig.reads_again()
        while not refused.hits:
            assert await rig.waits() == told
            await asyncio.sleep(0.01)
        assert await rig.waits() == told
        await rig.evicts()


async def test_no_event_is_read_where_nobody_would_be_evicted() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.nodes(2, first=2)
        await rig.say("TriggeredScaleUp")
        await rig.answered()
        assert not [
            path for method, path in rig.server.requests if method == "GET" and EVENTS in path
        ]


async def test_the_first_answer_is_waited_for_where_the_settings_say_so() -> None:
    patient = replace(QUICK, plan=replace(QUICK.plan, scale_up_answer_seconds=5.0))
    async with Scaled(patient) as rig:
        await rig.fill()
        assert (await rig.waits()).startswith("waits for an autoscaler's answer, until ")
        await rig.evicts()


async def test_it_can_be_turned_off() -> None:
    off = replace(QUICK, plan=replace(QUICK.plan, scale_up="off"))
    async with Scaled(off) as rig:
        await rig.fill()
        await rig.say("TriggeredScaleUp")
        await rig.evicts()


async def test_who_claims_a_node_for_its_own_pods_waits_and_keeps_nobody_waiting() -> None:
    """Whoever may write events in a namespace can write this one. It holds no node by that: a gang
    of lower priority takes the room that comes, and is evicted for nobody."""
    async with Scaled() as rig:
        await rig.fill()
        await rig.gang("mid", 2, "mid")
        await rig.say("TriggeredScaleUp")
        await rig.waits()
        found = await rig.ask("mid-0")
        assert isinstance(found, Preemption)
        assert len(found.plan.victims) == 2
        await rig.until_names(*HIGH, "mid-0", "mid-1")


async def test_a_less_urgent_gang_does_not_take_the_node_that_was_waited_for() -> None:
    async with Scaled() as rig:
        await rig.fill()
        await rig.gang("mid", 2, "mid")
        await rig.say("TriggeredScaleUp")
        await rig.say("TriggeredScaleUp", "mid-0")
        await rig.waits()
        assert isinstance(await rig.ask("mid-0"), Refusal)
        await rig.nodes(2, first=2)
        await rig.until(lambda: len(rig.cache.snapshot().nodes) == 4, "the nodes are cached")
        while not len(rig.coordinator.reservations):
            assert isinstance(await rig.ask("mid-0"), Refusal)
            await asyncio.sleep(0.02)
        (found,) = rig.coordinator.reservations
        assert found.key == rig.resolver_key("high-0")
        assert not found.plan.victims


async def test_a_request_that_a_pod_consumes_is_a_word_too() -> None:
    rig = Scaled()
    rig.server = ApiServer(bookmark_seconds=0.05, extra=(REQUESTS,))
    async with rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        await rig.gang("high", 2, "high")
        for name in HIGH:
            body = {"metadata": {"annotations": {REQUEST: "job-1"}}}
            await rig.client.patch(f"{PODS}/{name}", body)
        await rig.until(lambda: rig.cached("high-1").annotations != {}, "the annotation is cached")
        path = REQUESTS.path("default")
        conditions = [{"type": "Provisioned", "status": "True", "lastTransitionTime": stamp(1)}]
        await rig.client.create(path, {"metadata": {"name": "job-1"}})
        await rig.client.patch(f"{path}/job-1/status", {"status": {"conditions": conditions}})
        assert "that ProvisioningRequest job-1 has announced" in await rig.waits()
        conditions += [{"type": "BookingExpired", "status": "True", "lastTransitionTime": stamp(0)}]
        await rig.client.patch(f"{path}/job-1/status", {"status": {"conditions": conditions}})
        await rig.evicts()
