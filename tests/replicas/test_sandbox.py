"""Two replicas, as ``serve`` runs them, on the sandbox's API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.app.replica import Replica
from extender.cache.cache import Cache
from extender.gang.controller.coordinator import Coordinator, coordinate
from extender.gang.controller.rounds import Heartbeats
from extender.gang.leader_election.elector import Elector
from extender.gang.leader_election.lease import LABEL, LeaderLabel, Leadership
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.model.errors import NotReady
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.process import write_kubeconfig
from extender.sandbox.resources import LEASES, PODS
from extender.settings.settings import CacheSettings, LeadershipSettings, Settings
from extender.verbs.leading import LeadersVerbs
from extender.wire.filter_json import FilterArgs
from tests.gang.world import pod

SETTINGS = Settings(
    cache=CacheSettings(stale_seconds=1.0),
    # Nobody waits for it to expire, and a busy machine does not lose it.
    leadership=LeadershipSettings(
        enabled=True, lease_seconds=120.0, renew_seconds=100.0, retry_seconds=0.3
    ),
)
SHORT = replace(
    SETTINGS, leadership=replace(SETTINGS.leadership, lease_seconds=2.0, renew_seconds=1.2)
)


class Running:
    """A replica in this process, with everything of its own but the API server."""

    def __init__(
        self, name: str, client: KubeClient, pod_name: str = "", settings: Settings = SETTINGS
    ) -> None:
        self.stop = asyncio.Event()
        self.made: list[Coordinator] = []
        resolver = Resolver(settings.groups)
        self.cache = Cache(client, settings.cache, resolver.member_key)

        def make(leadership: Leadership, heartbeats: Heartbeats) -> Coordinator:
            self.made.append(
                coordinate(
                    client,
                    self.cache,
                    settings,
                    resolver,
                    "default",
                    leadership=leadership,
                    heartbeats=heartbeats,
                )
            )
            return self.made[-1]

        self.elector = Elector(client, settings.leadership, "default", name)
        label = LeaderLabel(client, "default", pod_name) if pod_name else None
        self.replica = Replica(self.cache, settings, make, self.elector, label)
        self.verbs = LeadersVerbs(lambda: self.replica.verbs, self.replica.leadership)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self.replica.running(self.stop):
            await self.stop.wait()

    async def end(self) -> None:
        self.stop.set()
        await self.task


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(bookmark_seconds=0.2)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def client(server: ApiServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    write_kubeconfig(tmp_path / "kubeconfig", server.url)
    async with await KubeClient.connect(str(tmp_path / "kubeconfig")) as made:
        yield made


async def until(what: Callable[[], bool], seconds: float = 60.0) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not what():
        assert loop.time() - began < seconds, "not in time"
        await asyncio.sleep(0.01)
    return loop.time() - began


def ready(one: Running) -> bool:
    return one.replica.not_ready() == []


QUESTION = FilterArgs(pod("single"), ["n0"])


async def test_one_is_ready_and_the_other_warm(client: KubeClient) -> None:
    one = Running("one", client)
    await until(lambda: ready(one))
    container = {"name": "c", "image": "i"}
    made = {"metadata": {"name": "single"}, "spec": {"containers": [container]}}
    await client.create("/api/v1/namespaces/default/pods", made)
    await until(lambda: one.cache.pod_named("default", "single") is not None)
    single = one.cache.pod_named("default", "single")
    assert single is not None
    two = Running("two", client)
    await until(lambda: two.replica.cold() == [] and two.elector.holder == "one")
    assert two.replica.not_ready() == ["another replica leads: one"]
    assert (await one.verbs.filter(FilterArgs(single, ["n0"]))).node_names == ["n0"]
    with pytest.raises(NotReady, match="another replica leads: one"):
        await two.verbs.filter(QUESTION)
    await one.end()
    await two.end()


async def test_stop_hands_over_at_once(server: ApiServer, client: KubeClient) -> None:
    one = Running("one", client)
    await until(lambda: ready(one))
    two = Running("two", client)
    await until(lambda: two.replica.cold() == [] and two.elector.holder == "one")
    await asyncio.sleep(0.5)
    one.stop.set()
    assert await until(lambda: ready(two)) < SETTINGS.leadership.lease_seconds
    assert not one.elector.acts
    await one.end()
    lease = server.api.get(LEASES, "default", "podgroup-extender")
    assert lease["spec"]["leaseTransitions"] == two.elector.epoch == 1
    await two.end()
    lease = server.api.get(LEASES, "default", "podgroup-extender")
    assert lease["spec"]["holderIdentity"] == ""
    assert lease["spec"]["leaseDurationSeconds"] == 1


async def test_leader_that_cannot_renew_is_still_and_goes_on_with_a_warm_cache(
    server: ApiServer, client: KubeClient
) -> None:
    one = Running("one", client, settings=SHORT)
    await until(lambda: ready(one))
    server.faults.pause()
    # In time: test_elector.py, where no other work delays a timer.
    await until(lambda: not one.elector.acts)
    with pytest.raises(NotReady):
        await one.verbs.filter(QUESTION)
    await until(lambda: len(one.made) == 2)
    server.faults.resume()
    await until(lambda: ready(one))
    assert one.elector.epoch >= 1
    assert one.replica.heartbeats.late() == []
    await one.end()


async def test_end_of_what_acts_is_told_and_the_lease_is_given_away(
    client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Running("one", client)

    async def broken(stop: asyncio.Event, period: float = 0.25) -> None:
        raise KeyError("of a defect")

    monkeypatch.setattr(one.made[0], "run", broken)
    await until(lambda: one.replica.heartbeats.late() != [])
    assert one.replica.heartbeats.late()[0] == "acting has ended: KeyError: 'of a defect'"
    assert not ready(one)
    two = Running("two", client)
    await until(lambda: ready(two))
    assert not one.elector.acts
    await one.end()
    await two.end()


async def test_only_the_leaders_pod_has_the_label(server: ApiServer, client: KubeClient) -> None:
    for name, labels in (("pod-1", {}), ("pod-2", {}), ("pod-0", {LABEL: "true"})):
        meta = {"name": name, "labels": labels}
        spec = {"containers": [{"name": "extender"}]}
        server.api.create(PODS, "default", {"metadata": meta, "spec": spec})

    def labelled() -> set[str]:
        pods: list[dict[str, Any]] = server.api.storage.all(PODS.key, "default")
        return {
            each["metadata"]["name"]
            for each in pods
            if (each["metadata"].get("labels") or {}).get(LABEL) == "true"
        }

    one = Running("one", client, "pod-1")
    await until(lambda: labelled() == {"pod-1"})
    two = Running("two", client, "pod-2")
    await until(lambda: two.replica.cold() == [] and two.elector.holder == "one")
    one.stop.set()
    await until(lambda: labelled() == {"pod-2"})
    await one.end()
    await two.end()


async def test_a_stale_replica_is_not_ready(server: ApiServer, client: KubeClient) -> None:
    one = Running("one", client)
    await until(lambda: ready(one))
    server.faults.plan(Fault(times=10_000, path="watch=true", status=503))
    server.end_watches()
    await until(lambda: any("the cache is stale" in why for why in one.replica.cold()))
    assert not ready(one)
    server.faults.clear()
    await until(lambda: ready(one))
    await one.end()
