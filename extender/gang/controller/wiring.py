"""Puts the parts that act together; serve, tests and the simulation all start here."""

from __future__ import annotations

import random as random_module

from extender.gang.controller.coordinator import Coordinator
from extender.gang.controller.notifier import Notifier
from extender.gang.controller.records import Records
from extender.gang.controller.requests import Binder, Evictor
from extender.gang.controller.rounds import Heartbeats
from extender.gang.controller.term import Term
from extender.gang.leader_election.lease import Alone, Leadership
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.runtime.signature import Signer
from extender.gang.scheduler_view.assumed_pods import BLIND_SECONDS
from extender.gang.tell.listener import Listener
from extender.gang.tell.verdicts import Verifier
from extender.groups.resolver import Resolver
from extender.kube.api import KubeApi
from extender.settings.settings import Settings


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
    listener: Listener | None = None,
    verifier: Verifier | None = None,
) -> Coordinator:
    """Return a coordinator that acts through ``client``.

    ``namespace`` is where plan records are kept, ``record_key`` what they are signed with (b"":
    they are not); ``listener`` hears of decisions, evictions and best-effort writes that failed.
    ``blind_seconds``: for how long after the start a life before may have offered nodes.
    ``verifier`` is asked before pods are evicted; None: nobody.
    """
    clocks, listener = clocks or Clocks(), listener or Listener()
    evictor = Evictor(client, settings.eviction, clocks=clocks, rng=random, listener=listener)
    binder = Binder(client, settings.bind.post_seconds, clocks=clocks, rng=random)
    return Coordinator(
        Term(
            client=client,
            source=source,
            settings=settings,
            resolver=resolver,
            records=Records(client, namespace, Signer(record_key)),
            evictor=evictor,
            notifier=Notifier(client, listener, clocks),
            binder=binder,
            leadership=leadership or Alone(),
            heartbeats=heartbeats or Heartbeats(),
            clocks=clocks,
            random=random or random_module.Random(),
            blind_seconds=blind_seconds,
            listener=listener,
            verifier=verifier,
        )
    )
