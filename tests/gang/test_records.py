"""Plan records: what they hold, how they are cut, and what happens to them on bad days."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.gang.controller.records import Records, RecordWriter, Superseded, documents_of
from extender.gang.core.record import PART_BYTES, Others, Record, pack, unpack
from extender.gang.core.reservations import Preemption
from extender.gang.leader_election.lease import Alone
from extender.gang.runtime.background import Background
from extender.gang.runtime.signature import Signer
from extender.gang.tell.preemption_state import PreemptionState
from extender.kube.api_errors import ApiError, Conflict, Invalid
from extender.kube.client import KubeClient
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey
from extender.model.plan import Plan, Seat, Victim
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault

MAPS = "/api/v1/namespaces/kube-system/configmaps"


def record(seats: int = 2, victims: int = 2, *, gang: str = "g", made: float = 1.0) -> Record:
    """A plan as large clusters have them: random uids, long names."""
    rng = random.Random(seats * 1009 + victims)

    def uid() -> str:
        return str(uuid.UUID(int=rng.getrandbits(128)))

    return Record(
        id=f"{rng.getrandbits(48):012x}",
        plan=Plan(
            gang=GangKey("jobset", "research", gang),
            priority=100,
            seats=tuple(
                Seat(uid(), "research", f"{gang}-workers-{i}-{uid()[:5]}", f"gpu-pool-{i:05d}")
                for i in range(seats)
            ),
            victims=tuple(
                Victim(
                    uid(),
                    "batch",
                    f"old-workers-{i}-{uid()[:5]}",
                    f"gpu-pool-{i:05d}",
                    10,
                    gang="jobset:batch/old",
                    unit="jobset:batch/old",
                )
                for i in range(victims)
            ),
        ),
        made=made,
    )


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    await server.start()
    yield server
    server.faults.clear()
    await server.close()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with await KubeClient.connect(server=server.url) as client:
        yield client


async def names(client: KubeClient) -> list[str]:
    return sorted(item["metadata"]["name"] for item in (await client.get(MAPS))["items"])


@pytest.mark.parametrize("size", [1, 2048, 10_000])
async def test_records_of_any_size_are_kept_whole(client: KubeClient, size: int) -> None:
    """2,048 seats with 2,048 victims were 1.08 MiB once, over the API's limit of 1 MiB."""
    records = Records(client, "kube-system")
    written = record(size, size)
    await records.create(written)
    assert all(len(part) <= PART_BYTES for part in pack(written))
    loaded = await Records(client, "kube-system").load()
    assert loaded.records == [written]
    assert loaded.unreadable == []
    await records.drop(written)
    assert await names(client) == []


async def test_the_sandbox_refuses_what_the_api_server_refuses(client: KubeClient) -> None:
    with pytest.raises(Invalid, match="Too long"):
        await client.create(MAPS, {"metadata": {"name": "big"}, "data": {"a": "x" * 2**20 + "y"}})


@given(data=st.binary(max_size=200), cut=st.integers(0, 199))
def test_what_is_no_record_is_an_error_and_nothing_else(data: bytes, cut: int) -> None:
    with pytest.raises(InvalidInput):
        unpack([data])
    whole = pack(record())[0]
    with pytest.raises(InvalidInput):
        unpack([whole[: min(cut, len(whole) - 1)]])


def test_what_only_a_person_reads_is_not_kept() -> None:
    told = replace(record().plan, explanation=("it fits",), spared="cheaper only with a node")
    assert unpack(pack(replace(record(), plan=told))) == record()


def test_a_record_in_which_work_is_won_by_an_eviction_is_none() -> None:
    """A counter takes no number below 0: it would fail after the eviction."""
    plan = record().plan
    wrong = replace(plan, victims=(replace(plan.victims[0], lost=-1),))
    with pytest.raises(InvalidInput, match="lost"):
        unpack(pack(replace(record(), plan=wrong)))


def test_a_record_of_another_format_is_not_guessed_at() -> None:
    with pytest.raises(InvalidInput, match="format 99"):
        unpack(pack(replace(record(), format=99)))


def test_a_record_that_only_says_that_pods_have_gone_counts_all_its_nodes() -> None:
    """A version before wrote no nodes."""
    kept = record(seats=2)
    nodes = {seat.node for seat in kept.plan.seats}
    assert unpack(pack(replace(kept, evicted=True))).evicted_from == nodes
    assert unpack(pack(replace(kept, evicted=False))).evicted_from == set()
    assert unpack(pack(replace(kept, evicted=("n7",)))).evicted_from == {"n7"}


async def test_a_record_without_all_its_parts_is_told_and_left_alone(client: KubeClient) -> None:
    written = record(20_000, 20_000)
    records = Records(client, "kube-system")
    await records.create(written)
    assert len(await names(client)) > 2
    await client.delete(f"{MAPS}/{written.name}-1")
    loaded = await Records(client, "kube-system").load()
    assert (loaded.records, loaded.unreadable) == ([], [written.name])


async def test_a_record_that_came_after_its_plan_was_over_goes(client: KubeClient) -> None:
    """Its parts are gone by then. It was kept aside for somebody to look at (seed 117180)."""
    written = record(10_000, 10_000)
    await client.create(MAPS, documents_of(written)[0])
    records = Records(client, "kube-system")
    loaded = await records.load()
    assert (loaded.records, loaded.unreadable) == ([], [])
    await records.sweep(set, 0)
    assert await names(client) == []


async def test_parts_without_a_record_are_leftovers(client: KubeClient) -> None:
    """The first part is written last: killed before, nothing may be evicted."""
    written = record(10_000, 10_000)
    for document in documents_of(written)[1:]:
        await client.create(MAPS, document)
    records = Records(client, "kube-system")
    assert (await records.load()).records == []
    await records.sweep(set, 0)
    assert await names(client) == []


async def test_two_records_of_one_gang_are_two_objects(client: KubeClient) -> None:
    records = Records(client, "kube-system")
    first, second = record(2, 2), record(2, 3)
    await records.create(first)
    await records.create(second)
    await records.drop(first)
    assert await names(client) == [second.name]


async def test_a_plan_that_is_over_says_so_however_large_it_was(client: KubeClient) -> None:
    """A record in two parts stayed as it was: a life after that went on with the ended plan."""
    signer = Signer(b"k" * 32)
    records = Records(client, "kube-system", signer)
    written = record(10_000, 10_000)
    singles = tuple(replace(v, unit="") for v in written.plan.victims[:-9])
    unit = written.plan.victims[-9:]
    written = replace(written, plan=replace(written.plan, victims=(*singles, *unit)))
    await records.create(written)
    assert len(await names(client)) > 1
    owed = tuple(victim.uid for victim in unit[3:])
    await records.update(replace(written, finishing=owed))
    life = Records(client, "kube-system", signer)
    (loaded,) = (await life.load()).records
    assert loaded.finishing == owed
    assert loaded.plan.victims == unit, "its extent tells how many have gone"
    await life.drop(loaded)
    await life.sweep(set, 0)
    assert await names(client) == []


@pytest.mark.parametrize("drop", ["before", "after"])
async def test_a_lost_answer_is_read_back(server: ApiServer, client: KubeClient, drop: str) -> None:
    server.faults.plan(Fault(times=1, method="POST", drop=drop))  # type: ignore[arg-type]
    await Records(client, "kube-system").create(record())
    assert await names(client) == [record().name]


async def test_a_conflict_that_wrote_nothing_is_no_record(
    server: ApiServer, client: KubeClient
) -> None:
    """A ResourceQuota that is updated at the same moment refuses a POST with 409 Conflict."""
    server.faults.plan(Fault(times=1, method="POST", status=409, reason="Conflict"))
    await Records(client, "kube-system").create(record())
    assert await names(client) == [record().name]
    server.faults.plan(Fault(times=100, method="POST", status=409, reason="Conflict"))
    with pytest.raises(Conflict):
        await Records(client, "kube-system").create(record(3, 3))
    assert await names(client) == [record().name]


async def test_a_record_that_was_given_up_is_swept_when_the_api_is_back(
    server: ApiServer, client: KubeClient
) -> None:
    records = Records(client, "kube-system")
    server.faults.plan(Fault(times=1, method="POST", drop="after"))
    server.faults.plan(Fault(times=10_000, status=503))
    with pytest.raises(ApiError):
        await records.create(record())
    server.faults.clear()
    assert await names(client) == [record().name]
    await records.sweep(set, 0)
    assert await names(client) == []


async def test_a_younger_lease_keeps_what_it_has_taken_over(client: KubeClient) -> None:
    old, young = Records(client, "kube-system"), Records(client, "kube-system")
    written = record()
    await old.create(written)
    loaded = (await young.load()).records
    claimed = await young.claim(loaded[0], 3)
    assert claimed.epoch == 3
    with pytest.raises(Superseded):
        await old.update(replace(written, finishing=("x",)))
    with pytest.raises(Superseded):
        await old.drop(written)
    await old.sweep(set, 0)
    assert await names(client) == [written.name]
    assert (await young.load()).records == [claimed]


async def test_a_record_changed_since_it_was_read_is_not_claimed(client: KubeClient) -> None:
    """What a life before wrote late was put under a signature of what it had written earlier."""
    signer = Signer(b"k" * 32)
    old, young = (Records(client, "kube-system", signer) for _ in range(2))
    written = record()
    await old.create(written)
    loaded = (await young.load()).records
    late = replace(written, finishing=tuple(victim.uid for victim in written.plan.victims))
    await old.update(late)
    with pytest.raises(Conflict):
        await young.claim(loaded[0], 3)
    (found,) = (await Records(client, "kube-system", signer).load()).records
    assert (found.epoch, found.finishing) == (0, late.finishing)
    (again,) = (await young.load()).records
    await young.claim(again, 3)
    (found,) = (await Records(client, "kube-system", signer).load()).records
    assert (found.epoch, found.finishing) == (3, late.finishing)


async def test_an_update_meets_a_change_in_between(server: ApiServer, client: KubeClient) -> None:
    records = Records(client, "kube-system")
    written = record()
    await records.create(written)
    server.faults.plan(Fault(times=1, method="PUT", status=409, reason="Conflict"))
    server.faults.plan(Fault(times=1, method="PUT", drop="after"))
    await records.update(replace(written, finishing=("x",)))
    loaded = await records.load()
    assert loaded.records[0].finishing == ("x",)


async def test_what_somebody_else_put_there_stays(client: KubeClient) -> None:
    body = {
        "metadata": {"name": "mine", "labels": {"podgroup-extender.io/plan": "under-way"}},
        "data": {"plan": "{not json"},
    }
    await client.create(MAPS, body)
    records = Records(client, "kube-system")
    assert (await records.load()).unreadable == ["mine"]
    for each in (records, Records(client, "kube-system")):  # what came after all was read, too
        await each.sweep(set, 5)
        assert await names(client) == ["mine"]


async def test_the_youngest_plan_comes_first(client: KubeClient) -> None:
    records = Records(client, "kube-system")
    plans = [record(2, n, gang=f"g{n}", made=float(n)) for n in range(3)]
    for each in plans:
        await records.create(each)
    loaded = (await records.load()).records
    assert [each.made for each in loaded] == [2.0, 1.0, 0.0]


async def test_a_sweep_leaves_a_record_alone_that_is_written_meanwhile(
    server: ApiServer, client: KubeClient
) -> None:
    """Who is wanted was once asked before the list was read: a plan went on without a record."""
    background = Background()
    keeper = RecordWriter(Records(client, "kube-system"), Alone(), background)
    listing = asyncio.Event()
    listed = server.faults.plan(Fault(1, "GET", "labelSelector", released=listing))
    sweep = asyncio.create_task(keeper.sweep())
    while not listed.hits:
        await asyncio.sleep(0.01)
    preemption = Preemption(
        plan=record().plan, id="1", pods={}, seats={}, state=PreemptionState.PLANNED, since=0.0
    )
    await keeper.write(preemption, made=1.0, others=Others())
    (name,) = await names(client)
    listing.set()
    await sweep
    assert await names(client) == [name]
    await background.close()


@pytest.mark.parametrize("lost", [False, True])
async def test_a_record_of_before_that_is_back_is_deleted_while_the_lease_is_ours(
    client: KubeClient, *, lost: bool
) -> None:
    """Put back with the storage, under an epoch that nobody alive has seen: it stayed for ever."""
    before, background, lease = Records(client, "kube-system"), Background(), Alone()
    keeper = RecordWriter(Records(client, "kube-system"), lease, background)
    await keeper.load()
    written = replace(record(), epoch=3)
    await before.create(written)
    if lost:
        lease.acts = False
    for _ in range(2):
        await keeper.sweep()
    assert await names(client) == ([written.name] if lost else [])
    await background.close()
