"""In observe mode the arrivals of every scenario end exactly as kube-scheduler alone ends them.

What is written down here is what a kube-scheduler without any extender does; each way has to come
to it. ``./run nightly`` plays all of them on real control planes, alone and observed;
every run plays some on the sandbox, whose scheduler loop preempts as kube-scheduler does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.kube.client import KubeClient
from extender.sandbox.command import sandbox
from extender.sandbox.process import ExtenderProcess
from extender.sandbox.scenario_file import configured, load, packaged
from extender.sandbox.world import World
from extender.settings.settings import Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config
from tests.scenarios.arrivals import Came, arrive
from tests.scenarios.test_on_a_real_control_plane import EVERY

ALONE = {
    "a-room-for-two": Came({"low": 2}, {"high": 4, "low": 2}),
    "b-only-three-fit": Came({"low": 3}, {"top": 1, "high": 3}, {"high": 1}),
    "c-equal-priority": Came({}, {"same": 4}, {"same": 4}),
    "d-disruption-per-pod": Came({"low": 2}, {"high": 2, "low": 2}),
    "e-smaller-gang-suffices": Came({"low": 2}, {"low": 4, "high": 2}),
    "f-unused-nodes-too": Came({"low": 2}, {"high": 2, "low": 2}),
    "g-room-is-held": Came({"low": 4}, {"high": 4}, {"low": 1}),
    "h-more-urgent-takes-over": Came({"low": 4, "high": 4}, {"top": 4}),
    "h-unsent-evictions-are-cancelled": Came({"low": 4, "high": 2}, {"high": 2, "top": 2}),
    "i-killed-before-binding": Came({"low": 4}, {"high": 4}, {"low": 1}),
    "i-killed-between-evictions": Came({"low": 4}, {"high": 4}),
    "j-extender-down": Came({"low": 4}, {"high": 4, "low": 1}),
    "jobset": Came({"low": 4}, {"high": 4}),
    "k-two-urgent-gangs": Came({"low": 4}, {"high": 4}, {"high": 4}),
    "l-skypilot-single-instead": Came({"low": 1}, {"low": 2, "high": 1}),
    "l-skypilot-whole-cluster": Came({"low": 1}, {"low": 1, "high": 1}),
    "m-members-arrive-slowly": Came({"low": 3}, {"high": 4, "low": 1}),
    "n-leader-and-workers": Came({"low": 2}, {"high": 3, "low": 2}, {"high": 1}),
    "o1-free-nodes-count": Came({"low": 1}, {"high": 3, "low": 5}),
    "o2-singles-before-a-gang": Came({"low": 2}, {"high": 2, "low": 6}),
    "o3-lowest-priority-first": Came({"one": 4}, {"five": 4, "high": 4}),
    "o4-two-of-thirty-two": Came({"low": 2}, {"high": 10, "low": 30}),
    "o5-one-gang-of-eight": Came({"low": 4}, {"high": 12, "low": 28}),
    "p-spread-over-zones": Came({"low": 4}, {"high": 6}),
    "q-prefers-one-rack": Came({"low": 3}, {"high": 3, "low": 2}),
    "t-different-nodes-or-none": Came({}, {"same": 5}, {"same": 1}),
    "u-skypilot-comes-back": Came({"low": 1}, {"low": 1, "high": 1}, {"low": 1}),
    "v-kueue-quota-without-room": Came({"low": 4}, {"high": 4}, {"low": 2, "high": 1}),
    "w-kueue-takes-its-quota-back": Came({"low": 2}, {"high": 2, "low": 1}, {"low": 1}),
    "x-skypilot-would-give-up": Came({"low": 2, "middle": 2}, {"high": 4}),
    "tour": Came(
        {"spare": 2, "batch": 1, "research": 6},
        {"urgent": 4, "nightly": 4, "production": 4},
        {"nightly": 8, "research": 3},
    ),
}
"""Pods by priority class: who was evicted, who sits, who waits, once everybody has arrived."""
CHANCE = {"r-a-turn-for-everybody", "s-evicted-before"}
"""Where it hangs on whose turn it is, or on when a gang comes back."""
CHOSEN = ("b-only-three-fit", "l-skypilot-whole-cluster", "o2-singles-before-a-gang")
OBSERVING = replace(Settings(), mode="observe")


class Nobody:
    """No extender: nothing of its life is changed here."""

    def check(self) -> None:
        """Nothing can break down."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: a scenario's arrivals have no business with it")


def test_every_scenario_has_its_outcome_written_down() -> None:
    assert set(ALONE) == set(packaged()) - CHANCE


@pytest.mark.parametrize("name", CHOSEN)
async def test_observing_changes_nothing_on_the_sandbox(name: str, tmp_path: Path) -> None:
    scenario = load(packaged()[name])
    async with World("1.37") as world:
        world.start_scheduler("")
        async with await KubeClient.connect(server=world.server.url) as client:
            assert await arrive(scenario, client, Nobody(), "play") == ALONE[name]
    settings = configured(scenario, OBSERVING)
    async with (
        sandbox("1.37", settings, tmp_path) as hooks,
        await KubeClient.connect(server=hooks.api_url) as client,
    ):
        assert await arrive(scenario, client, hooks, "play") == ALONE[name]
        assert set(hooks.asked) == {"GET"}, hooks.asked


@pytest.fixture(params=["alone", "observed"])
async def joined(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Cluster, ExtenderProcess | None]]:
    """A kube-scheduler that asks nobody, or one that asks an extender that observes."""
    if request.param == "alone":
        await asyncio.to_thread(cluster.use_scheduler, scheduler_config())
        yield cluster, None
        return
    grant_manifest(cluster.client, observe=True)
    extender = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, OBSERVING)
    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_scheduler, scheduler_config(extender.url))
        yield cluster, extender
        extender.check()
        assert set(extender.asked) == {"GET"}, extender.asked
    finally:
        await extender.close()


if os.environ.get(EVERY):

    @pytest.mark.real
    @pytest.mark.parametrize("name", ALONE)
    async def test_outcome_is_kube_schedulers_own(
        name: str, joined: tuple[Cluster, ExtenderProcess | None]
    ) -> None:
        cluster, extender = joined
        kubeconfig = str(cluster.control_plane.kubeconfig)
        async with await KubeClient.connect(kubeconfig) as client:
            scenario = load(packaged()[name])
            came = await arrive(scenario, client, extender or Nobody(), cluster.namespace)
        assert came == ALONE[name]
