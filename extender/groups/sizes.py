"""The size of a gang where its pods state it themselves: a number in a label or an annotation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from extender.groups.dialect import Declaration, unknown_size
from extender.model.gang import GangPart
from extender.model.names import MOST_NAME, quoted
from extender.model.objects import Pod
from extender.model.texts import counted, some

SizePlace = Literal["label", "annotation"]
SIZE = "podgroup-extender.io/gang-size"
"""Annotation that states the size of a gang for which its makers state none."""


def stated_size(members: tuple[Pod, ...], place: SizePlace, key: str) -> Declaration:
    """Return the one size that the members agree on, or the problem.

    Pods on their way out are not asked while others are there: a gang may be made
    anew, with another size, before the last pod of the old one is gone.
    """
    stated: dict[str, Pod] = {}
    silent = 0
    for pod in staying(members):
        text = (pod.labels if place == "label" else pod.annotations).get(key)
        if text is None:
            silent += 1
        else:
            stated.setdefault(text, pod)
    if not stated:
        return Declaration(problems=(f"no pod has the {place} {key}",))
    if len(stated) > 1:
        said = some(
            [
                f"{_shown(text)} on {pod.key}"
                for text, pod in sorted(stated.items(), key=_first)[:3]
            ],
            of=len(stated),
        )
        return Declaration(problems=(f"{place} {key} differs between pods: {said}",))
    text, pod = next(iter(stated.items()))
    count = whole_number(text)
    if count is None:
        return Declaration(
            problems=(
                f"{place} {key} of pod {pod.key} is {_shown(text)}, "
                "it must be a whole number of at least 1",
            )
        )
    lack = counted(silent, "pod", "lacks", "lack")
    notes = (f"{lack} the {place} {key}",) if silent else ()
    sized = Declaration(min_count=count, notes=notes, counts_ended=True)
    return once_together(sized, members)


def made_by(members: tuple[Pod, ...], what: str) -> Declaration:
    """Return the size of a gang whose makers state none: as annotated, else what is there."""
    if any(SIZE in pod.annotations for pod in members):
        return stated_size(members, "annotation", SIZE)
    return unknown_size(members, what)


def once_together(declaration: Declaration, members: tuple[Pod, ...]) -> Declaration:
    """Return the declaration of a gang that stays one while its members finish.

    Finished pods are seen no more: a gang of which nobody waits has come together, also where
    fewer run than its size says. With one that waits it may be half made, and the size counts.
    """
    if declaration.min_count is None:
        return declaration
    return replace(
        declaration, whole_from=max(1, min(declaration.min_count, len(staying(members))))
    )


def gang_parts(
    least: Mapping[str, int], members: Iterable[Pod], parts_of: Callable[[Pod], Collection[str]]
) -> tuple[GangPart, ...]:
    """Return the parts of a gang whose size is the sum of what each of several parts needs.

    Any pods would make up the sum: three workers of a RayCluster and no head. ``least``: of each
    part by its name, 0 of one whose pods are not waited for; ``parts_of``: the names of the parts
    that a pod belongs to.
    """
    if len(least) < 2:
        return ()
    needed = {name: count for name, count in least.items() if count > 0}
    uids: dict[str, list[str]] = {name: [] for name in least}
    for pod in members:
        for name in sorted(least.keys() & parts_of(pod))[:1]:
            uids[name].append(pod.uid)
    said = {name for name, found in uids.items() if found}
    if not said or (len(needed) < 2 and said <= needed.keys()):
        return ()  # no pod says of which part it is, or all are of the only one
    return tuple(GangPart(name, frozenset(uids[name]), needed[name]) for name in sorted(needed))


ALONE = "a quorum of one: its pods need no other"


def alone(declaration: Declaration) -> Declaration:
    """Return the declaration with what a quorum of one means: pods that need no other.

    Volcano and KAI make such a group for every Deployment and every bare pod; to take
    all replicas because one is needed would be absurd, and none waits for another. Pods that
    go together by their maker (a LeaderWorkerSet's) do so still.
    """
    if declaration.min_count is None or declaration.min_count > 1 or declaration.problems:
        return declaration
    return Declaration(
        min_count=1,
        of_one=True,
        starts_whole=False,
        notes=(*declaration.notes, ALONE),
    )


def staying(members: tuple[Pod, ...]) -> Sequence[Pod]:
    """Return the members that are not on their way out; all of them when there is no other."""
    return [pod for pod in members if not pod.deleting] or members


def whole_number(text: str) -> int | None:
    """Return the number, at least 1 and at most ten digits (int32 fits), or None."""
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) >= 1:
        return int(text)
    return None


def _first(item: tuple[str, Pod]) -> str:
    return item[0]


def _shown(text: str) -> str:
    return repr(text) if len(text) <= MOST_NAME else quoted(text)
