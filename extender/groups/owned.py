"""The size of a gang as its owner states it, where owners of this kind may be read.

Members wait for those that the owner makes at once. Parts that come once others run (a JobSet
with startupPolicy InOrder, an MPIJob's launcher) are not waited for until one of their pods
exists, and then for all of them; before that they are foreseen, as the gang's followers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from extender.groups.absent import why_absent
from extender.groups.dialect import Declaration
from extender.groups.sizes import gang_parts, made_by, staying
from extender.model.gang import GangPart
from extender.model.objects import GangKey, GroupObject, Part, Pod
from extender.model.owner_kinds import JOB, OWNER_KINDS
from extender.model.snapshot import Snapshot
from extender.model.texts import all_of, counted

MOST_JOBS = 1024
"""Jobs of a JobSet, all its parts together, that are asked one by one; larger ones are taken at
the JobSet's word. A gang is resolved between two verbs: a JobSet of 60 KB may ask for 262,144."""
MOST_FOLLOWERS = 4096
FORESEEN = "podgroup-extender.io/foreseen"
"""Label of pods that do not exist yet."""

PartsOf = Callable[[Pod], Iterable[tuple[str, str]]]
"""Of which parts a pod is: name and index (as in Part), in small letters as the operators label;
the index of those that follow the first pod of their Job is FOLLOWS and which Job that is.
Asked once a pod: an owner may have hundreds of parts that come later, and thousands of pods."""
FOLLOWS = "rest/"
"""Followers come Job by Job: those of one are there while another's first pod has no node."""


def owner_size(
    source: str,
    key: GangKey,
    name: str,
    members: tuple[Pod, ...],
    snapshot: Snapshot,
    parts_of: PartsOf,
) -> Declaration:
    """Return the size of the gang as the owner ``name`` of its namespace says.

    Else, in this order, as annotated on the pods, or what is there; the notes say so.
    """
    kind = OWNER_KINDS[source].kind
    what = f"{kind} {key.namespace}/{name}"
    if source not in snapshot.group_sources:
        return made_by(members, f"{what} is not served or must not be read, and so")
    owner = snapshot.groups.get((source, key.namespace, name))
    if owner is None:
        why = why_absent(source, key.namespace, name, snapshot)
        return made_by(members, f"{what} {why}, and so")
    if owner.parts and not any(part.jobs and part.each for part in owner.parts):
        # Its pods are on their way out, or about to be: nobody is to go for one of them.
        return _unwanted(f"{what} wants no pods: it is suspended, being deleted, or of size 0")
    here = staying(members)
    by_jobs = source == "jobset" and jobs_are_read(owner, snapshot)
    by_part, later = _awaited(owner, here, parts_of, snapshot if by_jobs else None)
    awaited = sum(by_part.values())
    ended = snapshot.ended.get(key, ())
    everybody = (*members, *ended)
    parts = gang_parts(by_part, everybody, lambda pod: {of for of, _ in parts_of(pod)})
    fewest = _fewest(owner, parts)
    if not awaited and not later:
        return _unwanted(f"{what} wants no pods: its Jobs have ended, or are of size 0")
    notes: list[str] = []
    if owner.min_count is not None and 1 <= owner.min_count < awaited:
        notes.append(f"{what} is content with {owner.min_count} of its {counted(awaited, 'pod')}")
        awaited, parts = owner.min_count, ()  # of whichever of its pods
    total = sum(not pod.deleting for pod in members)
    if source == "jobset" and not by_jobs and awaited > total and any(pod.node for pod in here):
        # Which of its pods have finished, its Jobs alone tell.
        notes.append(
            f"the Jobs of {what} are not read: of its {counted(awaited, 'pod')} some may have "
            f"finished, so {all_of(total, 'pod', 'that exists', 'that exist')} now make the gang"
        )
        awaited, parts = total, ()
    coming = sum(count for _, count in later)
    if coming:
        those = counted(coming, "more pod", f"of {what} is", f"of {what} are")
        notes.append(f"{those} made once others run")
    # A part of which no pod has a node, nor was done, has not run: no head, no RayCluster.
    over = {pod.uid for pod in ended} | {pod.uid for pod in here if pod.node}
    began = all(part.uids & over for part in parts)
    return Declaration(
        min_count=max(1, awaited),
        parts=parts,
        fewest=fewest,
        whole_from=max(1, min(awaited, total)) if began else None,
        coming=coming,
        followers=tuple(
            islice((pod for part, n in later for pod in foreseen(part, n, key)), MOST_FOLLOWERS)
        ),
        notes=tuple(notes),
    )


def _unwanted(why: str) -> Declaration:
    return Declaration(min_count=1, whole_from=1, unplanned=(why,))


def _awaited(
    owner: GroupObject, here: Iterable[Pod], parts_of: PartsOf, jobs: Snapshot | None
) -> tuple[dict[str, int], list[tuple[Part, int]]]:
    """How many pods of each part, by its name in small letters, are to be there by now, and how
    many of which parts come once others run.

    ``here``: pods that stay; ``jobs``: where the owner's Jobs are read, None without that.
    """
    awaited: dict[str, int] = {}
    later: list[tuple[Part, int]] = []
    late = any(part.later for part in owner.parts)
    begun = {of for pod in here for of in parts_of(pod)} if late else set()
    followed = _followed(begun)
    for part in owner.parts:
        left = None if jobs is None else _left(part, owner, jobs)
        there = count = _plain(part) if left is None else sum(left)
        name = part.name.lower()
        if part.later and part.index == "rest":
            there = _begun(part, left, followed.get(name, set()))
        elif part.later and (name, part.index) not in begun:
            there = 0
        awaited[name] = awaited.get(name, 0) + there
        if count > there:
            later.append((part, count - there))
    return awaited, later


def jobs_are_read(owner: GroupObject, snapshot: Snapshot) -> bool:
    """Whether a JobSet's Jobs are known, and few enough to be asked one by one."""
    # With exclusive topology the same Jobs are two parts.
    jobs = sum(part.jobs for part in owner.parts if part.index != "rest")
    return JOB in snapshot.group_sources and jobs <= MOST_JOBS


def _fewest(owner: GroupObject, parts: Sequence[GangPart]) -> tuple[GangPart, ...]:
    """Return the parts with how many pods of each the owner cannot do without."""
    least: Counter[str] = Counter()
    for part in owner.parts:
        least[part.name.lower()] += part.fewest
    return tuple(replace(part, least=least[part.name]) for part in parts if least[part.name])


def _plain(part: Part) -> int:
    """How many pods of a part there are to be, by the owner's own word."""
    return max(0, part.jobs - part.over) * part.each


def _followed(begun: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return by part in which of its Jobs there are followers; "" stands for all."""
    found: dict[str, set[str]] = {}
    for name, index in begun:
        if index.startswith(FOLLOWS):
            found.setdefault(name, set()).add(index.removeprefix(FOLLOWS))
    return found


def _begun(part: Part, left: Sequence[int] | None, jobs: set[str]) -> int:
    """How many followers there are to be in Jobs that have some, as their webhook lets them."""
    if left is None:
        most = part.jobs - part.over
        return max(0, most if "" in jobs else min(len(jobs), most)) * part.each
    return sum(count for i, count in enumerate(left) if "" in jobs or str(i) in jobs)


def _left(part: Part, owner: GroupObject, snapshot: Snapshot) -> list[int]:
    """How many pods of each Job of a JobSet's part there are to be, without finished ones."""
    each_left: list[int] = []
    for i in range(part.jobs):
        # As JobSet names them. One that does not exist is still to be made.
        job = snapshot.groups.get((JOB, owner.namespace, f"{owner.name}-{part.name}-{i}"))
        left = part.each if job is None else job.parts[0].each
        if job is not None and part.index == "first":
            left = min(1, left)
        elif job is not None and part.index == "rest":
            left = max(0, left - 1)
        each_left.append(left)
    return each_left


def foreseen(part: Part, count: int, key: GangKey) -> tuple[Pod, ...]:
    """Return pods as the template says they will be; none of a template that says nothing."""
    if not part.requests:
        return ()
    # Told apart from members by a label, so that they are a class of their own.
    labels = {**part.labels, FORESEEN: part.name}
    return tuple(
        Pod(
            uid=f"foreseen/{key}/{part.name}/{part.index}/{i}",
            namespace=key.namespace,
            name=f"{part.name}-{i} (to come)",
            labels=labels,
            requests=part.requests,
            shape=part.shape,
        )
        for i in range(min(count, MOST_FOLLOWERS))
    )
