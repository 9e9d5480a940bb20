"""Members that have succeeded count for a gang that states its size, in place of those that lack.

Kueue (runnableOrSucceededPods) and Volcano (ReadyTaskNum) count them too. A gang of four of which
one is done is three that run together, and a fourth that is lost then is one of three.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import Owner, Pod
from extender.settings.settings import GroupSettings
from tests.groups import recorded
from tests.groups.build import core, pod, snapshot

MADE = 1000.0
SETTINGS = GroupSettings(unit={"scheduling-plugins": "all", "scheduling-plugins-label": "all"})
JOB = Owner("Job", "j", "uid-j")
STATED = ["kueue", "koordinator", "scheduling-plugins-label", "yunikorn"]
"""Systems whose pods state the size."""
OBJECTS = ["volcano", "kai", "koordinator-pod-group", "pod-group", "scheduling-plugins"]
"""Systems whose PodGroup does."""


def member(
    system: str,
    i: int,
    *,
    made: float = MADE,
    started: float = 0.0,
    phase: str = "Running",
    owner: Owner | None = None,
) -> Pod:
    """On a node when it has started."""
    if system == "pod-group":
        base = pod(f"g-0-{i}", group="g-0")
    elif system == "scheduling-plugins":
        base = pod(f"g-0-{i}", labels={"scheduling.x-k8s.io/pod-group": "g-0"})
    else:
        base = recorded.pod(system, i, 4)
    node = f"n{i}" if started else ""
    return replace(
        base, created=made, started=started, node=node, phase=phase, owner=owner or base.owner
    )


def succeeded(system: str, i: int, *, made: float = MADE, owner: Owner | None = None) -> Pod:
    return member(system, i, made=made, started=made + 5, phase="Succeeded", owner=owner)


def gang(system: str, pods: list[Pod]) -> Gang:
    """The one gang of these pods; its size is 4."""
    groups = [recorded.group(system, 4)] if system in recorded.OBJECTS else []
    if system == "pod-group":
        groups = [core("g-0", min_count=4, disrupt_all=True)]
    if system == "scheduling-plugins":
        groups = [core("g-0", min_count=4, source="scheduling-plugins")]
    (one,) = Resolver(SETTINGS).resolve_all(snapshot(pods, groups, settings=SETTINGS))
    return one


@pytest.mark.parametrize("system", [*STATED, *OBJECTS])
def test_those_who_run_beside_one_that_is_done_go_together(system: str) -> None:
    runs = [member(system, i, started=MADE + 5) for i in range(3)]
    one = gang(system, [*runs, succeeded(system, 3)])
    assert (one.goes_whole, one.missing, len(one.members)) == (True, 0, 3)
    assert any("1 member has succeeded" in note for note in one.notes)


@pytest.mark.parametrize("system", OBJECTS)
def test_a_gang_that_never_came_together_is_single_victims(system: str) -> None:
    """Three of four are there and nobody has succeeded: the letter of the quorum."""
    runs = [member(system, i, started=MADE + 5) for i in range(3)]
    assert not gang(system, runs).goes_whole


@pytest.mark.parametrize("system", [*STATED, *OBJECTS])
def test_one_that_is_made_anew_waits_for_nobody_who_is_done(system: str) -> None:
    runs = [member(system, i, started=MADE + 5) for i in range(2)]
    anew = member(system, 2, made=MADE + 3600)
    one = gang(system, [*runs, anew, succeeded(system, 3)])
    assert (one.complete, one.missing, one.goes_whole) == (True, 1, True)


@pytest.mark.parametrize("system", [*STATED, *OBJECTS])
def test_all_that_are_made_anew_start_without_the_one_that_is_done(system: str) -> None:
    """They were evicted whole, and their controller makes three pods, not four."""
    anew = [member(system, i, made=MADE + 3600, owner=JOB) for i in range(3)]
    one = gang(system, [*anew, succeeded(system, 3, owner=JOB)])
    assert (one.complete, one.missing) == (True, 3)


def test_kueue_counts_its_group_whoever_made_the_pods() -> None:
    """Its groups are of plain pods, and one of a finished group does not come back."""
    anew = [member("kueue", i, made=MADE + 3600) for i in range(3)]
    assert gang("kueue", [*anew, succeeded("kueue", 3)]).missing == 3


@pytest.mark.parametrize("system", OBJECTS)
def test_pods_of_a_run_before_do_not_count(system: str) -> None:
    """A group that is used again, every night: its four of last night have succeeded."""
    before = [replace(succeeded(system, i), owner=None) for i in range(4)]
    new = [replace(member(system, 4 + i, made=MADE + 86400), owner=None) for i in range(2)]
    one = gang(system, [*before, *new])
    assert (one.complete, one.missing, one.min_count) == (False, 4, 4)
    owned = [replace(each, owner=replace(JOB, uid="uid-before")) for each in before]
    new = [replace(each, owner=JOB) for each in new]
    assert gang(system, [*owned, *new]).missing == 4


@pytest.mark.parametrize("system", [*STATED, *OBJECTS])
def test_they_stand_in_for_who_lacks_and_for_nobody_who_is_there(system: str) -> None:
    """A Job of 100 completions, four at a time: 50 are done, and four are to start together."""
    done = [succeeded(system, 10 + i, owner=JOB) for i in range(50)]
    anew = [member(system, i, made=MADE + 3600, owner=JOB) for i in range(4)]
    assert gang(system, [*done, *anew]).missing == 4


def test_a_gang_of_which_some_are_done_settles_before_it_is_planned() -> None:
    """Else the first pod that its controller makes anew would be all that is waited for."""
    one = gang("volcano", [member("volcano", 0, owner=JOB), succeeded("volcano", 1, owner=JOB)])
    assert one.settles
    assert not gang("volcano", [member("volcano", i) for i in range(4)]).settles


def test_failed_pods_do_not_count() -> None:
    runs = [member("volcano", i, started=MADE + 5) for i in range(3)]
    failed = replace(succeeded("volcano", 3), phase="Failed")
    one = gang("volcano", [*runs, failed])
    assert (one.goes_whole, one.missing) == (False, 1)


def test_a_part_of_which_a_pod_is_done_lacks_it_no_more() -> None:
    """Volcano's CheckTaskReady counts who has succeeded, by task."""
    made = [recorded.PARTS["volcano-tasks"](i, 4, "g-0") for i in range(4)]
    ps, *workers = [
        replace(pod(f"g-0-{i}", annotations=each["annotations"]), created=MADE)
        for i, each in enumerate(made)
    ]
    workers = [
        replace(each, node=f"n{i}", started=MADE + 5, phase="Running")
        for i, each in enumerate(workers)
    ]
    done = replace(ps, node="n9", started=MADE + 5, phase="Succeeded")
    group = decode_group("volcano", recorded.parts_document("volcano-tasks", 4))
    (one,) = Resolver(SETTINGS).resolve_all(snapshot([done, *workers], [group], settings=SETTINGS))
    assert (one.goes_whole, one.missing, one.lacks) == (True, 0, (0,))
