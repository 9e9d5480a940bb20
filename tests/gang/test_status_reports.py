"""The status ConfigMap and every surface: when it is written, what it says, the same words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import pytest
import yaml
from msgspec import to_builtins
from msgspec.structs import replace
from structlog.testing import capture_logs

from extender.app.debug_pods import with_status
from extender.console.gang_rows import GangReader, facts_of
from extender.gang.runtime.clocks import Clocks
from extender.gang.status.group_conditions import condition_of
from extender.gang.status.notices import words_of
from extender.gang.status.status_map import KEY, SELDOM_SECONDS, TELL_SECONDS, StatusMap
from extender.gang.tell.decisions import Decision, Decisions, Outcome, Verb
from extender.gang.tell.gang_status import Facts, GangState, GangStatus, described
from extender.gang.tell.last_hour import LONGEST, Lately, Trouble
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.status_report import MOST_BYTES, GangSeen, PlanSeen, Said, Whole, text_of
from extender.gang.tell.story import story_of_gang
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey
from extender.model.plan import Code, Proof
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from extender.settings.status import MARK_LABEL, StatusSettings
from tests.console.stage import training_cluster
from tests.gang.statuses import status

BASE = "/api/v1/namespaces/kube-system/configmaps"
PATH = f"{BASE}/podgroup-extender-status"
SECONDS = StatusSettings().seconds


class Lease:
    acts = True
    epoch = 1


class Stage:
    """A status map on the sandbox's API server, with a clock that is set by hand."""

    def __init__(self, api: ApiServer, client: KubeClient) -> None:
        self.api = api
        self.client = client
        self.now = 1000.0
        self.lease = Lease()
        self.text: str | None = "gangs: 1\n"
        self.asked: list[float] = []
        self.source: Any = SimpleNamespace(text=self.read)
        self.map = self.another(self.lease)

    def another(self, lease: Lease) -> StatusMap:
        clocks = Clocks(lambda: self.now, lambda: self.now)
        return StatusMap(
            self.client, "kube-system", StatusSettings(), lease, self.source, clocks=clocks
        )

    async def read(self, since: float) -> str | None:
        self.asked.append(since)
        return self.text

    async def after(self, seconds: float) -> None:
        self.now += seconds
        await self.map.look()

    async def version(self) -> str:
        return str((await self.client.get(PATH))["metadata"]["resourceVersion"])

    async def said(self) -> Any:
        return yaml.safe_load((await self.client.get(PATH))["data"][KEY])


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    api = ApiServer()
    await api.start()
    async with await KubeClient.connect(server=api.url) as client:
        yield Stage(api, client)
    await api.close()


async def test_it_is_written_when_it_says_something_else_and_not_too_often(stage: Stage) -> None:
    await stage.map.look()
    assert await stage.said() == {"time": "1970-01-01T00:16:40Z", "gangs": 1}
    first = await stage.version()
    stage.text = "gangs: 2\n"
    await stage.after(SECONDS - 1)
    assert await stage.version() == first, "sooner than status.seconds"
    assert len(stage.asked) == 1, "and read for nothing"
    await stage.after(1)
    assert (await stage.said())["gangs"] == 2
    second = await stage.version()
    await stage.after(SECONDS)
    assert await stage.version() == second, "written although nothing has changed"
    await stage.after(StatusSettings().heartbeat_seconds)
    assert await stage.version() != second, "no heartbeat"
    assert set(stage.asked) == {1000.0}, "since when we lead"


async def test_neither_a_standby_nor_who_has_lost_the_lease_writes(stage: Stage) -> None:
    stage.lease.acts = False
    await stage.map.look()
    assert (await stage.client.get(BASE))["items"] == []
    assert stage.asked == []
    stage.lease.acts = True
    await stage.after(SECONDS)
    first = await stage.version()

    # It reads as long as it leads; the lease was deleted when the write would leave.
    async def fenced(since: float) -> str:
        stage.lease.acts = False
        return "gangs: 3\n"

    stage.source.text = fenced
    await stage.after(SECONDS)
    assert await stage.version() == first
    # A term of its own begins with a time of its own.
    stage.source.text = stage.read
    await stage.after(SECONDS)
    stage.lease.acts = True
    await stage.after(SECONDS)
    assert stage.asked[-1] == stage.now


async def test_the_lease_is_asked_when_the_turn_of_the_write_comes(stage: Stage) -> None:
    """The read before it is answered while the lease holds, and the write is not sent."""
    await stage.map.look()
    first = await stage.version()
    real = stage.client.get

    async def get(path: str, **more: Any) -> dict[str, Any]:
        found = await real(path, **more)
        stage.lease.acts = False
        return found

    stage.client.get = get  # type: ignore[method-assign]
    stage.text = "gangs: 4\n"
    with capture_logs() as logs:
        await stage.after(SECONDS)
    stage.client.get = real  # type: ignore[method-assign]
    assert await stage.version() == first
    assert logs == [], "that is no trouble"


@pytest.mark.parametrize(
    ("status", "pause"), [(403, SELDOM_SECONDS), (409, SECONDS), (429, 200.0), (503, SECONDS)]
)
async def test_a_refusal_is_told_once_and_tried_again_later(
    stage: Stage, status: int, pause: float
) -> None:
    after = 200 if status == 429 else None
    fault = Fault(10**6, path="configmaps", status=status, reason="No", retry_after=after)
    stage.api.faults.plan(fault)
    with capture_logs() as logs:
        await stage.map.look()
        assert fault.hits == 1
        await stage.after(pause - 1)
        assert fault.hits == 1, "a retry storm"
        tries = 1
        while stage.now < 1000 + TELL_SECONDS - pause:
            await stage.after(pause)
            tries += 1
        assert fault.hits == tries > 1
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert "kube-system/podgroup-extender-status" in logs[0]["config_map"]
    stage.api.faults.clear()
    await stage.after(SELDOM_SECONDS)
    assert (await stage.said())["gangs"] == 1


async def test_who_wrote_in_between_is_not_overwritten_unseen(stage: Stage) -> None:
    await stage.map.look()
    other = stage.another(Lease())
    real = stage.client.get

    async def get(path: str, **more: Any) -> dict[str, Any]:
        found = await real(path, **more)
        stage.client.get = real  # type: ignore[method-assign]
        stage.text = "gangs: other\n"
        await other.look()
        return found

    stage.text = "gangs: mine\n"
    stage.client.get = get  # type: ignore[method-assign]
    await stage.after(SECONDS)
    assert (await stage.said())["gangs"] == "other"
    await stage.after(SECONDS)
    assert (await stage.said())["gangs"] == "other", "the text of now"


async def test_what_somebody_else_has_under_that_name_stays(stage: Stage) -> None:
    theirs = {"metadata": {"name": "podgroup-extender-status"}, "data": {"a": "b"}}
    await stage.client.create(BASE, theirs)
    with capture_logs() as logs:
        await stage.map.look()
        await stage.after(SELDOM_SECONDS)
    assert (await stage.client.get(PATH))["data"] == {"a": "b"}
    assert len(logs) == 1
    assert "belongs to others" in logs[0]["error"]
    # An empty one is made for us, where we may not create.
    await stage.client.delete(PATH)
    await stage.client.create(BASE, {"metadata": {"name": "podgroup-extender-status"}})
    await stage.after(SELDOM_SECONDS)
    found = await stage.client.get(PATH)
    assert found["metadata"]["labels"] == {MARK_LABEL: "true"}
    assert KEY in found["data"]


async def test_a_defect_in_what_is_told_ends_nothing(stage: Stage) -> None:
    async def broken(since: float) -> str:
        raise ZeroDivisionError("a defect")

    rounds = 0

    async def sleep(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        stage.now += SELDOM_SECONDS
        if rounds == 3:
            stage.source.text = stage.read
        if rounds == 5:
            raise KeyboardInterrupt

    stage.source.text = broken
    stage.map._clocks = replace(stage.map._clocks, sleep=sleep)
    with capture_logs() as logs, pytest.raises(KeyboardInterrupt):
        await stage.map.run()
    assert [entry["kind"] for entry in logs] == ["defect"]
    assert (await stage.said())["gangs"] == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "Status"}, "status.name must be a DNS subdomain"),
        ({"name": "podgroup-extender-suspended"}, "status.name must not begin with"),
        ({"name": "podgroup-plan-1-2"}, "status.name must not begin with"),
        ({"seconds": 0.5}, "status.seconds must be at least 1"),
        ({"heartbeat_seconds": 29.0}, "status.heartbeatSeconds must not be below"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        validate(Settings(status=replace(StatusSettings(), **change)))


BARE = Whole(
    leader="pod-a", leading_since=0, epoch=3, version="1", mode="enforce", namespaces="all"
)
HOSTILE = "\x1b[31m: {x}\n- '\"#\u202e\ud800" + "\U0001f600" * 100_000


def gang(number: int, why: str = "infeasible: cpu is short") -> GangSeen:
    status = GangStatus(
        f"pod-group:team/g{number}",
        "refused",
        why,
        priority=1000 - number,
        pending=4,
        min_count=4,
    )
    return GangSeen(status, 60.0)


def test_nothing_to_tell_is_told_too() -> None:
    said = yaml.safe_load(text_of(BARE))
    assert said["leader"] == {"identity": "pod-a", "since": "1970-01-01T00:00:00Z", "epoch": 3}
    assert said["ready"] is True
    assert said["gangs"]["mostUrgentWaiting"] == []
    assert said["lastError"] is None


def test_lists_tell_how_much_they_leave_out() -> None:
    whole = Whole(
        leader="",
        leading_since=0,
        epoch=0,
        version="1",
        mode="enforce",
        namespaces="all",
        problems=["plan records are not read"],
        states={"refused": 50},
        waiting=[gang(number) for number in range(50)],
        suspended=[Said("a", "three plans were given up")],
    )
    said = yaml.safe_load(text_of(whole))
    assert said["leader"]["identity"] == "the only replica"
    assert said["ready"] is False
    assert said["problems"] == ["plan records are not read"]
    assert said["gangs"]["waiting"] == 50
    names = [each["gang"] for each in said["gangs"]["mostUrgentWaiting"]]
    assert names == [f"pod-group:team/g{number}" for number in range(10)]
    assert said["gangs"]["suspended"]["number"] == 1


def test_whatever_strangers_write_it_stays_small_and_yaml() -> None:
    whole = Whole(
        leader=HOSTILE,
        leading_since=0,
        epoch=0,
        version="1",
        mode="enforce",
        namespaces=HOSTILE,
        problems=[HOSTILE] * 100,
        down=[Said(HOSTILE, HOSTILE)] * 100,
        waiting=[gang(number, HOSTILE) for number in range(1000)],
        plans=[
            PlanSeen(
                gang=HOSTILE,
                plan="abc",
                priority=1,
                state="open",
                since=0,
                seats=1,
                victims=1,
                waits=1,
            )
        ]
        * 100,
        broken=[Said(HOSTILE, HOSTILE)] * 100,
        suspended=[Said(HOSTILE, HOSTILE)] * 100,
        trouble=Trouble(0, HOSTILE),
    )
    text = text_of(whole)
    assert len(text.encode()) <= MOST_BYTES
    assert "\x1b" not in text
    said = yaml.safe_load(text)
    assert said["gangs"]["waiting"] == 1000
    assert said["plans"]["underWay"] == 100
    assert said["lastError"]["what"]


def test_an_hour_ends() -> None:
    lately = Lately()
    for minute in range(200):
        lately.evicted("evicted", minute * 60.0)
    lately.evicted("refused", 199 * 60.0)
    assert lately.evictions(199 * 60.0) == {"evicted": 60, "refused": 1}
    assert lately.evictions(258 * 60.0) == {"evicted": 1, "refused": 1}
    assert lately.evictions(259 * 60.0) == {}
    lately.evicted("gone", 0.0)  # the clock was set back
    assert lately.evictions(199 * 60.0)["gone"] == 1


def test_the_last_thing_that_went_wrong_is_kept() -> None:
    lately = Lately()

    def decided(outcome: Outcome, code: Code | Literal[""] = "") -> None:
        lately.decided(
            Decision(
                time=5, gang="g", verb=Verb.LOOP, outcome=outcome, message="m" * 10**6, code=code
            )
        )

    for outcome in (Outcome.PLAN, Outcome.REFUSAL, Outcome.DONE, Outcome.OBSERVED):
        decided(outcome)
    assert lately.trouble is None
    for outcome in (Outcome.GAVE_UP, Outcome.BROKEN, Outcome.IN_PART):
        decided(outcome)
        assert lately.trouble is not None
        assert lately.trouble.what.startswith(f"g: {outcome}: m")
        assert len(lately.trouble.what) <= LONGEST
    lately.failed("wake team/a", "no (403 Forbidden)", 7)
    assert lately.trouble == Trouble(7, "wake team/a: no (403 Forbidden)")


GANGS = {
    "pod-group:research/frontier-run": GangState.WAITING,
    "pod-group:research/moe-ablation": GangState.LEAVING,
    "pod-group:research/giant-eval": GangState.REFUSED,
    "pod-group:speech/late-joiners": GangState.INCOMPLETE,
    "pod-group:bio/protein-fold": GangState.RUNNING,
}


@pytest.mark.parametrize("key", GANGS)
def test_surfaces_tell_the_same(key: str) -> None:
    stage = training_cluster()
    capture = stage.capture()
    decisions = [each for each in capture.decisions if each.gang == key]
    facts = facts_of(capture, capture.decisions)
    (row,) = (each for each in GangReader(stage.resolver).read(capture) if each.key == key)
    page = row.status
    assert page.state == GANGS[key]
    resolver = Resolver(Settings().groups)
    rows = with_status(capture.snapshot, resolver.resolve, capture.schedulers, facts)
    (debug,) = (each["status"] for each in rows if each["gang"] == key)
    assert debug == page
    gang = described(stage.resolver.resolve(GangKey.read(key), capture.snapshot))
    told = to_builtins(decisions)
    why = story_of_gang(
        key, Facts([gang], facts.reservations, facts.evictions, told, now=facts.now)
    )
    assert why is not None
    assert (why.state, why.reason, why.next) == (page.state, page.what, page.next)
    if page.state == GangState.REFUSED:
        condition, event = condition_of(decisions[0]), words_of(decisions[0])
        assert condition is not None
        assert event is not None
        assert condition.message == event[1] == page.text


def test_a_plan_is_told_with_victims_cost_and_end() -> None:
    stage = training_cluster()
    rows = GangReader(stage.resolver).read(stage.capture())
    status = rows[0].status
    assert status.victims == (
        "pod-group:research/moe-ablation (5 pods, 3.3 GPU-hours of work lost)",
        "pod batch/notebook-0 (10.0 GPU-hours of work lost)",
        "pod batch/notebook-1 (12.5 GPU-hours of work lost)",
    )
    assert all(name in status.what for name in status.victims)
    assert status.ends is not None
    assert status.next


GANG = {
    "gang": "pod-group:ns/g",
    "minCount": 2,
    "members": 2,
    "bound": 0,
    "pending": 2,
    "missing": 2,
    "complete": True,
    "priorityAsPreemptor": 7,
    "problems": (),
    "startsWhole": True,
}
WORDS = {
    "running",
    "incomplete",
    "leaving",
    "refused",
    "suspended",
    "pending",
    "repair",
    "planned",
    "evicting",
    "waiting",
    "open",
    "changing",
}


def test_the_words_are_the_ones_that_were_told_before() -> None:
    assert {state.value for state in GangState} == WORDS
    assert [proof.value for proof in Proof] == ["optimal", "bounded", ""]


def test_every_state_of_a_plan_is_one_of_its_gang() -> None:
    assert {state.value for state in PreemptionState} - {"ended"} <= WORDS


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ({}, "pending"),
        ({"problems": ("two sizes",)}, "repair"),
        ({"missing": 0, "bound": 2, "pending": 0}, "running"),
        ({"complete": False, "pending": 1}, "incomplete"),
    ],
)
def test_a_standing_goes_out_as_its_word(told: dict[str, object], word: str) -> None:
    standing = status({**GANG, **told})
    sent = msgspec.json.encode(standing)
    assert f'"state":"{word}",'.encode() in sent
    built = msgspec.to_builtins(standing)
    assert type(built["state"]) is str, "PyYAML refuses an enum"


@pytest.mark.parametrize("state", ["evicting", "of-another-version"])
def test_a_plans_state_is_told_as_the_server_names_it(state: str) -> None:
    preemption = {
        "gang": GANG["gang"],
        "state": state,
        "waitsFor": (),
        "seats": (),
        "victimsLeft": (),
    }
    standing = status(GANG, [preemption])
    assert json.loads(msgspec.json.encode(standing))["state"] == state


@pytest.mark.parametrize(
    ("proof", "word"), [(Proof.OPTIMAL, "optimal"), (Proof.BOUNDED, "bounded"), (None, "")]
)
def test_a_decision_goes_out_with_its_proofs_word(proof: Proof | None, word: str) -> None:
    made = Decision(time=1.0, gang="g", verb=Verb.LOOP, outcome=Outcome.PLAN, message="m")
    if proof is not None:
        made = msgspec.structs.replace(made, proof=proof)
    assert f'"proof":"{word}",'.encode() in msgspec.json.encode(made)
    kept = Decisions()
    kept.add(made)
    assert f'"proof":"{word}",'.encode() in msgspec.json.encode(list(kept))


def test_the_status_map_names_states_by_their_words() -> None:
    whole = Whole(
        leader="me",
        leading_since=0.0,
        epoch=1,
        version="1",
        mode="enforce",
        namespaces="all",
        states={GangState.PENDING: 2, GangState.RUNNING: 1},
        waiting=[GangSeen(GangStatus("g", GangState.PENDING, ""), None)],
    )
    text = text_of(whole)
    assert "    pending: 2\n    running: 1\n" in text
    assert "state: pending\n" in text
