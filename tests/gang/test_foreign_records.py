"""Plan records that somebody else wrote, or changed, destroy nothing (issue 9, row 7).

See docs/security.md, row 7.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller.records import (
    EPOCH_ANNOTATION,
    SIGNATURE_ANNOTATION,
    documents_of,
)
from extender.gang.core.record import Record, unpack
from extender.gang.plan.single import SINGLE
from extender.gang.runtime.signature import Signer, digest_of, keys_of, read_key
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey
from extender.model.plan import Plan, Seat, Victim
from tests.gang.rig import FAST, HIGH, LOW, PODS, Obj, Rig, full_cluster

MAPS = "/api/v1/namespaces/kube-system/configmaps"
EVENTS = "/api/v1/namespaces/kube-system/events"
KEY = b"a key of thirty-two bytes or more"


def victim(pod: Obj, unit: str = "") -> Victim:
    """The pod as a plan names it."""
    meta = pod["metadata"]
    return Victim(
        meta["uid"], meta["namespace"], meta["name"], pod["spec"]["nodeName"], 0, unit=unit
    )


def forged(victims: tuple[Victim, ...], **more: Any) -> Record:
    """A record as an attacker writes it: of a gang that is gone, at the highest priority."""
    plan = Plan(
        gang=GangKey("jobset", "nowhere", "urgent"),
        priority=more.pop("priority", 1_000_000_000),
        seats=more.pop("seats", (Seat("seat-gone", "nowhere", "gone-0", "n0"),)),
        victims=victims,
    )
    return Record(id="0123456789ab", plan=replace(plan, **more), made=1.0)


async def put(rig: Rig, record: Record, signer: Signer | None = None) -> None:
    for document in documents_of(record, signer):
        await rig.client.create(MAPS, document)


async def settled(rig: Rig, record: Record) -> list[str]:
    """Restart, and sweep; return what the events on the record's ConfigMap say."""
    await rig.start()
    await rig.coordinator.executor._keeper.sweep()
    await rig.until(lambda: not rig.coordinator.plans.victims.unfinished(), "nothing goes on")
    assert [item["metadata"]["name"] for item in await rig.records()] == [record.name]
    assert list(rig.coordinator.records.aside) == [record.name]
    assert not len(rig.coordinator.reservations)
    found: list[str] = []
    async with asyncio.timeout(60):
        while not found:
            items = (await rig.client.get(EVENTS))["items"]
            found = [
                item["message"]
                for item in items
                if item["type"] == "Warning" and item["involvedObject"]["kind"] == "ConfigMap"
            ]
    return found


async def test_a_forged_unit_that_is_gone_in_part_takes_nobody(rig: Rig) -> None:
    """One invented pod that is gone, and coredns: the rest of the unit once had to go."""
    dns = await rig.pod("coredns", cls="top", on="n0")
    unit = "jobset:default/any"
    record = forged((Victim("gone", "default", "gone", "n0", 0, unit=unit), victim(dns, unit)))
    await rig.kill()
    await put(rig, record)
    (message,) = await settled(rig, record)
    assert "is not of it" in message
    assert await rig.names() == {"coredns"}
    assert not rig.cached("coredns").deleting


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"priority": 2_000_000_500}, "is not signed"),
        ({"priority": 1 << 40}, "no pod has a priority"),
        ({"seats": ()}, "no member to seat"),
        ({"seats": (Seat("gone", "default", "low-9", "n0"),)}, "a member as a victim"),
    ],
    ids=["system priority", "no priority", "no seats", "seats a victim"],
)
async def test_what_no_plan_could_say_is_kept_aside(
    rig: Rig, change: dict[str, Any], why: str
) -> None:
    await full_cluster(rig)
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    record = forged((gone, *(victim(pod, unit) for pod in pods.values())), **change)
    await rig.kill()
    await put(rig, record)
    (message,) = await settled(rig, record)
    assert why in message
    assert set(LOW) <= await rig.names()


async def test_a_victim_under_another_name_is_kept_aside(rig: Rig) -> None:
    """What people are told of a record, and what it would do, must be the same pods."""
    await full_cluster(rig)
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    low = [victim(pod, unit) for pod in pods.values()]
    record = forged((gone, low[0], replace(low[1], name="harmless")))
    await rig.kill()
    await put(rig, record)
    (message,) = await settled(rig, record)
    assert "default/low-1 is called default/harmless" in message
    assert set(LOW) <= await rig.names()


async def test_a_seat_for_a_pod_of_another_gang_is_not_held(rig: Rig) -> None:
    await full_cluster(rig)
    high = await rig.client.get("/api/v1/namespaces/default/pods/high-0")
    seat = Seat(high["metadata"]["uid"], "default", "high-0", "n0")
    await rig.kill()
    single = GangKey(SINGLE, "default", "someone")
    await put(rig, forged((), seats=(seat,), gang=single))
    await put(rig, forged((), seats=(seat,), gang=GangKey("pod-group", "default", "low")))
    await rig.start()
    assert not len(rig.coordinator.reservations)
    (aside,) = rig.coordinator.records.aside.values()  # a pod's name does not change
    assert "is not of pod:default/someone" in aside.why


async def test_with_a_key_only_what_it_has_signed_counts(rig: Rig) -> None:
    """The same plan, unsigned, signed by somebody else, and with another epoch."""
    await full_cluster(rig)
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    record = forged((gone, *(victim(pod, unit) for pod in pods.values())))
    rig.record_key = KEY
    for signer, why in (
        (None, "is not signed"),
        (Signer(b"another key of thirty-two bytes.."), "not made with our key"),
    ):
        await rig.kill()
        await put(rig, record, signer)
        assert why in (await settled(rig, record))[-1]
        await rig.client.delete(f"{MAPS}/{record.name}")
        for item in (await rig.client.get(EVENTS))["items"]:
            await rig.client.delete(f"{EVENTS}/{item['metadata']['name']}")
    await rig.kill()
    await put(rig, record, Signer(KEY))
    patch = {"metadata": {"annotations": {EPOCH_ANNOTATION: "7"}}}
    await rig.client.patch(f"{MAPS}/{record.name}", patch)
    assert "not made with our key" in (await settled(rig, record))[-1]
    assert set(LOW) <= await rig.names()


def test_a_signature_is_of_one_record_as_it_is() -> None:
    """Its name (gang and plan), its epoch and all of its parts."""
    signer = Signer(KEY)
    parts = [b"one", b"two"]
    signature = signer.sign("name", 1, digest_of(parts))
    assert signer.problem("name", 1, digest_of(parts), signature) == ""
    for name, epoch, others in (
        ("other", 1, parts),
        ("name", 2, parts),
        ("name", 1, [b"one", b"TWO"]),
        ("name", 1, [b"onet", b"wo"]),
        ("name", 1, parts[:1]),
    ):
        assert signer.problem(name, epoch, digest_of(others), signature), (name, epoch, others)


async def test_without_a_key_a_begun_unit_is_finished_at_a_justified_priority(rig: Rig) -> None:
    """The preemptor is there, and not as urgent as the record says: its own priority counts."""
    await rig.gang("low", 2, "top", on="n")
    await rig.gang("high", 2, "high")
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    seats = tuple(
        Seat(rig.cached(name).uid, "default", name, f"n{i}") for i, name in enumerate(HIGH)
    )
    record = forged(
        (gone, *(victim(pod, unit) for pod in pods.values())),
        gang=GangKey("pod-group", "default", "high"),
        seats=seats,
    )
    await rig.kill()
    await put(rig, record)
    await rig.start()
    await rig.until(lambda: bool(rig.coordinator.plans.victims.broken()), "it is refused")
    assert set(LOW) <= await rig.names()


async def test_a_begun_unit_of_protected_pods_is_not_finished() -> None:
    """A record is no way around what the administrator protects, as kube-system is."""
    settings = replace(FAST, plan=replace(FAST.plan, protected_namespaces=("default",)))
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1)
        await rig.gang("low", 2, "low", on="n")
        pods = {name: await rig.client.get(f"{PODS}/{name}") for name in LOW}
        unit = "pod-group:default/low"
        gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
        record = forged((gone, *(victim(pod, unit) for pod in pods.values())))
        await rig.kill()
        await put(rig, record)
        await rig.start()
        await rig.until(lambda: bool(rig.coordinator.plans.victims.broken()), "it is refused")
        assert set(LOW) == await rig.names()
        assert not any(rig.cached(name).deleting for name in LOW)


async def test_our_own_signed_record_goes_on_after_a_restart(rig: Rig) -> None:
    await rig.kill()
    rig.record_key = KEY
    await rig.start()
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: any(f.recorded for f in rig.coordinator.reservations), "recorded")
    (item,) = await rig.records()
    assert item["metadata"]["annotations"][SIGNATURE_ANNOTATION]
    assert unpack([base64.b64decode(item["binaryData"]["plan"])]).plan.gang.name == "high"
    for _ in range(2):  # what was claimed under a new epoch is signed again
        await rig.restart()
        assert len(rig.coordinator.reservations) == 1
        assert not rig.coordinator.records.aside


async def test_a_unit_half_gone_is_finished_after_its_key_was_replaced(rig: Rig) -> None:
    await full_cluster(rig)
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    record = forged((gone, *(victim(pod, unit) for pod in pods.values())))
    await rig.kill()
    await put(rig, record, Signer(KEY))
    rig.record_key = b"a younger key of thirty-two bytes\n" + KEY
    await rig.start()
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the rest goes", 10)


def test_a_key_may_hold_any_bytes() -> None:
    assert keys_of(b"") == []
    assert keys_of(KEY + b"\n" + KEY[::-1]) == [KEY, KEY[::-1]]
    binary = KEY[:10] + b"\n" + KEY
    assert keys_of(binary) == [binary]


def test_a_key_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert read_key("") == b""
    with pytest.raises(InvalidInput, match="recordKeyFile"):
        read_key(str(path))
    path.write_bytes(b"short")
    with pytest.raises(InvalidInput, match="5 bytes"):
        read_key(str(path))
    path.write_bytes(KEY + b"\n")
    assert read_key(str(path)) == KEY


@pytest.mark.parametrize("key", [b"", KEY], ids=["unsigned", "signed"])
async def test_who_left_a_gang_meanwhile_keeps_no_other_unit_half_gone(
    rig: Rig, key: bytes
) -> None:
    """Labels that name a gang can be changed by the pod's owner, also while we are away."""
    await rig.gang("low", 2, "low", on="n", whole=True)
    left = await rig.pod("left", cls="low", on="n0", cpu="1")
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    halves = (gone, *(victim(pod, unit) for pod in pods.values()))
    record = forged((*halves, victim(left, "pod-group:default/others")))
    await rig.kill()
    rig.record_key = key
    await put(rig, record, Signer(key))
    await rig.start()
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the rest goes", 5)
    assert not rig.cached("left").deleting
    assert not rig.coordinator.records.aside


async def test_a_member_that_left_its_gang_keeps_no_unit_half_gone(rig: Rig) -> None:
    """Whose pods wait for seats may relabel one: what was begun for them is finished."""
    await full_cluster(rig)
    pods = {name: await rig.client.get(f"/api/v1/namespaces/default/pods/{name}") for name in LOW}
    high = await rig.client.get("/api/v1/namespaces/default/pods/high-0")
    unit = "pod-group:default/low"
    gone = Victim("gone", "default", "low-9", "n0", 0, unit=unit)
    record = forged(
        (gone, *(victim(pod, unit) for pod in pods.values())),
        seats=(Seat(high["metadata"]["uid"], "default", "high-0", "n0"),),
    )
    await rig.kill()
    await put(rig, record)
    await rig.start()
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "the rest goes", 5)
