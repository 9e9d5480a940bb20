"""A gang of which a member is pending again goes whole; one that is half made is single victims."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.groups.formed_before import NEWCOMER_SECONDS, ran_before
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import Owner, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot

MADE = 1000.0
SETTINGS = GroupSettings(
    unit={"scheduling-plugins-label": "all"}, starts_whole={"indexed-job": True}
)


def gang(system: str, pods: list[Pod]) -> Gang:
    """The one gang of these pods; its size is 4, or not stated."""
    groups = [recorded.group(system, 4)] if system in recorded.OBJECTS else []
    if system == "jobset":
        groups = [owners.read("jobset", owners.jobset(owners.replicated("w", each=4)))]
    if system == "pod-group":
        groups = [core("g-0", min_count=4, disrupt_all=True)]
    (one,) = Resolver(SETTINGS).resolve_all(snapshot(pods, groups, settings=SETTINGS))
    assert len(one.members) == len(pods)
    return one


def member(system: str, i: int, *, made: float = MADE, started: float = 0.0) -> Pod:
    """Running when it has started."""
    if system == "jobset":
        found = owners.jobset_pod(i, "w", index=i)
        base = pod(f"g-0-{i}", labels=found["labels"], annotations=found["annotations"])
    elif system == "pod-group":
        base = pod(f"g-0-{i}", group="g-0")
    elif system == "skypilot":
        base = pod(f"g-0-{i}", labels={"skypilot-cluster-name": "g-0"})
    elif system == "indexed-job":
        index = {"batch.kubernetes.io/job-completion-index": str(i)}
        base = pod(f"g-0-{i}", labels=index, owner=Owner("Job", "g-0", "uid-g-0"))
    else:
        base = recorded.pod(system, i, 4)
    return replace(base, created=made, started=started, node=f"n{i}" if started else "")


SYSTEMS = [*recorded.EVERY, "jobset", "pod-group", "skypilot", "indexed-job"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_three_of_four_go_together_while_one_waits_anew(system: str) -> None:
    ran = [member(system, i, started=MADE + 5) for i in range(3)]
    anew = member(system, 3, made=MADE + 3600)
    one = gang(system, [*ran, anew])
    assert (one.goes_whole, one.min_count, one.missing) == (True, 4, 1)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_half_made_gang_is_single_victims(system: str) -> None:
    """Three run for an hour, and the fourth has waited all the time."""
    ran = [member(system, i, started=MADE + 5) for i in range(3)]
    waits = member(system, 3, made=MADE)
    assert not gang(system, [*ran, waits]).goes_whole


@pytest.mark.parametrize(
    ("after", "together"), [(0, False), (NEWCOMER_SECONDS - 1, False), (NEWCOMER_SECONDS, True)]
)
def test_made_within_a_minute_it_may_be_of_the_same_start(after: float, *, together: bool) -> None:
    ran = [member("kueue", i, started=MADE) for i in range(3)]
    assert gang("kueue", [*ran, member("kueue", 3, made=MADE + after)]).goes_whole is together


def test_one_that_waits_since_the_start_outweighs_one_made_anew() -> None:
    """Else who deletes a waiting pod now and then would make a gang of what never was one."""
    ran = [member("kueue", i, started=MADE) for i in range(2)]
    waits = [member("kueue", 2), member("kueue", 3, made=MADE + 3600)]
    assert not gang("kueue", [*ran, *waits]).goes_whole


def test_who_was_seated_since_goes_with_the_others() -> None:
    """Two were lost; one of them runs again and the other waits still."""
    pods = [
        *(member("kueue", i, started=MADE) for i in range(2)),
        member("kueue", 2, made=MADE + 3600, started=MADE + 3700),
        member("kueue", 3, made=MADE + 3600),
    ]
    one = gang("kueue", pods)
    assert one.goes_whole
    assert len(one.bound) == 3


def test_those_on_their_way_out_tell_nothing() -> None:
    """A gang of the same names that is made anew while its pods before end."""
    old = [replace(member("skypilot", i, started=MADE), deleting=MADE + 50) for i in range(3)]
    one = gang("skypilot", [*old, member("skypilot", 3, made=MADE + 3600)])
    assert not one.goes_whole


def test_without_a_start_nothing_is_told() -> None:
    """Bound, but its kubelet has not said since when it runs."""
    bound = [replace(member("kueue", i), node=f"n{i}") for i in range(3)]
    assert not gang("kueue", [*bound, member("kueue", 3, made=MADE + 3600)]).goes_whole


times = st.integers(1, 400).map(float)
pods_of = st.lists(
    st.tuples(times, st.none() | st.integers(0, 400).map(float), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(pods_of, times)
@settings(max_examples=300, deadline=None)
def test_time_alone_does_not_make_a_gang_of_what_is_half_made(
    drawn: list[tuple[float, float | None, bool]], later: float
) -> None:
    """Whoever has a node started after it was made. While one waits that was made before anybody
    ran, nothing that comes later, or goes, or is seated counts for those who run."""
    pods = [
        replace(
            member("kueue", i, made=made, started=0.0 if after is None else made + after + 1),
            deleting=1.0 if leaves else 0.0,
        )
        for i, (made, after, leaves) in enumerate(drawn)
    ]
    runs = [each.started for each in pods if each.started and not each.deleting]
    waits = [each.created for each in pods if not each.node and not each.deleting]
    before = ran_before(pods)
    assert before <= len(runs)
    if not waits or (runs and min(waits) < min(runs) + NEWCOMER_SECONDS):
        assert before == 0
    newer = member("kueue", 6, made=max([*runs, *waits, 0.0]) + later)
    if waits:
        assert ran_before([*pods, newer]) == before, "one more that waits changes nothing"
    if before:
        assert gang("kueue", pods).goes_whole
