"""One simulation: everything put together, played to the end of its script and on until calm."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections import deque
from collections.abc import MutableMapping
from typing import Any

import structlog
from msgspec import Struct

from extender.gang.tell import decisions
from extender.gang.tell.listener import Listener
from extender.kube.api_errors import ApiError
from extender.sandbox.resources import PRIORITY_CLASSES
from extender.sandbox.sampling import NodeSampling
from extender.settings.settings import Settings
from tests.simulation.broken import Violation
from tests.simulation.calm import Calm
from tests.simulation.chance import Chance
from tests.simulation.checks import Checks
from tests.simulation.client import SimClient
from tests.simulation.cluster import Cluster
from tests.simulation.doings import Doings
from tests.simulation.faults import Faults
from tests.simulation.host import Host
from tests.simulation.limits import few_sources, small_objects, small_samples
from tests.simulation.loop import SimLoop, Stuck, unlisted
from tests.simulation.objects import CLASSES, Obj
from tests.simulation.replicas import Replicas
from tests.simulation.scheduler import Asking, SimScheduler
from tests.simulation.script import Script
from tests.simulation.server import Server
from tests.simulation.state import State
from tests.simulation.story import Story

SOON = 200.0
"""Within so many seconds of calm a pod of no gang runs that could preempt: a victim whose eviction
is refused is left alone for two minutes, and kube-scheduler tries all pods after five."""
PATIENCE = 450.0
"""How long after the end of the script all has to be well: back-off, penalties and the flush of
unschedulable pods are over by then."""
IN_FLIGHT = 60.0
"""Seconds more for a plan that is under way then: a refused node is tried again in time."""
MOST_STEPS = 400_000


class SimulationOutcome(Struct, frozen=True):
    """How a simulation ended."""

    seed: int
    problem: str
    """"" when all promises held, else the rule and what is wrong."""
    digest: str
    seconds: float
    """Simulated."""
    steps: int
    evictions: int
    cpu: float
    story: list[str]

    @property
    def rule(self) -> str:
        """Name of the broken rule, "" for none."""
        return self.problem.split(":")[0]


class Simulation:
    """The world of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        chance = Chance(script.seed + 1_000_003)
        self.chance = chance
        self.loop = SimLoop(
            chance, slow=lambda: chance.draw("slow") ** 3 * script.slow, shuffle=script.shuffle
        )
        self.story = Story(self.loop.time)
        self.server = Server(self.loop, chance)
        self.faults = Faults(chance, script.faults, script.latency)
        self.state = State(self.server.storage, self.loop.time)
        self.cluster = Cluster(self.loop, self.server, chance)
        self.host: Host | Replicas = (
            Replicas(self._process, script.settings)
            if script.replicas
            else self._process(Host, script.settings, 0)
        )
        self.checks = Checks(
            self.state,
            self.server.storage,
            lambda: self.host,
            self.faults,
            script.settings,
            self.story,
            self.loop.time,
        )
        self.calm = Calm(self.state, self.server.storage, self.host, self.checks)
        if script.settings.bind.enabled:
            self.calm.held_for = script.settings.bind.post_seconds + 5.0
        self.calm.least_runs = script.settings.fairness.min_runtime_seconds
        self.host.listen(lambda error: self.checks.broken("died", repr(error)))
        for name, value in CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            self.server.api.create(PRIORITY_CLASSES, "", body)
        self.doings = Doings(self)
        asking = self.asking = Asking(
            self.loop,
            chance,
            self.host,
            self._asked,
            lambda error: self.checks.broken("error", f"a verb failed: {error!r}"),
        )
        if script.flaky:
            asking.asked = deque(maxlen=8)
        self.scheduler = SimScheduler(
            self.loop,
            self.server,
            chance,
            asking,
            lambda: chance.draw("scheduler-lag") ** 3 * script.scheduler_lag,
            self._scheduled,
        )
        self.scheduler.bind_fails = script.bind_fails
        self.checks.binds_fail = script.bind_fails > 0
        self.checks.sparing = script.sparing
        self.calm.preempting = script.preempting
        self.scheduler.slow_binds = script.slow_binds
        if script.sample:
            self.scheduler.sampling = NodeSampling(script.sample)
        asking.doubled = script.doubled
        if script.profiles:
            self.cluster.profiles = script.profiles
            self.scheduler.names = frozenset(script.profiles)
        self.scheduler.bind_verb = script.settings.bind.enabled

    # -- who tells ----------------------------------------------------------------------------

    def _process(self, kind: type[Host], settings: Settings, first_owner: int) -> Host:
        return kind(
            self.loop,
            settings,
            self.script.seed,
            self.script.period,
            self._connect,
            Heard(self),
            first_owner,
        )

    def _connect(self) -> SimClient:
        lag = self.script.lag
        chance = self.chance
        return SimClient(
            self.loop,
            self.server,
            self.faults,
            self.checks,
            lambda: chance.draw("lag") ** 3 * lag,
        )

    def decided(self, decision: decisions.Decision) -> None:
        names = [victim.name for victim in decision.victims]
        seats = [f"{seat.name}@{seat.node}" for seat in decision.seats]
        gang = decision.gang.rsplit("/")[-1]
        if decision.outcome is decisions.Outcome.PLAN:
            self.calm.seated.setdefault(gang, []).append(self.loop.time())
            self.checks.standing.planned(
                [seat.uid for seat in decision.seats], [seat.node for seat in decision.seats]
            )
        self.story.tell(
            "decides",
            gang,
            decision.code or decision.outcome,
            decision.verb,
            *(("victims", names) if names else ()),
            *(("seats", seats) if seats else ()),
            *(("waits", [v.name for v in decision.waits_for]) if decision.waits_for else ()),
            decision.message,
        )

    def failed(self, what: str, error: ApiError) -> None:
        self.story.tell("fails", what, str(error))

    def _asked(self, verb: str, pod: Obj, nodes: Any, answer: Any) -> None:
        if not isinstance(answer, str):
            self.checks.enforcing.answered(pod["metadata"]["name"], nodes, answer or ())
        if verb == "filter" and not isinstance(answer, str):
            self.checks.offered[pod["metadata"]["uid"]] = (self.loop.time(), set(answer or ()))
            if not self.script.settings.fairness.booking:
                self.checks.standing.answered(
                    pod["metadata"]["uid"], nodes, answer or (), acts=self.checks.enforcing.acted
                )
        self.story.tell("answers", verb, pod["metadata"]["name"], list(nodes), "->", answer)

    def _scheduled(self, what: str, pod: str, node: str) -> None:
        self.story.tell("scheduler", pod, what, node)
        if what == "bound":
            self.doings.bound(pod)
        else:
            self.doings.not_bound(pod)

    # -- a life -----------------------------------------------------------------------------

    def run(self) -> SimulationOutcome:
        """Play the script; return how it ended."""
        loop = self.loop
        began = time.process_time()
        problem = ""
        small = small_objects(small=self.script.small_objects)
        few = few_sources(few=self.script.few_sources)
        part = small_samples(self.script.sample)
        with _logs(self.checks, self.story), small, few, part, unlisted():
            try:
                loop.run_until_complete(self._play())
            except Violation as violation:
                problem = str(violation)
            except Stuck:
                problem = "stuck: nothing is going to happen any more"
            finally:
                self._shut()
        return SimulationOutcome(
            seed=self.script.seed,
            problem=problem,
            digest=self.story.digest(),
            seconds=loop.time(),
            steps=loop.steps,
            evictions=len(self.checks.ours),
            cpu=time.process_time() - began,
            story=self.story.lines() if problem else [],
        )

    async def _play(self) -> None:
        script, loop = self.script, self.loop
        self.doings.begin()
        self.host.start()
        scheduling = loop.create_task(self.scheduler.run())
        while loop.time() < script.end and not self._over():
            await self._second(scheduling)
        self.story.tell("world", "nothing more happens from here")
        at_rest, changed = self._over(), self.state.changed
        self.doings.settle()
        limit = loop.time() + PATIENCE
        # Where all rests already and nothing had to be let go, the first look is at once.
        checked = -script.quiet if at_rest and self.state.changed == changed else loop.time()
        alone = 0.0
        while True:
            await self._second(scheduling)
            now = loop.time()
            quiet = self._quiet() and now - checked >= script.quiet
            if not quiet and now < limit:
                continue
            checked = now
            problem = next(self.calm.problems(), None)
            if problem is None:
                return
            # A pod of no gang does not wait until kube-scheduler tries all pods again.
            alone = (alone or now) if problem[0] == "single-preempts" else 0.0
            late = alone and now - alone >= SOON
            if late or now >= limit + IN_FLIGHT * (problem[0] == "seats"):
                for line in self.state.told():
                    self.story.tell("rest", line)
                self.checks.broken(*problem)
            if self.checks.problem is not None:
                raise self.checks.problem

    def _quiet(self) -> bool:
        """Whether nothing has changed for a while, and nothing is on its way."""
        still = self.loop.time() - self.state.changed >= self.script.quiet
        return still and not self.checks.underway

    def _over(self) -> bool:
        """Whether all that the script says has happened and has come to rest."""
        return self.loop.time() > self.script.last and self.host.alive and self._quiet()

    async def _second(self, scheduling: asyncio.Task[None]) -> None:
        await asyncio.sleep(1.0)
        self.checks.look()
        if scheduling.done():
            scheduling.result()
        if self.checks.problem is not None:
            raise self.checks.problem
        if self.loop.steps > MOST_STEPS:
            raise Violation("busy: far too much happens")

    def _shut(self) -> None:
        """Let every task end, so that nothing of it is left to the next simulation."""
        loop = self.loop
        self.host.crash_all()
        for owner in list(loop.tasks):
            loop.cancel_all(owner)
        loop.stop_at = -1

        async def drain() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        loop.run_until_complete(drain())
        loop.close()


@contextlib.contextmanager
def _logs(checks: Checks, story: Story) -> Any:
    """Take the extender's errors as violations, its warnings as part of the story."""

    def keep(_: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        error = event.pop("exc_info", None)
        story.tell("logs", method, *(f"{k}={v}" for k, v in sorted(event.items())))
        if error:
            checks.broken("error", traceback.format_exc().strip().splitlines()[-1])
        raise structlog.DropEvent

    held = structlog.get_config()
    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(30))
    try:
        yield
    finally:
        structlog.configure(**held)


class Heard(Listener):
    """Tells a simulation's story."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def decided(self, decision: decisions.Decision) -> None:
        self._simulation.decided(decision)

    def failed(self, what: str, error: ApiError) -> None:
        self._simulation.failed(what, error)
