"""Removes, now and then, what lives before or lost answers may have left behind."""

from __future__ import annotations

from math import inf

import structlog

from extender.gang.controller.nominations import Nominations
from extender.gang.controller.record_writer import RecordWriter
from extender.gang.core.last_check import KeptGangs
from extender.gang.leader_election.leadership import Leadership
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.kube.api_errors import ApiError
from extender.model.objects import GangKey

log = structlog.get_logger("gang")

SWEEP_SECONDS = 30.0


class Sweeper:
    """Looks for records and nominations that belong to no plan."""

    def __init__(
        self,
        nominations: Nominations,
        keeper: RecordWriter,
        gangs: KeptGangs,
        source: ClusterSource,
        leadership: Leadership,
        clocks: Clocks,
    ) -> None:
        self._nominations = nominations
        self._keeper = keeper
        self._gangs = gangs
        self._source = source
        self._leadership = leadership
        self._clocks = clocks
        self._next = inf

    def begin(self) -> None:
        """Start, once the records of a life before are taken in."""
        self._next = self._clocks.monotonic() + SWEEP_SECONDS
        self._clear_nominations()

    async def round(self) -> None:
        """Look, if it is time to."""
        if self._clocks.monotonic() < self._next or not self._leadership.acts:
            return
        self._next = self._clocks.monotonic() + SWEEP_SECONDS
        self._clear_nominations()
        try:
            await self._keeper.sweep()
        except ApiError as error:
            log.warning("left plan records not looked for", error=str(error))

    def _clear_nominations(self) -> None:
        snapshot = self._source.snapshot()

        def starts_whole(key: GangKey) -> bool:
            gang = self._gangs.resolve(key, snapshot)
            return gang.starts_whole and not gang.problems

        self._nominations.clear_orphans(starts_whole, self._gangs.member_key)
