"""What cannot be understood is counted and named, and never stays unnoticed."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from extender.model.objects import Pod
from tests.cache.conftest import until
from tests.cache.fakeapi import FakeApi, pod
from tests.cache.watched import PODS, Faults, Make, names, pods, started


@pytest.mark.parametrize(
    "line",
    [
        b"this is not JSON",
        b'{"type":"MODIFIED"}',
        b'{"type":"MODIFIED","object":{"metadata":{"name":5}}}',
        b'{"type":"RENAMED","object":{"metadata":{"name":"x","uid":"u"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u"},"spec":{"containers":'
        b'[{"resources":{"requests":{"cpu":"many"}}}]}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"ERROR","object":"sorry"}',
    ],
)
async def test_a_malformed_event_is_counted_and_everything_read_again(
    api: FakeApi, make: Make, line: bytes
) -> None:
    api.put(PODS, pod("a"))
    cache = await started(make)
    api.put_quietly(PODS, pod("b"))
    for watch in api.watches[PODS]:
        watch.raw(line + b"\n")
    if b'"ERROR"' in line:
        # No status to go by: the watch is interrupted, the state still continues.
        await until(lambda: names(cache) == {"a", "b"})
        assert pods(cache).errors >= 1
        return
    await until(lambda: pods(cache).relists == 1)
    assert names(cache) == {"a", "b"}
    assert pods(cache).decode_errors == 1
    assert cache.synced


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_malformed_object_is_left_out_and_named(
    api: FakeApi, make: Make, *, watch_list: bool
) -> None:
    api.put(PODS, pod("fine"))
    api.put(PODS, pod("broken", cpu="1x"))
    wrong = pod("typed")
    wrong["spec"]["nodeName"] = 7
    api.put(PODS, wrong)
    api.put(PODS, pod("fine-too"))
    cache = await started(make, watch_list=watch_list)
    assert names(cache) == {"fine", "fine-too"}
    assert set(pods(cache).undecodable) == {"Pod default/broken", "Pod default/typed"}
    (shown,) = [each for each in cache.describe() if each["resource"] == "pods"]
    assert shown["decodeErrors"] == pods(cache).decode_errors > 0
    assert shown["undecodable"] == pods(cache).undecodable
    assert "spec.containers[0].resources.requests.cpu" in cache.problem()
    assert "nodeName" in cache.problem()
    # Mended objects are followed again, and the note about them goes with the next reading.
    api.put(PODS, pod("broken"))
    await until(lambda: "broken" in names(cache))


async def test_a_mistake_of_ours_ends_in_a_fresh_start_not_in_silence(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = await started(make)
    put = cache.store.pods.put
    failures = [RuntimeError("a mistake on purpose")]

    def mistaken(record: Pod, *, force: bool = False) -> None:
        if failures:
            raise failures.pop()
        put(record, force=force)

    monkeypatch.setattr(cache.store.pods, "put", mistaken)
    api.put(PODS, pod("a"))
    await until(lambda: pods(cache).relists == 1)
    assert names(cache) == {"a"}
    assert "a mistake on purpose" in pods(cache).last_error


async def test_an_answer_that_is_no_list_is_tried_again(api: FakeApi, make: Make) -> None:
    faults = Faults(api)
    faults.answers = [
        lambda: web.Response(text="<html>", content_type="application/json"),
        lambda: web.json_response({"metadata": {}, "items": []}),
    ]
    api.put(PODS, pod("a"))
    cache = await started(make, watch_list=False)
    assert names(cache) == {"a"}
    assert pods(cache).errors == 2


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_group_that_cannot_be_read_is_in_the_snapshot_until_it_is_mended(
    api: FakeApi, make: Make, *, watch_list: bool
) -> None:
    group = "/apis/scheduling.volcano.sh/v1beta1"
    key = ("volcano", "ns", "g")
    path = f"{group}/podgroups"

    def written(least: Any) -> dict[str, Any]:
        meta = {"name": "g", "namespace": "ns", "uid": "g"}
        return {"metadata": meta, "spec": {"minMember": least}}

    api.groups[group] = True
    api.put(path, written("3"))
    cache = await started(make, watch_list=watch_list, discovery_seconds=0.05)
    await until(lambda: key in cache.snapshot().unreadable)
    assert "`$.spec.minMember`" in cache.snapshot().unreadable[key].replace("object.", "")
    api.put(path, written(3))
    await until(lambda: key in cache.snapshot().groups)
    assert key not in cache.snapshot().unreadable
    generation = cache.generation
    api.put(path, written(1.5))
    await until(lambda: key in cache.snapshot().unreadable)
    assert key not in cache.snapshot().groups
    assert cache.generation > generation
    api.groups[group] = False
    api.end_watches(path)
    await until(lambda: not cache.snapshot().group_sources)
    await until(lambda: not cache.snapshot().unreadable)
