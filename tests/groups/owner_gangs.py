"""Gangs of pods and the objects that make them, as the resolver reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from extender.decode.from_json import decode_pod
from extender.gang.plan.assemble import assemble
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GroupObject, Pod
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings
from tests.groups.build import nodes_of
from tests.groups.owners import jobset_pod

RESOLVER = Resolver(GroupSettings())


def made(name: str, meta: dict[str, Any], on: str = "") -> Pod:
    spec = {"nodeName": on} if on else {}
    document = {"metadata": {"namespace": "ns", "name": name, "uid": name, **meta}, "spec": spec}
    return decode_pod(document)


def state(
    pods: Iterable[Pod], groups: Iterable[GroupObject] = (), *read_too: str, generation: int = 1
) -> Snapshot:
    pods = list(pods)
    return assemble(
        RESOLVER.member_key,
        nodes=nodes_of(pods),
        pods=pods,
        groups=groups,
        group_sources=read_too,
        now=0.0,
        generation=generation,
    )


def only(pods: Iterable[Pod], groups: Iterable[GroupObject] = (), *read_too: str) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(pods, groups, *read_too))
    assert not gang.problems
    return gang


def members(count: int, part: str = "w", *, on: bool = False, each: int = 4) -> list[Pod]:
    return [
        made(
            f"{part}-{i}",
            jobset_pod(i, part, index=i % each, job=i // each),
            f"n{i}" if on else "",
        )
        for i in range(count)
    ]
