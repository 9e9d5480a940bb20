"""Gangs of a site's own making: which label or annotation names them, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from extender.model.names import label_key_problem, label_value_problem
from extender.settings.policy import Section

MOST_SIZE = 2**31 - 1


class CustomGroup(Section, frozen=True, kw_only=True):
    """One entry of groups.custom. Exactly one of label and annotation; at most one size."""

    name: str
    """Name of the dialect."""
    label: str = ""
    """Key of the label that names the gang."""
    annotation: str = ""
    """Key of the annotation that names the gang."""
    size: int | None = None
    """Minimum number of members of every such gang."""
    size_label: str = ""
    """Key of the label that has the minimum number."""
    size_annotation: str = ""
    """Key of the annotation that has the minimum number. Without any size the pods that exist
    count."""
    unit: Literal["all", "single"] = "all"
    """all: the gang is evicted as a whole. single: pod by pod."""
    starts_whole: bool = True
    """Members wait for each other."""
    explicit: bool = False
    """true: another explicit dialect that names another gang is a conflict. false: it gives way to
    explicit dialects, and comes before those that owners imply."""


def custom_problems(groups: Iterable[CustomGroup], taken: Iterable[str]) -> list[str]:
    """Return what is wrong with groups.custom, in words; ``taken`` names are others'."""
    wrong: list[str] = []
    names = set(taken)
    for place, group in enumerate(groups):
        where = f"groups.custom[{place}]"
        if not group.name or label_value_problem(group.name):
            wrong.append(f"{where}.name: a name of letters, digits and '-' is needed")
        elif group.name in names:
            wrong.append(f"{where}.name: {group.name!r} is a dialect already")
        names.add(group.name)
        if bool(group.label) == bool(group.annotation):
            wrong.append(f"{where}: exactly one of label and annotation names the group")
        sizes = [group.size is not None, bool(group.size_label), bool(group.size_annotation)]
        if sum(sizes) > 1:
            wrong.append(f"{where}: at most one of size, sizeLabel and sizeAnnotation")
        if group.size is not None and not 1 <= group.size <= MOST_SIZE:
            wrong.append(f"{where}.size must be 1..{MOST_SIZE}")
        keys = {
            "label": group.label,
            "annotation": group.annotation,
            "sizeLabel": group.size_label,
            "sizeAnnotation": group.size_annotation,
        }
        wrong += [
            f"{where}.{field}: {why}"
            for field, key in keys.items()
            if key and (why := label_key_problem(key))
        ]
    return wrong


def custom_annotations(groups: Iterable[CustomGroup]) -> frozenset[str]:
    """Return the annotation keys that these groups are read from."""
    return frozenset(
        key for group in groups for key in (group.annotation, group.size_annotation) if key
    )
