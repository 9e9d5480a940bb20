"""What is counted of what schedulers do, and what is planned beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from extender.gang.tell.decisions import Outcome
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339
from extender.observe.cases import GONE_SECONDS, PART_SECONDS
from extender.observe.observer import Observer
from extender.observe.preemptions import SETTLE_SECONDS
from extender.settings.mode import EnforceSettings
from extender.settings.policy import NamespaceSelector
from extender.wire.filter_json import FilterArgs
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.rig import FAST, PODS
from tests.gang.test_in_the_way import with_volume
from tests.groups.owners import jobset_pod
from tests.observe.bed import Bed

OBSERVING = replace(FAST, mode="observe")


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    """Two nodes that a gang of two holds: room for one gang."""
    async with Bed(OBSERVING) as made:
        await made.nodes(2)
        await made.classes(low=1, high=100)
        await made.gang("low", 2, "low", on="n")
        yield made


def counted(bed: Bed) -> dict[str, float]:
    """The sums that are not zero."""
    return {name: value for name, value in asdict(bed.ledger.total).items() if value}


async def test_plan_is_for_the_cluster_as_it_was_before_anybody_went(bed: Bed) -> None:
    await bed.gang("high", 2, "high")
    await bed.tried("high-0")
    await bed.preempts("high-0", "low-0")
    await bed.bound("high-0", "n0")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    (plan,) = [d for d in bed.told if d.outcome is Outcome.PLAN]
    assert {victim.name for victim in plan.victims} == {"low-0", "low-1"}
    assert plan.message.startswith("would be done: 2 seats, 2 pods to evict")
    assert counted(bed) == {
        "gangs": 1,
        "planned": 1,
        "would_evict_pods": 2,
        "would_break_gangs": 1,
        "evicted_pods": 1,
        "evicted_for_gangs": 1,
        "broken_gangs": 1,
        "broken_for_gangs": 1,
        "half_broken_gangs": 1,
    }
    (case,) = bed.observer.cases
    assert case.told.evicted_pods == ["default/low-0"]
    assert case.told.half_broke == ["pod-group:default/low"]


async def test_work_that_is_lost_is_counted_beside_what_would_have_been(bed: Bed) -> None:
    """Two pods of 3 of 4 CPU started two hours ago; kube-scheduler evicts one, the plan both."""
    started = datetime.now(UTC) - timedelta(hours=2)
    for name in ("low-0", "low-1"):
        status = {"phase": "Running", "startTime": rfc3339(started.timestamp())}
        await bed.client.patch(f"{PODS}/{name}/status", {"status": status})
        await bed.until(partial(bed.started, name), f"{name} has started")
    await bed.gang("high", 2, "high")
    await bed.tried("high-0")
    await bed.preempts("high-0", "low-0")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    sums = counted(bed)
    assert sums["lost_for_gangs"] == pytest.approx(0.75 * 7200, abs=60)
    assert sums["would_lose"] == pytest.approx(2 * 0.75 * 7200, abs=60)


async def test_one_gang_that_fails_does_not_keep_others_from_their_turn(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(self: Observer, gang: Gang, *given: Any) -> Plan | Refusal:
        if gang.key.name == "bad":
            raise TypeError("a defect")
        return await search(self, gang, *given)

    search = Observer._search
    monkeypatch.setattr(Observer, "_search", failing)
    for name in ("bad", "high"):
        await bed.gang(name, 2, "high")
        await bed.tried(f"{name}-0")
    await bed.rounds()
    assert [d.gang for d in bed.told if d.outcome is Outcome.PLAN] == ["pod-group:default/high"]


async def test_nothing_is_written(bed: Bed) -> None:
    await bed.gang("high", 2, "high")
    await bed.tried("high-0", "high-1")
    await bed.rounds()
    await bed.rounds(60.0)
    assert counted(bed)["planned"] == 1
    assert await bed.names() == {"low-0", "low-1", "high-0", "high-1"}
    for name in ("low-0", "low-1", "high-0", "high-1"):
        found = await bed.client.get(f"/api/v1/namespaces/default/pods/{name}")
        assert "deletionTimestamp" not in found["metadata"]
        assert not found["status"].get("nominatedNodeName")
    assert not (await bed.client.get("/api/v1/namespaces/kube-system/configmaps"))["items"]
    assert not (await bed.client.get("/api/v1/events"))["items"]


async def test_gang_that_has_its_quorum_is_done(bed: Bed) -> None:
    await bed.gang("small", 1, "high")
    await bed.rounds()
    await bed.preempts("small-0", "low-0")
    await bed.bound("small-0", "n0")
    await bed.rounds()
    assert "whole" not in counted(bed)
    await bed.rounds(SETTLE_SECONDS + 0.1)
    sums = counted(bed)
    assert (sums["gangs"], sums["whole"], sums["evicted_for_gangs"]) == (1, 1, 1)
    assert not list(bed.observer.cases)


async def test_gang_that_ends_its_work_at_once_had_its_quorum(bed: Bed) -> None:
    """Between two looks at it: what was evicted for it was not in vain."""
    await bed.gang("quick", 2, "high")
    await bed.preempts("quick-0", "low-0")
    await bed.preempts("quick-1", "low-1")
    for i in range(2):
        await bed.bound(f"quick-{i}", f"n{i}")
    for i in range(2):
        await bed.remove(f"quick-{i}")
        await bed.gone(f"quick-{i}")
    await bed.rounds()
    await bed.rounds(GONE_SECONDS + 0.1)
    sums = counted(bed)
    assert (sums["whole"], sums["planned"], sums["would_evict_pods"]) == (1, 1, 2)
    assert not {"gone", "evicted_in_vain"} & sums.keys()


async def test_gang_that_is_made_anew_is_followed_anew(bed: Bed) -> None:
    await bed.gang("again", 1, "high")
    await bed.preempts("again-0", "low-0")
    await bed.bound("again-0", "n0")
    await bed.remove("again-0")
    await bed.gone("again-0")
    await bed.pod("again-1", cls="high", group="again")
    await bed.until(lambda: bed.cache.pod_named("default", "again-1") is not None, "again")
    await bed.rounds()
    await bed.rounds(SETTLE_SECONDS + 0.1)
    sums = counted(bed)
    assert (sums["gangs"], sums["whole"]) == (2, 1)
    assert [case.told.gang for case in bed.observer.cases] == ["pod-group:default/again"]


async def test_pods_evicted_for_a_gang_that_never_runs_went_in_vain(bed: Bed) -> None:
    await bed.gang("high", 2, "high")
    await bed.preempts("high-0", "low-0")
    await bed.rounds(SETTLE_SECONDS + 0.1)
    for name in ("high-0", "high-1"):
        await bed.remove(name)
        await bed.gone(name)
    await bed.rounds()
    assert counted(bed)["evicted_for_gangs"] == 1
    assert "gone" not in counted(bed)
    await bed.rounds(GONE_SECONDS + 0.1)
    sums = counted(bed)
    assert (sums["gone"], sums["evicted_in_vain"]) == (1, 1)
    (told,) = bed.ledger.weeks[-1].gangs
    assert (told.gang, told.outcome, told.evicted) == ("pod-group:default/high", "gone", 1)


async def test_time_that_members_sit_in_part_is_counted(bed: Bed) -> None:
    await bed.gang("high", 2, "high")
    await bed.preempts("high-0", "low-0")
    await bed.bound("high-0", "n0")
    await bed.rounds()
    await bed.rounds(PART_SECONDS / 2)
    assert "in_part_gangs" not in counted(bed)
    await bed.rounds(PART_SECONDS / 2 + 0.1)
    await bed.rounds(20.0)
    sums = counted(bed)
    assert sums["in_part_gangs"] == 1
    assert sums["in_part_pod_seconds"] == pytest.approx(PART_SECONDS + 20, abs=5)


async def test_time_in_which_nothing_is_seen_is_not_counted(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bed.gang("high", 2, "high")
    await bed.preempts("high-0", "low-0")
    await bed.bound("high-0", "n0")
    await bed.rounds()
    with monkeypatch.context() as patched:
        patched.setattr(bed.cache, "stale_for", lambda: 3600.0)
        await bed.rounds(3600.0)
    await bed.rounds(1.0)
    assert "in_part_gangs" not in counted(bed)


async def test_seat_is_lost_to_a_pod_that_could_not_have_come(bed: Bed) -> None:
    await bed.gang("high", 2, "high")
    await bed.tried("high-0")
    await bed.rounds()
    assert counted(bed)["planned"] == 1
    await bed.remove("low-0")
    await bed.gone("low-0")
    await bed.pod("stranger", cls="low", on="n0")
    await bed.until(lambda: bed.cache.pod_named("default", "stranger") is not None, "stranger")
    await bed.rounds()
    await bed.rounds()
    assert counted(bed)["seats_lost"] == 1


async def test_pod_beside_the_seats_loses_none(bed: Bed) -> None:
    await bed.gang("high", 2, "high")
    await bed.tried("high-0")
    await bed.rounds()
    await bed.pod("small", cls="low", on="n0", cpu="500m")
    await bed.until(lambda: bed.cache.pod_named("default", "small") is not None, "small")
    await bed.rounds()
    assert "seats_lost" not in counted(bed)


async def test_surplus_below_a_met_quorum_breaks_nothing(bed: Bed) -> None:
    await bed.group("elastic", 1, "low", whole=False)
    for i in range(2):
        await bed.pod(f"elastic-{i}", cls="low", group="elastic", on=f"n{i}", cpu="500m")
    await bed.pod("single", cls="high")
    await bed.until(lambda: bed.cache.pod_named("default", "single") is not None, "single")
    await bed.preempts("single", "elastic-1")
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert counted(bed) == {"evicted_pods": 1}


async def test_pod_that_is_evicted_by_others_is_nobodys_preemption(bed: Bed) -> None:
    await bed.remove("low-0")
    await bed.gone("low-0")
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert counted(bed) == {}


async def test_of_two_preemptors_the_one_that_was_asked_for_counts(bed: Bed) -> None:
    await bed.pod("single", cls="high")
    await bed.gang("high", 2, "high")
    asker = bed.cache.pod_named("default", "high-0")
    victim = bed.cache.pod_named("default", "low-0")
    assert asker is not None
    assert victim is not None
    await bed.verbs.preempt(PreemptArgs(asker, {"n0": NodeVictims((victim.uid,))}))
    await bed.preempts("high-0", "low-0")
    await bed.client.patch(
        "/api/v1/namespaces/default/pods/single/status", {"status": {"nominatedNodeName": "n0"}}
    )
    await bed.until(lambda: bed._pod("single").nominated == "n0", "nominated too")
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert counted(bed)["evicted_for_gangs"] == 1


async def test_question_about_a_stranger_changes_nothing(bed: Bed) -> None:
    stranger = replace(bed._pod("low-0"), uid="unknown", priority=1_000_000)
    answer = await bed.verbs.filter(FilterArgs(stranger, ["n0", "nowhere"]))
    assert answer.node_names == ["n0", "nowhere"]
    await bed.verbs.preempt(PreemptArgs(stranger, {"n0": NodeVictims(("x",))}))
    await bed.rounds(SETTLE_SECONDS + 0.1)
    assert counted(bed) == {}


async def test_gang_that_cannot_fit_is_refused_and_told(bed: Bed) -> None:
    await bed.gang("vast", 3, "high")
    await bed.tried("vast-0")
    await bed.rounds()
    (case,) = bed.observer.cases
    assert case.told.answer == "refusal"
    assert counted(bed) == {"gangs": 1}


async def test_gang_of_a_namespace_that_is_not_chosen_gets_no_plan(bed: Bed) -> None:
    chosen = NamespaceSelector(match_labels={"team": "a"})
    bed.settings = replace(OBSERVING, enforce=EnforceSettings(namespaces=chosen))
    await bed.restart()
    await bed.gang("high", 2, "high")
    await bed.tried("high-0")
    await bed.rounds()
    (case,) = bed.observer.cases
    assert case.told.message.startswith("not-enforced")
    assert counted(bed) == {"gangs": 1}


async def test_surplus_members_of_a_gang_that_runs_open_no_case(bed: Bed) -> None:
    await bed.pod("low-2", cls="low", group="low")
    await bed.until(lambda: bed.cache.pod_named("default", "low-2") is not None, "surplus")
    await bed.tried("low-2")
    await bed.rounds()
    assert counted(bed) == {}


async def test_a_gang_is_told_of_after_the_victims_that_went_for_it(bed: Bed) -> None:
    """However long a tick takes between counting victims and looking at gangs."""
    await bed.gang("small", 1, "high")
    await bed.rounds()
    await bed.preempts("small-0", "low-0")
    await bed.bound("small-0", "n0")
    await bed.rounds()
    resolve = bed.observer.cases.gangs.resolve

    def slow(key: GangKey, snapshot: Snapshot) -> Gang:
        bed.clock += 5.0
        return resolve(key, snapshot)

    bed.observer.cases.gangs.resolve = slow  # type: ignore[method-assign]
    await bed.observer._tick()
    assert "whole" not in counted(bed)
    await bed.observer._tick()
    assert counted(bed)["evicted_for_gangs"] == counted(bed)["whole"] == 1


async def test_a_gang_whose_scheduler_is_not_among_ours_is_told_so_once() -> None:
    """As in manifests/observe/ beside Volcano: nothing was planned, and nobody said why."""
    settings = replace(OBSERVING, scheduler_names=("another",))
    async with Bed(settings) as bed:
        await bed.nodes(2)
        await bed.classes(low=1, high=100)
        await bed.gang("low", 2, "low", on="n")
        await bed.gang("high", 2, "high")
        await bed.rounds()
        assert bed.told == [], "no scheduler has tried it"
        await bed.tried("high-0")
        await bed.rounds()
        await bed.rounds()
        (told,) = bed.told
        assert told.outcome is Outcome.REFUSAL
        assert told.message.startswith(
            "its members wait for default-scheduler, which does not call this extender"
        )
        (case,) = bed.observer.cases
        assert case.before is None
        assert "schedulerNames" in case.told.message


@pytest.fixture
async def late_bed() -> AsyncIterator[Bed]:
    """Two empty nodes."""
    async with Bed(replace(FAST, mode="observe")) as made:
        await made.nodes(2)
        await made.classes(high=100)
        yield made


async def pods(bed: Bed, *numbers: int) -> None:
    for number in numbers:
        name = f"high-{number}"
        await bed.pod(name, cls="high", group="high")
        await bed.until(partial(_is_cached, bed, name), name)


def _is_cached(bed: Bed, name: str) -> bool:
    return bed.cache.pod_named("default", name) is not None


async def group(bed: Bed, count: int) -> None:
    await bed.group("high", count, "high")
    await bed.until(
        lambda: any(key[2] == "high" for key in bed.cache.snapshot().groups), "the PodGroup is seen"
    )


def whole(bed: Bed) -> int:
    return int(asdict(bed.ledger.total)["whole"])


@pytest.mark.parametrize("ticks", [0, 1])
async def test_a_gang_that_sits_in_part_was_never_whole(late_bed: Bed, ticks: int) -> None:
    await pods(late_bed, 0)
    await late_bed.bound("high-0", "n0")
    for _ in range(ticks):
        await late_bed.rounds()
    await group(late_bed, 3)
    await pods(late_bed, 1, 2)
    await late_bed.bound("high-1", "n1")
    await late_bed.rounds()
    await late_bed.rounds(SETTLE_SECONDS + 0.1)
    await late_bed.rounds(PART_SECONDS + 0.1)
    assert whole(late_bed) == 0
    assert late_bed.ledger.total.in_part_gangs == 1
    (case,) = late_bed.observer.cases
    assert (case.told.quorum, case.told.most_bound) == (3, 2)


async def test_a_quorum_of_less_than_a_tick_counts(late_bed: Bed) -> None:
    await pods(late_bed, 0, 1)
    await late_bed.bound("high-0", "n0")
    await group(late_bed, 2)
    await late_bed.rounds()
    await late_bed.bound("high-1", "n1")
    await late_bed.remove("high-0")
    await late_bed.gone("high-0")
    await late_bed.rounds()
    await late_bed.rounds(SETTLE_SECONDS + 0.1)
    assert whole(late_bed) == 1


SIZE = "podgroup-extender.io/gang-size"


@pytest.fixture
async def again_bed() -> AsyncIterator[Bed]:
    """Four nodes; on two of them run the pods of the JobSet that was deleted."""
    async with Bed(replace(FAST, mode="observe")) as made:
        await made.nodes(4)
        await made.classes(high=100)
        for i in range(2):
            await member(made, "old", i)
            await made.bound(f"old-{i}", f"n{i}")
        await made.rounds()
        await made.rounds(SETTLE_SECONDS + 0.1)
        assert made.ledger.total.whole == 1
        yield made


async def member(bed: Bed, life: str, index: int) -> None:
    meta = jobset_pod(index, "w", "g", index)
    meta["labels"]["jobset.sigs.k8s.io/jobset-uid"] = life
    meta["annotations"][SIZE] = "2"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    name = f"{life}-{index}"
    await bed.client.create(
        PODS, {"metadata": {"name": name, **meta}, "spec": {"containers": [container]}}
    )
    await bed.until(partial(_is_cached, bed, name), name)


async def test_old_pods_are_no_part_of_a_quorum(again_bed: Bed) -> None:
    await member(again_bed, "new", 0)
    await member(again_bed, "new", 1)
    await again_bed.rounds()
    await again_bed.tried("new-0")
    await again_bed.bound("new-0", "n2")
    await again_bed.rounds()
    await again_bed.rounds(SETTLE_SECONDS + 0.1)
    assert again_bed.ledger.total.whole == 1, "one of two"
    await again_bed.client.patch(f"{PODS}/old-0", {"metadata": {"annotations": {"seen": "again"}}})
    await again_bed.rounds(SETTLE_SECONDS + 0.1)
    assert again_bed.ledger.total.whole == 1, "one of two"
    (case,) = again_bed.observer.cases
    assert case.told.most_bound == 1
    await again_bed.bound("new-1", "n3")
    await again_bed.rounds()
    await again_bed.rounds(SETTLE_SECONDS + 0.1)
    assert again_bed.ledger.total.whole == 2


async def test_nor_do_they_sit_in_part(again_bed: Bed) -> None:
    await member(again_bed, "new", 0)
    await again_bed.rounds()
    for _ in range(3):
        await again_bed.rounds(PART_SECONDS + 0.1)
    assert again_bed.ledger.total.gangs == 2
    assert again_bed.ledger.total.in_part_gangs == 0, "none of the new ones has a node"


GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


async def test_pods_that_hold_attachments_are_in_the_plan() -> None:
    async with Bed(FAST) as bed:
        await bed.nodes(2)
        await bed.classes(low=1, high=100)
        for i in range(2):
            await with_volume(bed, f"low-{i}", on=f"n{i}")
        await bed.group("g", 2, "high")
        await bed.until_cached(GROUPS, lambda: {key[2] for key in bed.cache.snapshot().groups})
        for i in range(2):
            await with_volume(bed, f"g-{i}")
        await bed.tried("g-0", "g-1")
        offered = {f"n{i}": NodeVictims((bed.cached(f"low-{i}").uid,)) for i in range(2)}
        for i in range(2):
            await bed.verbs.preempt(PreemptArgs(bed.cached(f"g-{i}"), offered))
        await bed.rounds(3.0)
        await bed.rounds(3.0)
        (case,) = bed.observer.cases
        assert case.plan is not None
        assert {victim.name for victim in case.plan.victims} == {"low-0", "low-1"}
