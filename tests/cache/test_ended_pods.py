"""Members that have succeeded, by name: who has the name of one is in its place."""

from __future__ import annotations

from msgspec.structs import replace

from extender.cache.ended_pods import EndedMembers
from extender.cache.feed import Feed
from extender.cache.stats import CacheStats
from extender.model.objects import GangKey, Pod

KEY = GangKey("pod-group", "ns", "g")
DONE = Pod(uid="u1", namespace="ns", name="a", phase="Succeeded", version=5)


def members() -> EndedMembers:
    held = EndedMembers(lambda pod: KEY, Feed(CacheStats()))
    held.put(DONE)
    return held


def uids(held: EndedMembers) -> list[str]:
    return [pod.uid for pod in held.view().get(KEY, ())]


def test_one_that_failed_under_its_name_is_in_its_place() -> None:
    held = members()
    held.put(replace(DONE, uid="u2", phase="Failed", version=6))
    assert uids(held) == []


def test_one_that_succeeded_under_its_name_is_in_its_place() -> None:
    held = members()
    held.put(replace(DONE, uid="u2", version=6))
    assert uids(held) == ["u2"]


def test_old_news_of_one_before_changes_nothing_unless_all_is_read_again() -> None:
    for phase in ("Failed", "Succeeded"):
        held = members()
        before = replace(DONE, uid="u0", phase=phase, version=4)
        held.put(before)
        assert uids(held) == ["u1"]
        held.put(before, force=True)
        assert uids(held) == (["u0"] if phase == "Succeeded" else [])
