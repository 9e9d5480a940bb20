"""Following a well-behaved API server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.cache.cache import Cache
from extender.cache.feed import Change
from extender.model.errors import NotReady
from extender.model.objects import GangKey
from tests.cache.conftest import FastClock, until
from tests.cache.fakeapi import FakeApi, named, node, pod, refuse

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
CORE = "/apis/scheduling.k8s.io/v1beta1"
OLD_CORE = "/apis/scheduling.k8s.io/v1alpha3"
PLUGINS = "/apis/scheduling.x-k8s.io/v1alpha1"
Make = Callable[..., Cache]


@pytest.mark.parametrize("watch_list", [True, False])
async def test_everything_is_read_and_followed(
    api: FakeApi, make: Make, *, watch_list: bool
) -> None:
    api.put(NODES, node("n1", zone="a"))
    api.put("/api/v1/namespaces", named("default"))
    api.put("/apis/scheduling.k8s.io/v1/priorityclasses", named("high", value=7))
    budget = named("b", spec={"selector": {}}, status={"disruptionsAllowed": 2})
    budget["metadata"]["namespace"] = "default"
    api.put("/apis/policy/v1/poddisruptionbudgets", budget)
    for index in range(7):
        api.put(PODS, pod(f"p{index}", node="n1", labels={"gang": "g"}))
    cache = make(watch_list=watch_list, page_size=3)
    await cache.start()
    await cache.wait_synced(60)
    first = cache.snapshot()
    assert set(first.nodes) == {"n1"}
    assert first.nodes["n1"].labels == {"zone": "a"}
    assert [p.name for p in first.bound["n1"]] == [f"p{index}" for index in range(7)]
    assert len(first.members[GangKey("test", "default", "g")]) == 7
    assert first.priority_classes["high"].value == 7
    assert [b.allowed for b in first.budgets] == [2]
    assert dict(first.namespaces["default"]) == {}
    assert cache.free("n1") == {"cpu": -3000, "pods": 103}
    assert cache.free("unknown") is None
    if watch_list:
        assert api.count(PODS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan") == 1
        assert api.count(PODS) == 1
    else:
        assert api.count(PODS, limit="3") == 3
        await until(lambda: cache.stats.watches["pods"].up)

    api.put(PODS, pod("late"))
    api.remove(PODS, "default", "p0")
    await until(lambda: cache.pod("uid-default-p0") is None)
    second = cache.snapshot()
    assert [p.name for p in second.pending.values()] == ["late"]
    assert len(second.bound["n1"]) == 6
    assert len(first.bound["n1"]) == 7, "a snapshot must never change"
    assert second.generation > first.generation
    assert cache.pod_named("default", "late") is not None
    assert cache.stale_for() == 0.0
    assert cache.problem() == ""
    query = next(query for path, query in api.requests if path == PODS)
    assert query["fieldSelector"] == "status.phase!=Failed"


async def test_a_snapshot_is_the_same_object_until_something_changes(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    api.put(NODES, node("n1"))
    api.put(PODS, pod("a", node="n1"))
    cache = make()
    await cache.start()
    await cache.wait_synced(60)
    first = cache.snapshot()
    assert cache.snapshot() is first
    assert first.now == 1_795_000_000.0
    clock.epoch += 1.5
    later = cache.snapshot()
    assert later is not first
    assert later.now == 1_795_000_001.0
    assert later.bound is first.bound
    api.put(PODS, pod("b"))
    await until(lambda: cache.generation > first.generation)
    changed = cache.snapshot()
    assert changed is not later
    assert changed.bound is first.bound, "unchanged parts are shared"
    assert changed.nodes is first.nodes
    assert changed.pending is not first.pending


async def test_an_update_that_changes_nothing_we_keep_is_not_announced(
    api: FakeApi, make: Make
) -> None:
    api.put(PODS, pod("a", node="n1"))
    cache = make()
    await cache.start()
    await cache.wait_synced(60)
    before = cache.generation
    api.put(PODS, pod("a", node="n1", podIP="10.0.0.1"))
    api.put(NODES, node("marker"))
    await until(lambda: "marker" in cache.snapshot().nodes)
    await until(lambda: cache.stats.watches["pods"].events == 2)
    assert cache.generation == before + 1
    assert cache.store.pods.by_uid["uid-default-a"].version == int(api.version) - 1


async def test_a_name_that_comes_back_with_another_uid_is_another_pod(
    api: FakeApi, make: Make
) -> None:
    api.put(PODS, pod("a", uid="one", node="n1"))
    cache = make()
    await cache.start()
    await cache.wait_synced(60)
    seen: list[tuple[str | None, str | None]] = []

    def note(change: Change) -> None:
        old, new = change.old, change.new
        seen.append((old.uid if old else None, new.uid if new else None))

    stop = cache.subscribe(note)
    # The server may merge a deletion and a creation into one event after a gap.
    api.put(PODS, pod("a", uid="two", node="n2"))
    await until(lambda: cache.pod("two") is not None)
    assert seen == [("one", None), (None, "two")]
    assert cache.pod("one") is None
    named_now = cache.pod_named("default", "a")
    assert named_now is not None
    assert named_now.uid == "two"
    assert set(cache.snapshot().bound) == {"n2"}
    # The late end of the first one is not the end of the second.
    api.tell(
        PODS,
        {
            "type": "DELETED",
            "object": {
                **pod("a", uid="one"),
            },
        },
    )
    api.put(PODS, pod("b"))
    await until(lambda: cache.pod_named("default", "b") is not None)
    assert cache.pod("two") is not None
    stop()
    count = len(seen)
    api.put(PODS, pod("c"))
    await until(lambda: cache.pod_named("default", "c") is not None)
    assert len(seen) == count


async def test_finished_pods_hold_nothing(api: FakeApi, make: Make) -> None:
    api.put(PODS, pod("a", node="n1"))
    api.put(PODS, {**pod("done", node="n1"), "status": {"phase": "Succeeded"}})
    cache = make()
    await cache.start()
    await cache.wait_synced(60)
    assert [p.name for p in cache.snapshot().bound["n1"]] == ["a"]
    api.put(PODS, {**pod("a", node="n1"), "status": {"phase": "Failed"}})
    await until(lambda: not cache.snapshot().bound)
    assert cache.free("n1") is None


async def test_waiters_are_woken_by_the_next_change(api: FakeApi, make: Make) -> None:
    cache = make()
    await cache.start()
    await cache.wait_synced(60)
    now = cache.generation
    assert await cache.wait_change(now - 1, 5) == now
    assert await cache.wait_change(now, 0.01) == now
    api.put(PODS, pod("a"))
    assert await cache.wait_change(now, 5) == now + 1


async def test_a_subscriber_that_fails_does_not_stop_the_others(api: FakeApi, make: Make) -> None:
    cache = make()
    kinds: list[str] = []

    def broken(change: Change) -> None:
        raise RuntimeError("broken on purpose")

    cache.subscribe(broken)
    cache.subscribe(lambda change: kinds.append(change.kind))
    await cache.start()
    await cache.wait_synced(60)
    api.put(NODES, node("n1"))
    await until(lambda: "node" in kinds)
    assert cache.stats.subscriber_errors == len(kinds)


async def test_groups_are_followed_only_where_served(api: FakeApi, make: Make) -> None:
    cache = make(discovery_seconds=0.02)
    await cache.start()
    await cache.wait_synced(60)
    assert "podgroups-core" not in cache.stats.watches
    assert not any(path.endswith("/podgroups") for path, _ in api.requests)

    group = named("g", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
    group["metadata"]["namespace"] = "default"
    api.put(f"{CORE}/podgroups", group)
    api.groups[CORE] = True
    await until(lambda: cache.snapshot().groups)
    assert cache.snapshot().groups["core", "default", "g"].min_count == 3

    # Gone again: nothing of it may be left, and nobody may wait for its watch.
    kinds: list[tuple[str, bool]] = []
    cache.subscribe(lambda change: kinds.append((change.kind, change.new is None)))
    api.groups[CORE] = False
    api.end_watches(f"{CORE}/podgroups")
    await until(lambda: not cache.snapshot().groups)
    assert kinds == [("group", True)]
    await until(lambda: "podgroups-core" not in cache.stats.watches)
    assert cache.stale_for() == 0.0


async def test_a_kind_that_is_not_served_any_more_is_not_waited_for_till_the_next_look(
    api: FakeApi, make: Make
) -> None:
    """A look is due in a day; the watch that finds nothing asks for one at once."""
    api.groups[CORE] = True
    cache = make(discovery_seconds=86_400.0)
    await cache.start()
    await cache.wait_synced(60)
    assert "podgroups-core" in cache.stats.watches
    api.groups[CORE] = False
    api.end_watches(f"{CORE}/podgroups")
    await until(lambda: "podgroups-core" not in cache.stats.watches)
    assert cache.stale_for() == 0.0


async def test_the_best_served_version_is_used(api: FakeApi, make: Make) -> None:
    api.groups[OLD_CORE] = True
    api.groups[PLUGINS] = True
    cache = make(discovery_seconds=0.02)
    await cache.start()
    await cache.wait_synced(60)
    assert cache.stats.watches["podgroups-core"].path == f"{OLD_CORE}/podgroups"
    assert cache.stats.watches["podgroups-scheduling-plugins"].synced
    group = named("g", spec={"schedulingPolicy": {"basic": {}}})
    group["metadata"]["namespace"] = "default"
    api.put_quietly(f"{CORE}/podgroups", group)
    api.groups[CORE] = True
    await until(lambda: cache.stats.watches["podgroups-core"].path == f"{CORE}/podgroups")
    await until(lambda: cache.snapshot().groups)


async def test_an_unanswered_discovery_changes_nothing(api: FakeApi, make: Make) -> None:
    api.groups[PLUGINS] = True
    group = named("g", spec={"minMember": 2})
    group["metadata"]["namespace"] = "default"
    api.put(f"{PLUGINS}/podgroups", group)
    cache = make(discovery_seconds=0.02)
    await cache.start()
    await cache.wait_synced(60)

    async def broken(request):  # type: ignore[no-untyped-def]
        return refuse(503, "ServiceUnavailable") if request.path == PLUGINS else None

    api.script = broken
    await until(lambda: cache.stats.discovery_errors >= 3)
    assert len(cache.snapshot().groups) == 1


async def test_sync_waits_say_what_is_missing(api: FakeApi, make: Make) -> None:
    async def forbidden(request):  # type: ignore[no-untyped-def]
        return refuse(403, "Forbidden") if request.path == PODS else None

    api.script = forbidden
    cache = make()
    await cache.start()
    await until(lambda: "403 Forbidden" in cache.problem())
    with pytest.raises(NotReady, match=r"pods \(.*403 Forbidden"):
        await cache.wait_synced(0.3)
    assert not cache.synced
    assert "pods" in cache.problem()
    api.script = None
    await cache.wait_synced(60)
    assert cache.problem() == ""


async def test_the_hook_runs_once_when_all_is_read(api: FakeApi, make: Make) -> None:
    cache = make()
    calls: list[bool] = []
    cache._on_synced = lambda: calls.append(cache.synced)
    await cache.start()
    await cache.wait_synced(60)
    api.end_watches()
    await until(lambda: cache.stats.watches["pods"].watches >= 2)
    assert calls == [True]


async def test_the_description_is_plain_data(api: FakeApi, make: Make) -> None:
    cache = make()
    await cache.start()
    await cache.wait_synced(60)
    entries = {entry["resource"]: entry for entry in cache.describe()}
    assert entries["pods"]["synced"] is True
    assert entries["pods"]["up"] is True
    assert entries["nodes"]["version"] == "100"
