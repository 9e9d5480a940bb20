"""What the debug API shows in observe mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import asdict, replace

from extender.app.debug_pods import pods_named, with_status
from extender.gang.plan.assemble import dump
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.gang_status import DescribedGang, Facts, light
from extender.model.objects import DEFAULT_SCHEDULER
from extender.observe.file import LedgerFile
from extender.observe.observer import Observer
from extender.settings.settings import Settings

MOST_OPEN = 1000


class ObserveDebug:
    """Implements server.debug.DebugSource for a process that holds and evicts nothing."""

    def __init__(
        self,
        source: ClusterSource,
        watched: Callable[[], Sequence[object]],
        observer: Observer,
        file: LedgerFile,
        settings: Settings,
    ) -> None:
        self._source = source
        self._watched = watched
        self._observer = observer
        self._file = file
        self._settings = settings

    def decisions(self) -> Sequence[object]:
        """Return the decisions kept, newest first."""
        return self._observer.decisions.to_json()

    def reservations(self) -> Sequence[object]:
        """Return nothing: no seat is held."""
        return []

    def evictions(self) -> Sequence[object]:
        """Return nothing: nobody is evicted."""
        return []

    def binds(self) -> Sequence[object]:
        """Return nothing: no bind is held."""
        return []

    def limits(self) -> Mapping[str, object]:
        """Return that there are none: what is limited is acting."""
        return {"mode": self._settings.mode, "suspended": []}

    def gangs(self) -> Iterator[DescribedGang]:
        """Return the gangs as resolved and where each stands, each made as it is asked for."""
        facts = Facts((), (), (), [light(each) for each in self._observer.decisions])
        asking, resolve = self._observer.schedulers(), self._observer.resolver.resolve
        return with_status(self._source.snapshot(), resolve, asking, facts)

    def pods_named(self, name: str) -> Sequence[object]:
        """Return the unfinished pods of this name, or of this namespace/name."""
        return pods_named(name, self._source.snapshot(), self._observer.resolver.member_key)

    def watches(self) -> Sequence[object]:
        """Return what is followed of the cluster, by resource."""
        return self._watched()

    def observed(self) -> Mapping[str, object]:
        """Return the report, with the gangs that wait now."""
        waiting = sorted(self._observer.cases, key=lambda case: -case.told.weight)
        found: dict[str, object] = msgspec.to_builtins(self._file.report())
        told = [msgspec.to_builtins(case.told) for case in waiting[:MOST_OPEN]]
        return {**found, "open": told}

    def snapshot(self, generation: int | None) -> object | None:
        """Return the dump that ``plan`` replays: of now, or of a decision among the last."""
        names = self._settings.scheduler_names or (DEFAULT_SCHEDULER,)
        settings = replace(self._settings, scheduler_names=names)
        if generation is None:
            return asdict(dump(self._source.snapshot(), (), settings))
        asked = self._observer.decisions.question(generation)
        if asked is None:
            return None
        return asdict(dump(asked.snapshot, asked.holds, settings, asked.masks, asked.offered))
