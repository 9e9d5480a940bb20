"""Plays a scenario on an API server, through nothing but the Kubernetes API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from extender.kube.api_errors import ApiError, Conflict, Forbidden, NotFound
from extender.kube.client import KubeClient
from extender.model.errors import ExtenderError
from extender.model.texts import counted
from extender.sandbox import scenario_objects
from extender.sandbox.api_status import Obj
from extender.sandbox.hooks import Hooks
from extender.sandbox.invariants import InvariantChecker
from extender.sandbox.kueue_controller import KueueController, NotAsKueueWould, managed
from extender.sandbox.pod_recorder import PodRecorder, Seen
from extender.sandbox.scenario import Admit, Create, Expect, Scenario, ScenarioStep, Wait
from extender.sandbox.scenario_expectations import unmet

_PAUSE = 0.1
_ACCOUNT_SECONDS = 30.0
EXPECT_SECONDS = 10.0
"""How long an expectation may take to become true."""


class StepFailed(ExtenderError):  # noqa: N818 - reads as what has happened
    """A step did not come to its end; the rest of the play makes no sense."""


class PlayListener(Protocol):
    """Who is told how the play goes on."""

    def step(self, step: ScenarioStep, recorder: PodRecorder) -> None:
        """A step begins."""

    def done(self, step: ScenarioStep, seconds: float, recorder: PodRecorder) -> None:
        """A step has ended well."""

    async def pause(self, recorder: PodRecorder) -> None:
        """Who was waited for is where he was to be: a moment to look around."""


class PlayOutcome(Struct):
    """How a play ended; ``failures`` is empty when all was as it should be."""

    failures: list[str]
    seconds: float
    decisions: list[Obj]


class Runner:
    """One play. ``namespace`` is made when it does not exist."""

    def __init__(
        self,
        scenario: Scenario,
        client: KubeClient,
        hooks: Hooks,
        *,
        namespace: str = "play",
        listener: PlayListener | None = None,
    ) -> None:
        self._scenario = scenario
        self._client = client
        self._hooks = hooks
        self._namespace = namespace
        self._listener = listener
        self.recorder = PodRecorder(client, namespace)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._kueue = KueueController(client, self._pods, self.recorder)
        self._invariants = InvariantChecker(scenario, self.recorder)
        self._served = scenario_objects.Served()
        self._groups: dict[str, str] = {}

    async def prepare(self) -> None:
        """Make namespace, priority classes and nodes, and begin to watch."""
        self._served = await scenario_objects.discover(self._client)
        await self._make("/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        for name, value in self._scenario.priority_classes.items():
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            await self._make(path, scenario_objects.priority_class(name, value))
        for group in self._scenario.nodes:
            for name in group.names:
                await self._make("/api/v1/nodes", scenario_objects.node(group, name))
        await self.recorder.start()

    async def play(self) -> PlayOutcome:
        """Play all steps; a broken promise ends the play at once. Call ``prepare`` before."""
        started = time.monotonic()
        failures: list[str] = []
        kueue = asyncio.ensure_future(self._kueue.finish_groups(self._groups_of_kueue()))
        try:
            for number, step in enumerate(self._scenario.steps):
                try:
                    await self._step(step)
                except StepFailed as error:
                    failures.append(f"step {number} ({step.key}): {error}")
                    break
            self._invariants.check(at_end=not failures)
            failures += [f"broken promise: {text}" for text in self._invariants.broken]
            return PlayOutcome(failures, time.monotonic() - started, await self._hooks.decisions())
        finally:
            kueue.cancel()
            await asyncio.gather(kueue, return_exceptions=True)
            await self.recorder.close()

    def _groups_of_kueue(self) -> dict[str, int]:
        """Actor -> pods."""
        created = [one for one in self._scenario.creates if one.dialect == "kueue"]
        return {actor: one.size for one in created for actor in one.actors}

    async def _step(self, step: ScenarioStep) -> None:
        if self._listener is not None:
            self._listener.step(step, self.recorder)
        begun = time.monotonic()
        verb = step.verb
        action: Callable[[Any], Awaitable[None]] = getattr(self, f"_do_{verb}")
        await action(getattr(step, verb))
        self._hooks.check()
        self._invariants.check()
        if self._invariants.broken:
            raise StepFailed("a promise was broken")
        if self._listener is not None:
            self._listener.done(step, time.monotonic() - begun, self.recorder)
            if verb in ("wait_running", "wait_pending", "wait_terminating"):
                await self._listener.pause(self.recorder)

    # --- arrivals and departures ---------------------------------------------------------

    async def _do_create(self, create: Create) -> None:
        for copy, actor in enumerate(create.actors):
            await self._create(create, actor, copy)

    async def _create(self, create: Create, actor: str, copy: int) -> None:
        group = scenario_objects.pod_group(create, actor, self._served)
        if group is not None:
            path, body = group
            self._groups[actor] = f"{path}/namespaces/{self._namespace}/podgroups/{actor}"
            await self._make(f"{path}/namespaces/{self._namespace}/podgroups", body)
        if create.jobset is not None:
            for job in scenario_objects.jobs(create, actor):
                await self._make(f"/apis/batch/v1/namespaces/{self._namespace}/jobs", job)
            return
        for number, pod in enumerate(scenario_objects.pods(create, actor, copy)):
            if number and create.every:
                await asyncio.sleep(create.every)
            await self._make(self._pods, managed(pod) if create.dialect == "kueue" else pod)

    async def _make(self, path: str, body: Obj) -> None:
        """Create an object; one that exists already is fine (shared classes and nodes)."""
        end = time.monotonic() + _ACCOUNT_SECONDS
        while True:
            try:
                await self._client.create(path, body)
                return
            except Conflict:
                return
            except Forbidden as error:
                # A new namespace gets its service account a moment later.
                if "serviceaccount" not in error.message or time.monotonic() > end:
                    raise StepFailed(str(error)) from error
                await asyncio.sleep(_PAUSE)
            except ApiError as error:
                raise StepFailed(str(error)) from error

    async def _do_finish(self, actor: str) -> None:
        for pod in self.recorder.of(actor):
            if pod.alive:
                path = f"{self._pods}/{pod.name}/status"
                patch = {"metadata": {"uid": pod.uid}, "status": {"phase": "Succeeded"}}
                await self._client.patch(path, patch)

        def ended() -> bool:
            return not any(pod.alive for pod in self.recorder.of(actor))

        if not await self.recorder.until(ended, EXPECT_SECONDS):
            raise StepFailed(f"the pods of {actor} do not end: {self._table(actor)}")

    async def _do_delete(self, actor: str) -> None:
        self.recorder.ours.add(actor)
        create = self._scenario.actor(actor)
        if create.jobset is not None:
            for job in scenario_objects.jobs(create, actor):
                name = job["metadata"]["name"]
                await self._remove(f"/apis/batch/v1/namespaces/{self._namespace}/jobs/{name}")
        await self._throw_away(actor)
        if actor in self._groups:
            await self._remove(self._groups[actor])

    async def _throw_away(self, actor: str) -> None:
        for pod in self.recorder.of(actor):
            await self._remove(f"{self._pods}/{pod.name}")
        if self._scenario.actor(actor).dialect == "kueue":
            await self._kueue.finalize(actor)

    async def _remove(self, path: str) -> None:
        try:
            await self._client.delete(path, grace=0)
        except NotFound:
            return

    async def _do_recreate(self, actor: str) -> None:
        self.recorder.ours.add(actor)
        await self._throw_away(actor)
        if not await self.recorder.until(lambda: not self.recorder.of(actor), EXPECT_SECONDS):
            raise StepFailed(f"the pods of {actor} do not terminate: {self._table(actor)}")
        self.recorder.ours.discard(actor)
        create = self._scenario.actor(actor)
        # Whoever had a node from the start has none this time.
        again = msgspec.structs.replace(create, nodes=[])
        await self._create(again, actor, create.actors.index(actor))

    async def _do_admit(self, admit: str | Admit) -> None:
        admit = Admit(name=admit) if isinstance(admit, str) else admit
        try:
            await self._kueue.admit(admit.name, admit.count)
        except NotAsKueueWould as error:
            raise StepFailed(str(error)) from error

    async def _do_preempt(self, actor: str) -> None:
        try:
            await self._kueue.preempt(actor, EXPECT_SECONDS)
        except NotAsKueueWould as error:
            raise StepFailed(str(error)) from error

    # --- waits -----------------------------------------------------------------------------

    async def _do_wait_running(self, wait: str | Wait) -> None:
        await self._wait(wait, lambda pod: pod.running, "run")

    async def _do_wait_pending(self, wait: str | Wait) -> None:
        await self._wait(wait, lambda pod: pod.alive and not pod.node and pod.tried, "wait")

    async def _do_wait_terminating(self, wait: str | Wait) -> None:
        # Those already gone have terminated too.
        await self._wait(wait, lambda pod: pod.evicted, "terminate")

    async def _wait(self, wait: str | Wait, fine: Callable[[Seen], bool], verb: str) -> None:
        wait = Wait(name=wait) if isinstance(wait, str) else wait
        actors = wait.any_of or [wait.name]

        def wanted(actor: str) -> int:
            return self._scenario.actor(actor).size if wait.count is None else wait.count

        def enough(actor: str) -> bool:
            pods = [p for p in self.recorder.pods.values() if p.actor == actor]
            return sum(map(fine, pods)) >= wanted(actor)

        def over() -> bool:
            self._hooks.check()
            self._invariants.check()
            return bool(self._invariants.broken) or any(enough(actor) for actor in actors)

        await self.recorder.until(over, wait.timeout)
        if not any(enough(actor) for actor in actors) and not self._invariants.broken:
            seen = "; ".join(self._table(actor) for actor in actors)
            names = " or ".join(f"{counted(wanted(actor), 'pod')} of {actor}" for actor in actors)
            raise StepFailed(
                f"expected {names} to {verb} within {wait.timeout:g} s; seen: {seen}"
                + await self._last_words(actors)
            )

    async def _last_words(self, actors: list[str]) -> str:
        lines = [d for d in await self._hooks.decisions() if d.get("outcome") != "done"]
        about = [d for d in lines if str(d.get("gang", "")).rsplit("/", 1)[-1] in actors]
        return f"; the extender says: {about[0].get('message')}" if about else ""

    async def _do_wait_extender_down(self, seconds: float) -> None:
        await self.recorder.until(lambda: not self._hooks.extender_alive(), seconds)
        if self._hooks.extender_alive():
            raise StepFailed(f"the extender was not killed within {seconds:g} s")

    async def _do_sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # --- the extender's life -----------------------------------------------------------------

    async def _do_kill_extender(self, _: object) -> None:
        await self._hooks.kill_extender()

    async def _do_start_extender(self, _: object) -> None:
        await self._hooks.start_extender()

    async def _do_kill_extender_after(self, after: Any) -> None:
        await self._hooks.kill_extender_after(after.deletes)

    async def _do_slow_evictions(self, seconds: float) -> None:
        await self._hooks.slow_evictions(seconds)

    # --- expectations --------------------------------------------------------------------------

    async def _do_expect(self, expect: Expect) -> None:
        end = time.monotonic() + EXPECT_SECONDS
        while True:
            decisions = await self._hooks.decisions() if expect.reason is not None else []
            wrong = unmet(expect, self._scenario, self.recorder, decisions)
            if not wrong:
                return
            if time.monotonic() > end:
                raise StepFailed("; ".join(wrong))
            await asyncio.sleep(_PAUSE)

    def _table(self, actor: str) -> str:
        pods = self.recorder.of(actor)
        if not pods:
            return f"no pod of {actor}"
        shown = [
            f"{p.name} {'terminating' if p.deleting else p.phase}"
            + (f" on {p.node}" if p.node else f" ({p.why_waiting or 'not tried yet'})")
            for p in pods
        ]
        return ", ".join(shown)
