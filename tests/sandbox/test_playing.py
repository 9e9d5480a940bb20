"""A play is judged: what kube-scheduler does alone breaks the promises, and that is seen."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from extender.kube.client import KubeClient
from extender.sandbox.narrator import Narrator
from extender.sandbox.pod_recorder import PodEvent, Seen, What
from extender.sandbox.resources import NODES, PODS
from extender.sandbox.runner import PlayOutcome, Runner
from extender.sandbox.scenario import Scenario, scaled
from extender.sandbox.scenario_file import load, packaged, parse
from extender.sandbox.world import World
from tests.sandbox.conftest import node
from tests.sandbox.stub import StubExtender


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.sandbox.runner.EXPECT_SECONDS", 0.3)
    monkeypatch.setattr("extender.sandbox.narrator._SETTLE", 0.0)


class StubHooks:
    """Nobody can be killed here."""

    def __init__(self, world: World, answers: list[dict[str, Any]] | None = None) -> None:
        self.world = world
        self.answers = answers or []
        self.done: list[str] = []
        self.alive = True

    async def kill_extender(self) -> None:
        self.done.append("kill")
        self.alive = False

    async def kill_extender_after(self, deletes: int) -> None:
        self.done.append(f"kill after {deletes}")
        self.alive = False

    async def slow_evictions(self, seconds: float) -> None:
        self.done.append(f"slow {seconds:g}")

    async def start_extender(self) -> None:
        self.done.append("start")
        self.alive = True

    def extender_alive(self) -> bool:
        return self.alive

    async def decisions(self) -> list[dict[str, Any]]:
        return self.answers

    def check(self) -> None:
        self.world.check()


async def play(
    scenario: Scenario,
    *,
    minor: str = "1.37",
    answers: list[dict[str, Any]] | None = None,
    during: Callable[[World], Awaitable[None]] | None = None,
) -> tuple[PlayOutcome, str, StubHooks]:
    """Play with an extender that agrees with everything."""
    async with StubExtender() as stub, World(minor, extender_url=stub.url) as world:
        hooks = StubHooks(world, answers)
        story = io.StringIO()
        narrator = Narrator(scenario, hooks, story)
        async with await KubeClient.connect(server=world.server.url) as client:
            runner = Runner(scenario, client, hooks, listener=narrator)
            narrator.opening()
            await runner.prepare()
            meddling = asyncio.ensure_future(during(world)) if during else None
            outcome = await runner.play()
            if meddling:
                await meddling
            await narrator.closing(runner.recorder, outcome.failures, outcome.seconds)
        return outcome, story.getvalue(), hooks


def unexplained(scenario: Scenario) -> Scenario:
    """Without the reasons that only an extender gives."""
    steps = [
        step if step.expect is None else replace(step, expect=replace(step.expect, reason=None))
        for step in scenario.steps
    ]
    return replace(scenario, steps=steps)


HEAD = """
name: x
about: y
nodes: [{count: 2, cpu: 4}]
priorityClasses: {low: 1, high: 9}
"""
LOW = "  - create: {gang: low, priorityClass: low, pods: 2, cpu: 3, nodes: ['n[0-1]']}\n"
ONE = "  - create: {pod: one, priorityClass: high, cpu: 3}\n"


async def test_a_play_that_ends_well(caplog: pytest.LogCaptureFixture) -> None:
    steps = f"steps:\n{LOW}  - waitRunning: low\n{ONE}  - waitRunning: one\n"
    steps += "  - finish: one\n  - expect: {evicted: {low: 1}, notRunning: [one]}\n"
    outcome, story, _ = await play(parse(HEAD + steps))
    assert outcome.failures == []
    assert "OK  every expectation met" in story
    assert "evicted: 1 of low" in story
    assert "\x1b[" not in story
    assert caplog.records == []


def test_a_story_tells_what_happened_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("extender.sandbox.narrator.time", clock)
    scenario = parse(f"{HEAD}steps:\n{LOW}  - waitRunning: low\n{ONE}")
    story = io.StringIO()
    narrator = Narrator(scenario, StubHooks.__new__(StubHooks), story)
    pods = [Seen(f"u{n}", f"low-{n}", f"low{n}", 1, 3000, {}) for n in range(3)]
    moments: list[tuple[float, What]] = [
        (103.0, "running"),
        (104.0, "finished"),
        (105.0, "evicted"),
    ]
    made = [PodEvent(100.0, "made", pod) for pod in pods]
    there = [PodEvent(at, what, pod) for (at, what), pod in zip(moments, pods, strict=True)]
    recorder: Any = SimpleNamespace(events=made + there)
    now[0] = 106.0
    narrator.done(scenario.steps[1], 6.0, recorder)
    recorder.events.append(PodEvent(107.0, "evicted", pods[0]))
    now[0] = 108.0
    narrator.step(scenario.steps[2], recorder)
    clocks = re.findall(r"(?m)^ *(\d+\.\d) s ", story.getvalue())
    assert clocks == ["3.0", "4.0", "5.0", "6.0", "7.0", "8.0"]


@pytest.mark.parametrize(
    ("never", "says"),
    [
        ("{whole: low, settle: 0.3}", "low is neither whole nor away: 1 pod on nodes, 2 needed"),
        ("{evictionsOver: 0}", "is eviction number 1; at most 0 were allowed"),
        ("{bound: one}", "one was never to get a node"),
    ],
)
async def test_a_broken_promise_ends_the_play(never: str, says: str) -> None:
    steps = f"never: [{never}]\nsteps:\n{LOW}  - waitRunning: low\n{ONE}  - waitRunning: one\n"
    outcome, story, _ = await play(parse(HEAD + steps + "  - sleep: 0.5\n  - sleep: 0\n"))
    assert any(says in text for text in outcome.failures), outcome.failures
    assert "FAILED" in story


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ("{evicted: {}}", "expected no other evictions, seen 1 of low"),
        ("{evicted: {low: 2}}", "expected 2 evicted pods of low, seen 1"),
        ("{evicted: {'l*': 1}, evictedGangs: 2}", "expected evictions in 2 gangs, seen in low"),
        ("{running: {low: 2}}", "expected 2 pods of low running, seen low-"),
        ("{running: {one: {nodes: [n0]}, low: {count: 1, nodes: [n0]}}}", "seen on n1"),
        ("{running: {one: {within: [n0]}, low: {within: [n0], count: 1}}}", "seen on n1 too"),
        ("{pending: {low: 2}}", "expected 2 pods of low waiting and none on a node, seen 0"),
        ("{notRunning: [one]}", "expected no pod of one on a node, seen one on"),
        ("{oneOf: [low, one], notRunning: [low]}", "expected no pod of low on a node"),
        ("{reason: {gang: low, contains: [because]}}", "to say because; seen: no such decision"),
    ],
)
async def test_an_unmet_expectation_says_what_was_seen(expect: str, says: str) -> None:
    steps = f"steps:\n{LOW}  - waitRunning: low\n{ONE}  - waitRunning: one\n  - expect: {expect}\n"
    outcome, _, _ = await play(parse(HEAD + steps))
    assert len(outcome.failures) == 1
    assert says in outcome.failures[0]


async def test_a_wait_in_vain_says_who_waits_for_what() -> None:
    answers = [
        {
            "gang": "pod-group:play/low",
            "outcome": "refusal",
            "message": "no room at all",
            "time": 1.0,
        }
    ]
    steps = "steps:\n  - create: {gang: low, pods: 1, cpu: 9}\n"
    steps += "  - waitRunning: {name: low, timeout: 0.5}\n  - sleep: 0\n"
    outcome, _, _ = await play(parse(HEAD + steps), answers=answers)
    assert "expected 1 pod of low to run within 0.5 s" in outcome.failures[0]
    assert "NodeResourcesFit" in outcome.failures[0]
    assert "no room at all" in outcome.failures[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("b-only-three-fit", "at most 0 were allowed"),
        ("l-skypilot-whole-cluster", "expected 2 evicted pods of train, seen 1"),
        ("l-skypilot-single-instead", "seen 1 of train"),
        ("u-skypilot-comes-back", "expected 2 evicted pods of low, seen 1"),
        ("v-kueue-quota-without-room", "expected no other evictions, seen 1 of train"),
        ("w-kueue-takes-its-quota-back", "seen 1 waiting and job3-0 on n"),
    ],
)
async def test_what_kube_scheduler_does_alone_fails(name: str, says: str) -> None:
    """The very harm this project prevents, seen by the runner."""
    outcome, _, _ = await play(unexplained(scaled(load(packaged()[name]), 0.1)))
    assert any(says in text for text in outcome.failures), outcome.failures


async def test_a_task_that_kube_scheduler_starts_in_part_fails() -> None:
    scenario = load(packaged()["t-different-nodes-or-none"])
    soon = [replace(rule, settle=1.0) for rule in scenario.never]
    outcome, _, _ = await play(replace(scenario, never=soon))
    says = "task is neither whole nor away: 1 pod on nodes, 2 needed"
    assert any(says in text for text in outcome.failures), outcome.failures


async def test_members_bound_before_their_quorum_exists_are_seen() -> None:
    steps = "never: [{whole: g}]\nsteps:\n"
    steps += "  - create: {gang: g, pods: 2, cpu: 1, every: 0.3}\n  - sleep: 0.2\n"
    outcome, _, _ = await play(parse(HEAD + steps))
    assert "got n0 when only 1 of the 2 pods that g needs existed" in outcome.failures[1]


async def test_an_eviction_before_the_quorum_exists_is_seen() -> None:
    steps = f"never: [{{evictionBefore: g}}]\nsteps:\n{LOW}  - waitRunning: low\n"
    steps += "  - create: {gang: g, priorityClass: high, pods: 2, cpu: 3, every: 0.5}\n"
    outcome, _, _ = await play(parse(HEAD + steps))
    assert "was evicted when only 1 of the 2 pods" in outcome.failures[1]


async def test_a_stolen_seat_is_seen() -> None:
    gang = (
        "{gang: g, priorityClass: high, pods: 3, cpu: 3, nodeSelector: {kubernetes.io/os: linux}}"
    )
    steps = f"never: [{{seats: g}}]\nsteps:\n{LOW}  - waitRunning: low\n  - create: {gang}\n"
    steps += "  - waitRunning: {name: g, count: 2}\n"
    steps += "  - create: {pod: thief, priorityClass: low, cpu: 3}\n  - waitRunning: thief\n"

    async def room_for_the_thief(world: World) -> None:
        while world.server.api.storage.get(PODS.key, "play", "thief") is None:
            await asyncio.sleep(0.01)
        world.server.api.create(NODES, "", node("n9"))

    outcome, _, _ = await play(parse(HEAD + steps), during=room_for_the_thief)
    assert any("thief got n9 while room was being made for g" in t for t in outcome.failures)


async def test_the_players_own_deletions_are_no_evictions() -> None:
    steps = "never: [{evictionsOver: 0}]\nsteps:\n"
    steps += "  - create: {gang: j, jobset: {jobs: 1, completions: 2}, cpu: 1}\n"
    steps += "  - waitRunning: j\n  - delete: j\n  - expect: {evicted: {}, notRunning: [j]}\n"
    outcome, _, _ = await play(parse(HEAD + steps))
    assert outcome.failures == []


async def test_the_extenders_life_goes_through_the_hooks() -> None:
    steps = "steps:\n  - killExtender: true\n  - waitExtenderDown: 1\n  - startExtender: true\n"
    steps += "  - waitExtenderDown: 0.1\n"
    outcome, story, hooks = await play(parse(HEAD + steps))
    assert hooks.done == ["kill", "start"]
    assert outcome.failures == [
        "step 3 (waitExtenderDown): the extender was not killed within 0.1 s"
    ]
    assert "killed (-9)" in story
    steps = "steps:\n  - killExtenderAfter: {deletes: 2}\n"
    _, _, hooks = await play(parse(HEAD + steps + "  - slowEvictions: 3\n"))
    assert hooks.done == ["kill after 2", "slow 3"]


async def test_an_eviction_without_its_condition_is_told() -> None:
    steps = f"steps:\n{LOW}  - waitRunning: low\n  - waitTerminating: {{name: low, count: 1}}\n"

    async def meddle(world: World) -> None:
        while world.server.api.storage.get(PODS.key, "play", "low-1") is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        world.server.api.delete(PODS, "play", "low-0")

    outcome, _, _ = await play(
        parse(HEAD + steps + "  - expect: {evicted: {low: 1}}\n"), during=meddle
    )
    assert "without the condition DisruptionTarget: low-0" in outcome.failures[0]


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize(
    "dialect",
    ["podGroup", "schedulingPlugins", "schedulingPluginsLabel", "skypilot", "jobset", "none"],
)
async def test_every_dialect_can_be_made(minor: str, dialect: str) -> None:
    shape = "jobset: {jobs: 1, completions: 2}" if dialect == "jobset" else "pods: 2"
    spelt = ", disruption: whole" if dialect == "podGroup" else ""
    steps = f"steps:\n  - create: {{gang: g, dialect: {dialect}, {shape}, cpu: 1{spelt}}}\n"
    outcome, _, _ = await play(parse(HEAD + steps + "  - waitRunning: g\n"), minor=minor)
    assert outcome.failures == []


async def test_the_story_shows_plan_and_victims() -> None:
    answers = [
        {
            "time": 1.0,
            "gang": "pod-group:play/one",
            "outcome": "plan",
            "message": "1 seat, 1 pod to evict, optimal",
            "victims": [{"name": "low-0", "reason": "its room is needed"}],
            "explanation": ["possible victims: 2 pods"],
        }
    ]
    steps = f"steps:\n{LOW}  - waitRunning: low\n{ONE}  - waitRunning: one\n"
    _, story, _ = await play(parse(HEAD + steps), answers=answers)
    assert story.count("1 seat, 1 pod to evict, optimal") == 1
    assert "low-0 is evicted: its room is needed" in story
    assert "n0 [" in story


async def test_the_story_shows_devices() -> None:
    """Where GPUs are short and CPU is not, a story of CPU alone would not say why anybody waits."""
    head = """
name: x
about: y
nodes: [{count: 1, cpu: 4, resources: {nvidia.com/gpu: 8}}, {name: m, count: 1, cpu: 2}]
priorityClasses: {low: 1}
"""
    gang = "{gang: g, cpu: 1, resources: {nvidia.com/gpu: 3}, nodes: [n0, n0], "
    gang += "pods: [{count: 1}, {name: big, count: 1, resources: {nvidia.com/gpu: 4}}]}"
    pod = "{pod: one, cpu: 1, resources: {nvidia.com/gpu: 5}}"
    steps = f"steps:\n  - create: {gang}\n  - create: {pod}\n  - waitPending: one\n"
    _, story, _ = await play(parse(head + steps))
    assert "Cluster: 1 node x 4 CPU and 8 nvidia.com/gpu, 1 node x 2 CPU\n" in story
    assert "1 x 1 CPU and 3 nvidia.com/gpu + 1 x 1 CPU and 4 nvidia.com/gpu, minCount" in story
    assert "pod one arrives: 1 CPU and 5 nvidia.com/gpu, priority 0" in story
    assert "n0 [GG..] 2/4 CPU, 7/8 nvidia.com/gpu  g-0, g-big-1" in story
    assert "m0 [..] 0/2 CPU                      -" in story
