"""Fuzzer of ``enforce.namespaces``: the label that chooses a namespace comes and goes all the time.

    python -m tests.fuzz.flips --seconds 600 --seed 1

Each story has a cluster of its own: urgent gangs come, are asked about and go, while the label is
written, taken off and spelt otherwise. Nobody is evicted while the extender has known for a while
that it does not act for the namespace (but for the rest of a unit that has begun to go), nothing is
logged as an error, a namespace that is chosen no more keeps no seats, and once it is chosen again a
gang is seated. A story that fails is told; its seed plays it again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import sys
import time
from typing import Any

import structlog
from msgspec.structs import replace

from extender.kube.api_errors import NotFound
from extender.settings.mode import EnforceSettings
from extender.settings.policy import NamespaceSelector
from tests.fuzz.target import Errors
from tests.gang.rig import FAST, PODS, Rig

ENFORCED = replace(
    FAST,
    enforce=EnforceSettings(namespaces=NamespaceSelector(match_labels={"team": "a"})),
    seats=replace(FAST.seats, bind_seconds=3600.0),
)
NAMESPACE = "/api/v1/namespaces/default"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
TEAMS = ("a", "a", "a", "none", "A", "", None)
KNOWN_SECONDS = 2.0
"""An eviction that was checked before the label went may still be on its way for so long."""
STEPS = 14


class Story:
    """One cluster, and what happens in it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.told: list[str] = []
        self.evicted = 0
        self.wrong: list[str] = []
        self._random = random.Random(seed)
        self._gangs = 0
        self._begun: set[str] = set()
        """Low gangs of which a member has been evicted."""
        self._chosen_at = 0.0

    async def play(self) -> None:
        """Raises AssertionError with the story."""
        async with Rig(ENFORCED) as self.rig:
            await self.rig.nodes(2)
            await self.rig.classes(low=1, high=100)
            self._watch()
            await self._low()
            await self.rig.client.patch(NAMESPACE, {"metadata": {"labels": {"team": "a"}}})
            steps = (self._high, self._rest, self._end, *(self._flip, self._ask) * 2)
            for _ in range(STEPS):
                await self._random.choice(steps)()
            await self._ends_well()

    # -- what is seen ---------------------------------------------------------------------

    def _watch(self) -> None:
        """Look at each deletion that the extender asks for, as it asks."""

        def changed(change: object) -> None:
            self._chosen()

        self.rig.cache.subscribe(changed)
        delete = self.rig.own.delete

        async def seen(path: str, **more: Any) -> Any:
            if path.startswith(f"{PODS}/"):
                self._deleted(path.rpartition("/")[2])
            return await delete(path, **more)

        self.rig.own.delete = seen  # type: ignore[method-assign]

    def _chosen(self) -> bool:
        chosen = self.rig.cache.snapshot().namespaces.get("default", {}).get("team") == "a"
        if chosen:
            self._chosen_at = time.monotonic()
        return chosen

    def _deleted(self, name: str) -> None:
        gang = name.rpartition("-")[0]
        late = time.monotonic() - self._chosen_at
        if not self._chosen() and gang not in self._begun and late > KNOWN_SECONDS:
            self.wrong.append(f"{name} is evicted, chosen no more for {late:.1f} s")
        self._begun.add(gang)
        self.evicted += 1
        self.told.append(f"  evicted {name}")

    # -- steps ----------------------------------------------------------------------------

    async def _flip(self) -> None:
        team = self._random.choice(TEAMS)
        self._chosen()
        await self.rig.client.patch(NAMESPACE, {"metadata": {"labels": {"team": team}}})
        self.told.append(f"the label is {team!r}")
        if self._random.random() < 0.5:
            await self._known(team)

    async def _known(self, team: str | None) -> None:
        await self.rig.until(
            lambda: self.rig.cache.snapshot().namespaces.get("default", {}).get("team") == team,
            f"the label {team!r} is known",
        )

    async def _low(self) -> None:
        self._gangs += 1
        await self.rig.gang(f"low{self._gangs}", 2, "low", on="n")
        self.told.append(f"low{self._gangs} runs")

    async def _high(self) -> None:
        self._gangs += 1
        await self.rig.gang(f"high{self._gangs}", 2, "high")
        self.told.append(f"high{self._gangs} waits")

    async def _ask(self) -> None:
        """Ask as kube-scheduler does, and bind where it says so."""
        pods = sorted(self.rig.cache.store.pods.by_uid.values(), key=lambda pod: pod.name)
        waiting = [pod for pod in pods if not pod.node and not pod.deleting]
        for pod in self._random.sample(waiting, min(2, len(waiting))):
            running = {
                each.node: [each.name] for each in pods if each.node and each.name.startswith("low")
            }
            self.told.append(f"{pod.name} is asked about")
            await self.rig.filter(pod.name, "n0", "n1")
            if running and self.rig.cache.pod_named("default", pod.name) is not None:
                await self._preempt(pod.name, running)

    async def _preempt(self, name: str, victims: dict[str, list[str]]) -> None:
        known = {
            node: names
            for node, names in victims.items()
            if all(self.rig.cache.pod_named("default", each) is not None for each in names)
        }
        if known:
            await self.rig.preempt(name, **known)

    async def _rest(self) -> None:
        seconds = self._random.choice((0.0, 0.05, 0.3, KNOWN_SECONDS))
        self.told.append(f"{seconds} s pass")
        await asyncio.sleep(seconds)

    async def _end(self) -> None:
        """All go, and others run."""
        await self._clear()
        await self._low()

    async def _clear(self) -> None:
        self.told.append("all go")
        for name in await self.rig.names():
            with contextlib.suppress(NotFound):  # it was evicted meanwhile
                await self.rig.remove(name)
        await self.rig.until(lambda: not self.rig.cache.store.pods.by_uid, "all are gone")

    # -- the end --------------------------------------------------------------------------

    async def _ends_well(self) -> None:
        """Chosen no more nothing is held; chosen again a gang is seated."""
        await self.rig.client.patch(NAMESPACE, {"metadata": {"labels": {"team": "none"}}})
        await self._known("none")
        reservations = self.rig.coordinator.reservations
        await self.rig.until(lambda: not list(reservations.holds()), "seats are given back")
        await self._end()
        await self._high()
        await self.rig.client.patch(NAMESPACE, {"metadata": {"labels": {"team": "a"}}})
        await self._known("a")
        high, low = f"high{self._gangs}", f"low{self._gangs - 1}"
        deadline = time.monotonic() + self.rig.patience
        while await self.rig.names() & {f"{low}-0", f"{low}-1"}:
            assert time.monotonic() < deadline, f"{high} is not planned for"
            await self.rig.filter(f"{high}-0", "n0", "n1")
            await asyncio.sleep(0.05)


def play(seed: int) -> Story:
    """Play one story. Raises AssertionError with all that happened."""
    story, errors, logging_as = Story(seed), Errors(), structlog.get_config()
    structlog.configure(processors=[errors.process])
    logging.getLogger().addHandler(errors)
    try:
        asyncio.run(story.play())
        found = [*story.wrong, *errors.take()]
        assert not found, found
    except BaseException as error:
        raise AssertionError("\n".join([f"seed {seed}: {error!r}", *story.told])) from error
    finally:
        logging.getLogger().removeHandler(errors)
        structlog.configure(**logging_as)
    return story


def main(arguments: list[str]) -> int:
    """Play until the time is up; raises what did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.flips", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first story")
    options = parser.parse_args(arguments)
    until = time.monotonic() + options.seconds
    number, evicted = options.seed, 0
    while time.monotonic() < until:
        evicted += play(number).evicted
        number += 1
    print(f"OK  seeds {options.seed} to {number - 1}, {evicted} evictions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
