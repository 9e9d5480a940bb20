"""Puts the parts that act together; serve, tests and the simulation all start here."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable

import structlog

from extender.gang.controller.binder import Binder
from extender.gang.controller.coordinator import Coordinator
from extender.gang.controller.evictor import Evictor, Removal
from extender.gang.controller.heartbeats import Heartbeats
from extender.gang.controller.notifier import Notifier
from extender.gang.controller.records import Records
from extender.gang.controller.term import Term
from extender.gang.core.signature import Signer
from extender.gang.fairness.suspensions import SuspensionStore
from extender.gang.leader_election.leadership import Alone, Leadership
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.scheduler_view.assumed_pods import BLIND_SECONDS
from extender.gang.tell.decisions import Decision
from extender.groups.resolver import Resolver
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError
from extender.model.settings import Settings

log = structlog.get_logger("gang")


def logged(what: str, error: ApiError) -> None:
    """Tell the log of a best-effort write that did not work."""
    log.warning("not done", what=what, error=str(error))


def coordinate(
    client: KubeApi,
    source: ClusterSource,
    settings: Settings,
    resolver: Resolver,
    namespace: str,
    *,
    record_key: bytes = b"",
    clocks: Clocks | None = None,
    random: random_module.Random | None = None,
    leadership: Leadership | None = None,
    heartbeats: Heartbeats | None = None,
    blind_seconds: float = BLIND_SECONDS,
    decided: Callable[[Decision], None] = lambda decision: None,
    evicted: Callable[[Removal], None] = lambda result: None,
    failed: Callable[[str, ApiError], None] = logged,
) -> Coordinator:
    """Return a coordinator that acts through ``client``.

    ``namespace`` is where plan records are kept, ``record_key`` what they are signed with (b"":
    they are not); ``evicted`` is told how each eviction ended,
    ``failed`` of each best-effort write that did not work.
    ``blind_seconds``: for how long after the start a life before may have offered nodes.
    """
    clocks = clocks or Clocks()
    evictor = Evictor(client, settings.eviction, clocks=clocks, rng=random, ended=evicted)
    binder = Binder(client, settings.bind.post_seconds, clocks=clocks, rng=random)
    return Coordinator(
        Term(
            source=source,
            settings=settings,
            resolver=resolver,
            records=Records(client, namespace, Signer(record_key)),
            evictor=evictor,
            notifier=Notifier(client, failed, clocks),
            binder=binder,
            leadership=leadership or Alone(),
            heartbeats=heartbeats or Heartbeats(),
            clocks=clocks,
            random=random or random_module.Random(),
            blind_seconds=blind_seconds,
            decided=decided,
            suspended=SuspensionStore(client, namespace),
            evicted=client,
            conditions=client if settings.groups.conditions else None,
            failed=failed,
        )
    )
