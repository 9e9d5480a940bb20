"""Victim units of a problem, gathered from the offers of its nodes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from extender.gang.offers import Entry, Offer, plus
from extender.gang.verdicts import FREE, Verdicts
from extender.gang.victims import Candidate, ElasticCandidate
from extender.model.objects import GangKey, Pod
from extender.search.problem import Vector

Releases = tuple[tuple[int, Vector], ...]


class Gathered(Struct, frozen=True):
    """Candidates and leaving pods, each with what it releases, by uid."""

    candidates: tuple[tuple[Candidate, Releases], ...]
    leaving: tuple[tuple[Pod, Releases], ...]
    """Pods that terminate in time anyway."""
    elastic: tuple[ElasticCandidate, ...]
    """Gangs of which candidates are single pods."""


class Gatherer:
    """Takes nodes one by one; a whole gang is one candidate, wherever its pods are."""

    def __init__(self, verdicts: Verdicts, now: float, cut: int | None) -> None:
        self._verdicts = verdicts
        self._now = now
        self._cut = cut
        self._whole: dict[GangKey, dict[int, Vector]] = {}
        self._alone: dict[str, tuple[Candidate, Releases]] = {}
        self._leaving: dict[str, tuple[Pod, Releases]] = {}

    def add_node(self, index: int, offer: Offer, *, alone: bool) -> None:
        """Take the entries of the problem's node ``index``.

        ``alone``: there is one class only; where it gains no member nobody need go.
        """
        cut = self._cut
        if alone and offer.most_at(cut) == offer.now:
            return
        for entry in offer.entries:
            if cut is not None and entry.priority > cut:
                break
            self._add(entry, index)

    def add_way(self, pod: Pod, key: GangKey | None) -> None:
        """Take a pod because it is in the way, even if its room is not needed."""
        verdict, _ = self._verdicts.of_pod(pod, key, self._now)
        if (
            isinstance(verdict, int)
            and (self._cut is None or verdict <= self._cut)
            and pod.uid not in self._alone
            and pod.uid not in self._leaving
        ):
            self._add(Entry(verdict, pod, key, ()), None)

    def _add(self, entry: Entry, index: int | None) -> None:
        pod, key = entry.pod, entry.key
        releases = () if index is None else ((index, entry.amounts),)
        if entry.priority == FREE:
            self._leaving[pod.uid] = (pod, releases)
            return
        if key is not None and self._verdicts.of_gang(key, self._now).whole is not None:
            parts = self._whole.setdefault(key, {})
            if index is not None:
                before = parts.get(index)
                parts[index] = entry.amounts if before is None else plus(before, entry.amounts)
            return
        candidate = Candidate(uid=pod.uid, pods=(pod,), priority=entry.priority, gang=key)
        self._alone[pod.uid] = (candidate, releases)

    def gathered(self) -> Gathered:
        """Return everything taken so far."""
        candidates = list(self._alone.values())
        for key, parts in self._whole.items():
            whole = self._verdicts.of_gang(key, self._now).whole
            assert whole is not None
            candidates.append((whole, tuple(sorted(parts.items()))))
        keys = {unit.gang for unit, _ in self._alone.values() if unit.gang is not None}
        verdicts = [self._verdicts.of_gang(key, self._now) for key in sorted(keys)]
        return Gathered(
            tuple(sorted(candidates, key=_uid)),
            tuple(self._leaving[uid] for uid in sorted(self._leaving)),
            tuple(verdict.elastic for verdict in verdicts if verdict.elastic is not None),
        )


def _uid(entry: tuple[Candidate, Releases]) -> str:
    return entry[0].uid


def ways(blocked: Iterable[dict[str, tuple[str, ...]]]) -> set[str]:
    """Return the uids of all pods in the way of some class on some node."""
    return {uid for found in blocked for uids in found.values() for uid in uids}
