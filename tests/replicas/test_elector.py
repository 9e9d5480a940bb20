"""The elector, on simulated clocks: client-go's rules, and never two that act."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.gang.leader_election.lease import ASKED
from extender.model.errors import InvalidInput
from extender.settings.settings import LeadershipSettings, Settings
from extender.settings.settings_rules import validate
from tests.replicas.simulated import Faults, LeaseServer, Replica, now, simulate

LEASE = LeadershipSettings(enabled=True)
NAME = LEASE.name


def replica(name: str, server: LeaseServer, *, fault_rate: float = 0.0, seed: int = 1) -> Replica:
    return Replica(name, server, Faults(random.Random(f"{name}{seed}"), fault_rate), LEASE)


@asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[asyncio.Event]:
    """Run the electors, each with somebody who ends its terms, as ``serve`` does."""
    stop = asyncio.Event()

    async def lead(one: Replica) -> None:
        while True:
            await one.elector.gained()
            await one.elector.lost()
            await one.sleep(0.01)
            await one.elector.ended()

    tasks = [asyncio.ensure_future(one.elector.run(stop)) for one in replicas]
    tasks += [asyncio.ensure_future(lead(one)) for one in replicas]
    try:
        yield stop
    finally:
        stop.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_acts(one: Replica, seconds: float = 100.0) -> float:
    began = now()
    while not one.elector.acts:
        assert now() - began < seconds, f"{one.name} does not lead in {seconds} s"
        await asyncio.sleep(0.01)
    return now() - began


def test_first_replica_leads_and_renews_every_retry_period() -> None:
    async def story() -> None:
        server = LeaseServer()
        one = replica("one", server)
        async with running(one):
            assert await until_acts(one) < 0.2
            assert one.elector.epoch == 0
            await asyncio.sleep(20)
        times = [at for at, _ in server.writes]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert all(2.0 <= gap < 2.2 for gap in gaps)
        spec = server.leases[NAME]["spec"]
        assert spec["holderIdentity"] == "one"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["acquireTime"] < spec["renewTime"]
        assert spec["leaseTransitions"] == 0

    simulate(story())


def test_standby_takes_over_when_the_lease_has_expired_and_not_before() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two = replica("one", server), replica("two", server)
        async with running(one, two):
            await until_acts(one)
            await asyncio.sleep(7)
            one.faults.cut = True
            last = server.writes[-1][0]
            while one.elector.acts:
                await asyncio.sleep(0.01)
            assert now() - last <= LEASE.renew_seconds
            await until_acts(two)
            assert LEASE.lease_seconds <= now() - last <= LEASE.lease_seconds + 2
            assert two.elector.epoch == 1

    simulate(story())


def test_stopped_process_does_not_act_when_it_goes_on() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two = replica("one", server), replica("two", server)
        async with running(one, two):
            await until_acts(one)
            one.pause()
            await asyncio.sleep(LEASE.renew_seconds + 0.01)
            one.resume()
            assert not one.elector.acts  # Before any coroutine of it has run.
            one.pause()
            await until_acts(two)
            one.resume()
            for _ in range(1000):
                await asyncio.sleep(0.01)
                assert not one.elector.acts

    simulate(story())


def test_renewal_answered_after_the_deadline_does_not_revive_the_term() -> None:
    async def story() -> None:
        server = LeaseServer()
        one = replica("one", server)
        stop = asyncio.Event()
        going = asyncio.ensure_future(one.elector.run(stop))
        await until_acts(one)
        one.pause()
        await asyncio.sleep(11)
        one.resume()
        await asyncio.sleep(30)
        assert not one.elector.acts  # Nobody has said yet that the first term is over.
        await one.elector.ended()
        await until_acts(one)
        assert (one.elector.epoch, one.elector.terms) == (1, 2)
        stop.set()
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)

    simulate(story())


@pytest.mark.parametrize("watches", [True, False])
def test_hand_over_is_at_once_when_released(*, watches: bool) -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two = replica("one", server), replica("two", server)
        two.faults.watches = watches
        async with running(one, two):
            await until_acts(one)
            await asyncio.sleep(5)
            one.elector.resign("the test says so")
            took = await until_acts(two)
            assert took < (0.5 if watches else LEASE.retry_seconds * 2.2 + 0.5)
            assert two.elector.epoch == 1
            assert not one.elector.acts

    simulate(story())


def test_lease_of_another_is_never_touched_while_it_is_renewed() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two = replica("one", server), replica("two", server)
        async with running(one, two):
            await until_acts(one)
            await asyncio.sleep(120)
        assert {holder for _, holder in server.writes[:-1]} == {"one"}

    simulate(story())


def test_asked_standby_is_given_the_lease_when_the_leader_is_not_asked() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two, three = (replica(name, server) for name in ("one", "two", "three"))
        async with running(one, two, three):
            await until_acts(one)
            await asyncio.sleep(4)
            three.elector.note_asked()
            assert await until_acts(three) < 0.5
            assert ASKED not in server.leases[NAME]["metadata"]["annotations"]
            await asyncio.sleep(60)
            assert three.elector.acts

    simulate(story())


def test_lease_stays_where_a_service_leads_the_calls_to_the_leader() -> None:
    async def story() -> None:
        server = LeaseServer()
        labelled = replace(LEASE, label_pod=True)
        one, two = (
            Replica(name, server, Faults(random.Random(1), 0.0), labelled)
            for name in ("one", "two")
        )
        async with running(one, two):
            await until_acts(one)
            for _ in range(200):
                two.elector.note_asked()  # Its label was taken, and the Service is behind.
                await asyncio.sleep(0.1)
                assert one.elector.acts

    simulate(story())


def test_leader_that_is_asked_keeps_the_lease() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two = replica("one", server), replica("two", server)
        async with running(one, two):
            await until_acts(one)
            for _ in range(600):
                one.elector.note_asked()
                two.elector.note_asked()
                await asyncio.sleep(0.1)
                assert one.elector.acts
            writes = len(server.writes)
            assert writes < 60 / LEASE.retry_seconds * 4  # Bounded, however often both are asked.
            # Asked no longer: the other one has it soon.
            two.elector.note_asked()
            assert await until_acts(two) < 2 * LEASE.retry_seconds + 0.5

    simulate(story())


def test_deleted_lease_is_not_taken_before_its_holder_is_still() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, two = replica("one", server), replica("two", server)
        async with running(one, two):
            await until_acts(one)
            await asyncio.sleep(5)
            one.faults.cut = True
            del server.leases[NAME]
            while not two.elector.acts:
                await asyncio.sleep(0.01)
            assert not one.elector.acts
            assert two.elector.epoch == 1

    simulate(story())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 3),
    fault_rate=st.sampled_from([0.0, 0.05, 0.2, 0.4]),
)
def test_never_two_act(seed: int, count: int, fault_rate: float) -> None:
    """Lost and late answers, stops, partitions, clocks of different speed: at most one acts."""
    chaos(seed, count, fault_rate)


@pytest.mark.parametrize("seed", range(40))
def test_never_two_act_seeded(seed: int) -> None:
    chaos(seed, 2 + seed % 2, (0.02, 0.1, 0.3)[seed % 3])


def chaos(seed: int, count: int, fault_rate: float) -> None:
    rng = random.Random(seed)

    async def story() -> None:
        server = LeaseServer()
        replicas = [
            Replica(
                f"r{index}",
                server,
                Faults(rng, fault_rate, watches=rng.random() < 0.7),
                LEASE,
                # Any two clocks differ by less than leaseSeconds / renewSeconds.
                rate=rng.uniform(0.85, 1.2),
                offset=rng.uniform(0, 1e6),
            )
            for index in range(count)
        ]
        terms: dict[int, str] = {}

        def look() -> None:
            acting = [one for one in replicas if one.elector.acts]
            assert len(acting) <= 1, f"{[one.name for one in acting]} act at {now():.2f}"
            for one in acting:
                assert terms.setdefault(one.elector.epoch, one.name) == one.name

        async with running(*replicas):
            end = now() + 400
            while now() < end:
                await asyncio.sleep(rng.uniform(0.01, 0.2))
                look()
                if rng.random() < 0.02:
                    one = rng.choice(replicas)
                    what = rng.choice(["pause", "cut", "asked", "resign"])
                    if what == "pause":
                        one.pause()
                        asyncio.get_running_loop().call_later(rng.uniform(0.1, 40), one.resume)
                    elif what == "cut":
                        one.faults.cut = True
                    elif what == "asked":
                        one.elector.note_asked()
                    else:
                        one.elector.resign("chaos")
                if rng.random() < 0.03:
                    rng.choice(replicas).faults.cut = False
            for one in replicas:
                one.resume()
                one.faults.cut = False
                one.faults.rate = 0.0
            # Calm again: somebody leads, and stays.
            await asyncio.sleep(60)
            leader = [one for one in replicas if one.elector.acts]
            assert len(leader) == 1
            await asyncio.sleep(60)
            assert leader[0].elector.acts

    simulate(story())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"lease_seconds": 10.0}, "leaseSeconds must exceed leadership.renewSeconds"),
        ({"renew_seconds": 2.4}, "renewSeconds must exceed 1.2 times"),
        ({"retry_seconds": 0.0}, "retrySeconds must be at least 0.1"),
        ({"lease_seconds": 0.5, "renew_seconds": 0.4, "retry_seconds": 0.1}, "at least 1"),
        ({"name": ""}, "name must not be empty"),
    ],
)
def test_settings_are_checked_as_client_go_does(change: dict[str, float], text: str) -> None:
    wrong = Settings(leadership=LeadershipSettings(**change))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=text):
        validate(wrong)
