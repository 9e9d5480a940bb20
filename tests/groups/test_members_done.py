"""Members that are done count for a gang's size, whether their pods are there still or not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.gang.incremental.gangs import Gangs
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Owner, Pod
from extender.model.owner_kinds import PARTLY_DONE
from extender.model.plan import Refusal
from extender.settings.settings import GroupSettings, Settings
from tests.gang import world
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot
from tests.groups.owner_gangs import RESOLVER, state
from tests.groups.owners import job, jobset, read, replicated

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


KEY = GangKey("pod-group", "ns", "g")
OWNER_JOB = Owner("Job", "j", "o-job-j")


def owner_member(
    i: int, owner: Owner = OWNER_JOB, *, on: str = "", done: bool = False, of: str = ""
) -> Pod:
    labels = {"jobset.sigs.k8s.io/jobset-name": of} if of else {}
    made = replace(pod(f"m{i}", group="g", owner=owner, labels=labels), node=on)
    return replace(made, phase="Succeeded", node="n9") if done else made


def owner_gang(pods: list[Pod], *groups: GroupObject, least: int = 4) -> Gang:
    return RESOLVER.resolve(KEY, state(pods, [core(min_count=least, disrupt_all=True), *groups]))


def of_job(each: int = 4, **status: object) -> GroupObject:
    return read("job", job("j", each, of="", **status))


def test_the_replacement_of_a_lost_member_waits_for_none_that_is_done() -> None:
    runs = [owner_member(i, on=f"n{i}") for i in range(2)]
    one = owner_gang([*runs, owner_member(2)], of_job(succeeded=1, completedIndexes="3"))
    assert (one.min_count, one.missing, one.complete, one.settles) == (3, 1, True, True)
    assert any("1 member has succeeded" in note for note in one.notes)


def test_one_whose_pod_is_there_still_is_counted_once() -> None:
    pods = [owner_member(0, on="n0"), owner_member(1, done=True)]
    assert owner_gang(pods, of_job(succeeded=1)).min_count == 3
    assert owner_gang(pods, of_job(succeeded=2)).min_count == 2


def test_it_stands_in_for_none_that_is_there() -> None:
    """A Job of a hundred, four at a time, of which fifty are done: four start together."""
    assert owner_gang([owner_member(i) for i in range(4)], of_job(succeeded=50)).missing == 4


def test_what_a_job_of_that_name_did_before_does_not_count() -> None:
    again = replace(OWNER_JOB, uid="another")
    assert not owner_gang([owner_member(i, again) for i in range(3)], of_job(succeeded=1)).complete


def test_failed_ones_do_not_count() -> None:
    one = owner_gang([owner_member(i) for i in range(3)], of_job(failed=1, failedIndexes="3"))
    assert not one.complete


SET = read("jobset", jobset(replicated("w", replicas=2, each=2), name="s"))
OVER = read("job", job("s-w-0", 2, of="s", succeeded=2, completedIndexes="0,1"))
HALF = read("job", job("s-w-1", 2, of="s", succeeded=0))


def of_set(i: int) -> Pod:
    return owner_member(i, Owner("Job", "s-w-1", "o-job-s-w-1"), of="s")


def test_jobs_of_a_jobset_that_have_ended_count_where_the_gang_is_all_of_it() -> None:
    assert owner_gang([of_set(0), of_set(1)], SET, OVER, HALF).min_count == 2
    assert not owner_gang([of_set(0)], SET, OVER, HALF).complete


def test_jobs_that_may_be_of_another_group_do_not_count() -> None:
    """The group is of one of its Jobs, or of some: only the Jobs that made its members tell."""
    assert owner_gang([of_set(0), of_set(1)], SET, OVER, HALF, least=3).min_count == 3
    half = read("job", job("s-w-1", 2, of="s", succeeded=1))
    assert owner_gang([of_set(0)], SET, OVER, half, least=2).min_count == 1


def test_jobs_that_a_restart_deletes_do_not_count() -> None:
    going = job("s-w-0", 2, of="s", succeeded=2)
    going["metadata"]["deletionTimestamp"] = "2026-10-01T09:00:00Z"
    assert not owner_gang([of_set(0), of_set(1)], SET, read("job", going), HALF).complete


@pytest.mark.parametrize(("least", "complete"), [(4, True), (3, False)])
def test_a_training_job_counts_where_the_gang_is_all_of_it(least: int, *, complete: bool) -> None:
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    status = {"replicaStatuses": {"Worker": {"succeeded": 1}}}
    row = read("pytorchjob", owners.document("pytorchjob", "t", spec, status=status))
    made_by = Owner("PyTorchJob", "t", "o-pytorchjob-t")
    one = owner_gang([owner_member(i, made_by) for i in range(least - 1)], row, least=least)
    assert one.complete == complete


def test_a_kept_gang_is_another_one_when_its_job_tells_more() -> None:
    """The Job is not of the gang's name."""
    gangs = Gangs(RESOLVER)
    pods, group = [owner_member(i, on=f"n{i}") for i in range(3)], core(min_count=4)
    first = state(pods, [group])
    seen = []
    for rows in ([], [of_job(succeeded=0)], [of_job(succeeded=1)]):
        now = state(pods, [group, *rows])
        gangs.renew(replace(now, members=first.members, group_sources=frozenset({"job"})))
        seen.append(gangs[KEY].missing)
    assert seen == [1, 1, 0]


def partly_done(each: int = 4, **status: object) -> GroupObject:
    return read(PARTLY_DONE, job("j", each, of="", **status))


def test_a_job_that_is_read_for_its_status_alone_tells_as_much() -> None:
    runs = [owner_member(i, on=f"n{i}") for i in range(2)]
    assert owner_gang([*runs, owner_member(2)], partly_done(succeeded=1)).min_count == 3
    again = [owner_member(i, replace(OWNER_JOB, uid="another")) for i in range(3)]
    assert not owner_gang(again, partly_done(succeeded=1)).complete


def test_a_job_that_is_read_for_its_status_alone_states_no_size() -> None:
    """An Indexed Job in no group runs index by index, and as a victim it is what runs."""
    key = GangKey("indexed-job", "ns", "j")
    index = {"batch.kubernetes.io/job-completion-index": "1"}
    pods = [replace(pod("m1", owner=OWNER_JOB, labels=index), node="n1")]
    found = [
        RESOLVER.resolve(key, state(pods, list(rows))) for rows in ((), (partly_done(succeeded=1),))
    ]
    assert found[0] == found[1]
    assert found[0].min_count == 1


def test_that_jobs_must_not_be_read_is_told() -> None:
    pods = [owner_member(i) for i in range(3)]
    groups = [core(min_count=4, disrupt_all=True)]
    for sources, told in ((frozenset[str](), True), (frozenset({PARTLY_DONE}), False)):
        now = replace(state(pods, groups), group_sources=sources)
        notes = RESOLVER.resolve(KEY, now).notes
        assert any("the status of Job ns/j is not read" in note for note in notes) == told


def of_many(succeeded: int = 50, completions: int = 100, **status: object) -> GroupObject:
    """A Job that makes four pods at once, and as many again while completions lack."""
    document = job("j", 4, of="", succeeded=succeeded, **status)
    document["spec"]["completions"] = completions
    return read("job", document)


@pytest.mark.parametrize("kept", [0, 50])
def test_pods_that_a_job_makes_still_are_waited_for(kept: int) -> None:
    """Quota holds back three of the four: evicting for the one would help no gang."""
    ended = [owner_member(10 + i, done=True) for i in range(kept)]
    one = owner_gang([*ended, owner_member(0)], of_many())
    assert (one.min_count, one.missing, one.complete) == (4, 4, False)
    assert owner_gang([*ended, *(owner_member(i) for i in range(4))], of_many()).complete


@pytest.mark.parametrize(("succeeded", "needed"), [(96, 4), (97, 3), (99, 1)])
def test_no_more_of_them_than_completions_lack(succeeded: int, needed: int) -> None:
    assert owner_gang([owner_member(0)], of_many(succeeded)).min_count == needed


def test_of_a_larger_job_as_many_as_the_group_needs() -> None:
    assert owner_gang([owner_member(0)], of_many(), least=3).min_count == 3


def test_what_has_ended_counts_before_the_status_tells_it() -> None:
    """The Job controller counts a pod some time after kubelet reported its end."""
    pods = [
        *(owner_member(i, on=f"n{i}") for i in range(2)),
        owner_member(2),
        owner_member(3, done=True),
    ]
    one = owner_gang(pods, of_job(succeeded=0))
    assert (one.min_count, one.complete) == (3, True)
    one = owner_gang([owner_member(0), owner_member(1, done=True)], of_many(50))
    assert one.min_count == 4  # another takes its place


def test_a_running_gang_whose_job_makes_one_more_goes_whole() -> None:
    """Four ran together, one is done, and the one that takes its place does not exist yet."""
    for ended in ([], [owner_member(9, done=True)]):
        pods = [*(owner_member(i, on=f"n{i}") for i in range(3)), *ended]
        assert owner_gang(pods, of_many(1)).goes_whole
    assert not owner_gang(pods[:3], of_many(0)).goes_whole


def test_jobs_of_a_jobset_that_make_more_are_waited_for() -> None:
    """Of a JobSet that is the gang also those that have no pod yet."""
    document = job("s-w-0", 2, of="s", succeeded=50)
    document["spec"]["completions"] = 100
    first = owner_member(0, Owner("Job", "s-w-0", "o-job-s-w-0"), of="s")
    one = owner_gang([first], SET, read("job", document))
    assert (one.min_count, one.complete) == (4, False)


def test_no_pod_is_evicted_for_a_part_of_what_a_job_makes() -> None:
    waits = replace(
        owner_member(0), requests=(("cpu", 3000), ("pods", 1)), priority=100, phase="Pending"
    )
    low = [world.pod(f"low{i}", on=f"n{i}") for i in range(4)]
    nodes = [world.node(f"n{i}") for i in range(4)]
    groups = [core(min_count=4, disrupt_all=True), of_many()]
    spaces: dict[str, dict[str, str]] = {"default": {}, "ns": {}}
    before = world.snapshot(nodes, [*low, waits], groups, namespaces=spaces)
    now = replace(before, group_sources=frozenset({"core", "job"}))
    question = GangQuestion(RESOLVER.resolve(KEY, now), now)
    answer = Planner(Settings(), RESOLVER).plan(question)
    assert isinstance(answer, Refusal)
    assert "1 of 4" in answer.message
