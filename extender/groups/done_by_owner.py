"""Members that have succeeded and whose pods were deleted since: their owner's status counts them.

A Job that has completed index 0 does not make it again, and its pod may be gone (a garbage
collector, a cleanup policy, kubectl). Without this the replacement of a lost index 1 waits for an
index 0 that never comes (kubernetes#142330, volcano#3296).

Sources: JobStatus.succeeded (batch/v1; completedIndexes lists the same pods), replicaStatuses of
training jobs (kubeflow.org). A JobSet has its Jobs. An owner that was made anew has another uid,
and what the one before it did does not count.

A Job may make more pods at once than it has completions left of the gang's first ones: the next
take the place of those that are done, and are waited for (``awaited``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from extender.groups.dialect import Declaration
from extender.groups.owned import jobs_are_read
from extender.model.objects import GroupObject, Owner, Pod
from extender.model.owner_kinds import JOB, JOBSET_NAME, PARTLY_DONE, TRAINING_JOBS
from extender.model.snapshot import Snapshot


class CleanedUp(Struct, frozen=True):
    """Members that are done and whose pods are gone."""

    count: int = 0
    asked: tuple[str, ...] = ()
    """Names of the objects that tell."""
    awaited: int = 0
    """How many members there are or are still to be made, as far as Jobs tell: no pod that is done
    stands in for one of these."""
    notes: tuple[str, ...] = ()


def cleaned_up(
    said: Declaration, ended: Sequence[Pod], members: Sequence[Pod], snapshot: Snapshot
) -> CleanedUp:
    """Return how many members their owners count as done beyond those of ``ended``.

    Asked only where members lack. A JobSet or a training job makes pods of several templates,
    which may be of several groups: it counts as a whole where it makes as many as the gang has,
    else the Jobs that made members count.
    """
    staying = [pod for pod in members if not pod.deleting]
    least = said.min_count or 0
    if not said.counts_ended or said.problems or not staying or len(staying) >= least:
        return CleanedUp()
    namespace = staying[0].namespace
    owners = {pod.owner for pod in staying if pod.owner is not None and pod.owner.uid}
    sets = {name for pod in staying if (name := pod.labels.get(JOBSET_NAME))}
    count = 0
    whole = set()
    makes: dict[tuple[str, str], int] = {}
    over = Counter(_maker(pod) for pod in ended)
    for name in sets:
        row = snapshot.groups.get(("jobset", namespace, name))
        if row is not None and _total(row) == least and jobs_are_read(row, snapshot):
            whole.add(name)
            known = sum(pod.labels.get(JOBSET_NAME) == name for pod in ended)
            count += max(0, sum(done for _, done, _ in _of_jobset(row, over, snapshot)) - known)
            makes.update((maker, left) for maker, _, left in _of_jobset(row, over, snapshot))
    for owner in owners:
        done = _done_of(owner, namespace, least, whole, snapshot)
        count += max(0, done - sum(pod.owner == owner for pod in ended))
        job = _job(owner, namespace, snapshot)
        if job is not None:
            makes["Job", owner.name] = _left(job, over["Job", owner.name])
    there = Counter(_maker(pod) for pod in staying)
    awaited = sum(max(there[each], makes.get(each, 0)) for each in there.keys() | makes.keys())
    asked = tuple(sorted(sets | {owner.name for owner in owners}))
    return CleanedUp(count, asked, awaited, _unread(owners, namespace, snapshot))


def _unread(owners: set[Owner], namespace: str, snapshot: Snapshot) -> tuple[str, ...]:
    """Say of which Jobs nothing can be known."""
    names = sorted(owner.name for owner in owners if owner.kind == "Job")
    if not names or snapshot.group_sources & {JOB, PARTLY_DONE}:
        return ()
    told = (
        f"the status of Job {namespace}/{names[0]} is not read (list and watch jobs.batch): "
        "completed members without a pod do not count"
    )
    return (told,)


def _maker(pod: Pod) -> tuple[str, str]:
    """Return kind and name of the pod's owner."""
    return ("", "") if pod.owner is None else (pod.owner.kind, pod.owner.name)


def _left(job: GroupObject, over: int) -> int:
    """How many pods a Job is to have at once; its status may not count all ``over`` of it yet."""
    each = job.parts[0].each
    return max(0, min(each, each + job.more - max(0, over - job.done)))


def _done_of(owner: Owner, namespace: str, least: int, whole: set[str], snapshot: Snapshot) -> int:
    """How many pods of an owner have succeeded, those of JobSets in ``whole`` left out."""
    if owner.kind == "Job":
        job = _job(owner, namespace, snapshot)
        return 0 if job is None or job.of in whole else job.done
    source = owner.kind.lower()
    row = snapshot.groups.get((source, namespace, owner.name)) if source in TRAINING_JOBS else None
    if row is None or row.uid != owner.uid or _total(row) != least:
        return 0
    return sum(min(part.over, part.jobs) * part.each for part in row.parts)


def _job(owner: Owner, namespace: str, snapshot: Snapshot) -> GroupObject | None:
    """Return the Job that made a pod, however it is read; None where it is not, or made anew."""
    for source in (JOB, PARTLY_DONE) if owner.kind == "Job" else ():
        row = snapshot.groups.get((source, namespace, owner.name))
        if row is not None and row.uid == owner.uid:
            return row
    return None


def _of_jobset(
    row: GroupObject, over: Counter[tuple[str, str]], snapshot: Snapshot
) -> Iterator[tuple[tuple[str, str], int, int]]:
    """Yield of each of its Jobs who makes pods, how many have succeeded, and how many are to be
    there. One that does not exist is still to be made; with exclusive topology one is two parts."""
    absent: Counter[tuple[str, str]] = Counter()
    for part in row.parts:
        for i in range(part.jobs):
            maker = "Job", f"{row.name}-{part.name}-{i}"
            job = snapshot.groups.get((JOB, row.namespace, maker[1]))
            if job is None or job.of != row.name:
                absent[maker] += part.each
            elif part.index != "rest":
                yield maker, job.done, _left(job, over[maker])
    for maker, each in absent.items():
        yield maker, 0, each


def _total(row: GroupObject) -> int:
    """How many pods the owner makes, those that are done included."""
    return sum(part.jobs * part.each for part in row.parts)
