"""One object of one tenant, whatever it is, keeps nobody else's of its kind from being read.

A custom resource may hold whatever its definition lets through (x-kubernetes-preserve-unknown-
fields: templates of MPIJobs have been so): lists in one another up to the API server's own ten
thousand, and values of other types than ours. See docs/security.md, row 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from extender.cache import followed_resources
from extender.cache.cache import Cache
from extender.cache.nesting import MOST_LEVELS, shallow
from extender.cache.reader import ResourceReader
from extender.cache.stats import WatchStats
from extender.decode import from_api as reductions
from extender.decode.owners import OWNER_SHAPES
from extender.model.owner_kinds import PARTLY_DONE
from tests.cache import conftest
from tests.cache.fakeapi import FakeApi, Json
from tests.cache.watched import Make, started

GROUP = "/apis/scheduling.volcano.sh/v1beta1"
PATH = f"{GROUP}/podgroups"
DEEPEST = 9_000
"""Levels: the API server reads 10,000 (maxNestingDepth of encoding/json)."""
DEEP = "[" * DEEPEST + "]" * DEEPEST


def written(name: str, least: Any = 3, **spec: Any) -> Json:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"minMember": least, **spec}}


def deep(document: Json) -> bytes:
    """Return a document as JSON, with what is deep where it says "deep"."""
    return json.dumps(document, separators=(",", ":")).replace('"deep"', DEEP).encode()


def watch(cache: Cache) -> WatchStats:
    return cache.stats.watches["podgroups-volcano"]


def sizes(cache: Cache) -> dict[str, int | None]:
    return {key[2]: row.min_count for key, row in cache.snapshot().groups.items()}


def unreadable(cache: Cache) -> set[str]:
    return {name for _, _, name in cache.snapshot().unreadable}


async def served(api: FakeApi, make: Make, **settings: Any) -> Cache:
    api.groups[GROUP] = True
    cache = await started(make, discovery_seconds=0.05, **settings)
    await until(lambda: "podgroups-volcano" in cache.stats.watches and watch(cache).up)
    return cache


async def until(condition: Callable[[], Any]) -> None:
    """A watch that goes round and round comes to nothing: known sooner than elsewhere."""
    await conftest.until(condition, 25.0)


# -- lists in one another --------------------------------------------------------------------


@pytest.mark.parametrize("source", sorted({*OWNER_SHAPES, "core", "volcano", "scheduling-plugins"}))
@pytest.mark.parametrize("spoilt", [False, True])
def test_depth_is_no_reason_to_read_nothing(source: str, *, spoilt: bool) -> None:
    stats = WatchStats(source, "/x")
    resource = followed_resources.groups(source, "/x")
    reader = ResourceReader(resource, stats)
    whole: dict[str, Any] = {
        "kind": "X",
        "metadata": {"name": "a", "namespace": "ns", "uid": "a", "managedFields": "deep"},
        "spec": "deep" if spoilt else {"unknown": "deep", "schedulingPolicy": {"basic": {}}},
    }
    if source == "workload-priority-class":
        whole |= {"value": 5}
    fine = {**whole, "metadata": {"name": "b", "namespace": "ns", "uid": "b"}, "spec": {}}
    if source == PARTLY_DONE:
        for each in (whole, fine):
            each["status"] = {"succeeded": 1}
            if isinstance(each["spec"], dict):
                each["spec"]["parallelism"] = 2  # it makes one more, and so it is kept
    documents = [deep(whole), json.dumps(fine).encode()]
    by_page: dict[str, Any] = {}
    reader.page(
        b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join(documents) + b"]}", by_page
    )
    by_watch: dict[str, Any] = {}
    reader.initial([b'{"type":"ADDED","object":' + each + b"}" for each in documents], by_watch)
    assert by_page == by_watch
    assert "b" in by_page
    if "a" not in by_page:
        assert [key[1] for key in stats.left_out_by_name()] == ["a"]


async def test_a_deep_object_among_changes(api: FakeApi, make: Make) -> None:
    api.groups[GROUP] = True
    api.put(PATH, written("fine"))
    cache = await served(api, make)
    api.version += 1
    change = written("lowest", 2, unknown="deep")
    change["metadata"]["resourceVersion"] = str(api.version)
    for each in api.watches[PATH]:
        each.raw(b'{"type":"ADDED","object":' + deep(change) + b"}\n")
    api.put(PATH, written("later", 5))
    await until(lambda: sizes(cache) == {"fine": 3, "lowest": 2, "later": 5})
    assert (watch(cache).relists, watch(cache).errors) == (0, 0)


def test_only_what_is_too_deep_is_blanked() -> None:
    odd = r'"[\"[{\\"'
    mappings = '{"g":' * 600 + "1" + "}" * 600
    text = f'{{"a":{odd},"b":[1,{{"c":[]}}],"d":{DEEP},"e":{{"f":{mappings}}}}}'
    found = json.loads(shallow(text.encode()))
    assert (found["a"], found["b"]) == ('["[{\\', [1, {"c": []}])
    levels, inner = 1, found["d"]
    while inner:
        levels, inner = levels + 1, inner[0]
    assert levels == MOST_LEVELS
    for fine in (b'{"a":[{"b":"]"}]}', b"", b'"[', b"]]]", b'{"a"'):
        assert shallow(fine) == fine


# -- a mistake of ours about one object ------------------------------------------------------


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_mistake_about_one_object_is_that_objects_problem(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch, *, watch_list: bool
) -> None:
    """Read again, the object is still there: the kind would never be read any more."""
    reduce = reductions.member_group_of

    def mistaken(source: str) -> Any:
        def reduced(raw: Any) -> Any:
            if raw.metadata.name == "odd":
                raise KeyError("a mistake on purpose")
            return reduce(source)(raw)

        return reduced

    monkeypatch.setattr(followed_resources, "member_group_of", mistaken)
    api.groups[GROUP] = True
    api.put(PATH, written("odd"))
    api.put(PATH, written("fine"))
    cache = await served(api, make, watch_list=watch_list)
    assert sizes(cache) == {"fine": 3}
    api.put(PATH, written("odd", 4))
    api.put(PATH, written("later", 5))
    await until(lambda: sizes(cache) == {"fine": 3, "later": 5})
    assert unreadable(cache) == {"odd"}
    assert watch(cache).relists == 0


# -- what cannot be read, among changes ------------------------------------------------------


async def test_others_are_read_on_while_one_changes_and_cannot_be_read(
    api: FakeApi, make: Make
) -> None:
    """To read all of its kind again for each change would leave the others' changes unseen, for
    longer and longer, as often as its owner likes."""
    api.groups[GROUP] = True
    api.put(PATH, written("odd", 2))
    api.put(PATH, written("fine"))
    cache = await served(api, make)
    await until(lambda: sizes(cache) == {"odd": 2, "fine": 3})
    for number in range(20):
        api.put(PATH, written("odd", f"{number}"))
        api.put(PATH, written("fine", number))
    await until(lambda: sizes(cache) == {"fine": 19})
    assert unreadable(cache) == {"odd"}
    assert (watch(cache).relists, watch(cache).errors, watch(cache).decode_errors) == (0, 0, 20)

    api.put(PATH, written("odd", 7))  # mended, and another one broken: the first stays mended
    await until(lambda: sizes(cache) == {"odd": 7, "fine": 19})
    assert unreadable(cache) == set()
    api.put(PATH, written("fine", "x"))
    await until(lambda: sizes(cache) == {"odd": 7})
    assert unreadable(cache) == {"fine"}
    api.remove(PATH, "ns", "fine")
    await until(lambda: unreadable(cache) == set())
    assert watch(cache).relists == 0
    # A watch goes on from the last change, whether that could be read or not.
    api.put(PATH, written("odd", "again"))
    await until(lambda: unreadable(cache) == {"odd"})
    assert watch(cache).version == str(api.version)


async def test_a_change_of_nobody_knows_whom_is_read_again(api: FakeApi, make: Make) -> None:
    api.groups[GROUP] = True
    api.put(PATH, written("fine"))
    cache = await served(api, make)
    await until(lambda: sizes(cache) == {"fine": 3})
    for each in api.watches[PATH]:
        each.raw(b'{"type":"MODIFIED","object":{"spec":{"minMember":"x"}}}\n')
    await until(lambda: watch(cache).relists == 1)
    assert sizes(cache) == {"fine": 3}
