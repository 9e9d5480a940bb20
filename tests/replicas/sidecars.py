"""Two kube-schedulers that elect a leader, each with an extender of its own beside it.

Only the kube-scheduler that leads asks its extender, over loopback; the other extender is asked
by nobody.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from extender.sandbox.ports import Ports
from tests.controlplane import commands
from tests.controlplane.build import ensure
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import Process
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config, write_scheduler_config
from tests.replicas.bed import ReplicaProcess, wait

SCHEDULER_LEASE = "kube-scheduler"


class Sidecar:
    """One kube-scheduler and its extender, as in one static pod."""

    def __init__(self, cluster: Cluster, extender: ReplicaProcess, port: int, folder: Path) -> None:
        self.extender = extender
        self.process: Process | None = None
        self._cluster = cluster
        self._port = port
        self._folder = folder

    def start_scheduler(self, election: dict[str, Any]) -> None:
        """Start kube-scheduler as a candidate."""
        plane = self._cluster.control_plane
        config = scheduler_config(self.extender.url)
        config["leaderElection"] = {"leaderElect": True, **election}
        config["podInitialBackoffSeconds"] = config["podMaxBackoffSeconds"] = 1
        name = f"{self.extender.name}-scheduler"
        path = write_scheduler_config(
            self._folder / f"{name}.json", config, plane.layout.kubeconfig("scheduler")
        )
        layout = dataclasses.replace(plane.layout, scheduler_port=self._port)
        program = ensure(plane.version)["kube-scheduler"]
        command = commands.scheduler(program, layout, path, ())
        self.process = Process(name, command, self._folder / f"{name}.log")

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()
        self.extender.stop()


def scheduler_holder(cluster: Cluster) -> str:
    """Who holds kube-scheduler's lease, "" for nobody."""
    lease = cluster.client.get_or_none("Lease", SCHEDULER_LEASE, "kube-system")
    return str((lease or {}).get("spec", {}).get("holderIdentity") or "")


@contextmanager
def sidecars(
    cluster: Cluster,
    folder: Path,
    *,
    lease: dict[str, float] | None = None,
    election: dict[str, Any] | None = None,
    serve: tuple[str, ...] = ("extender.app.main", "serve"),
) -> Iterator[tuple[Sidecar, Sidecar]]:
    """Start both; the first scheduler of the pair is the one that leads."""
    cluster.control_plane.stop_scheduler()
    grant_manifest(cluster.client)
    ports = Ports()
    settings: dict[str, Any] = {
        "seats": {"recordNamespace": cluster.namespace},
        "leadership": {"enabled": True, **(lease or {})},
    }
    pair = [
        Sidecar(
            cluster,
            ReplicaProcess(
                name,
                ports.reserve(),
                folder,
                cluster.control_plane.extender_kubeconfig,
                settings,
                serve=serve,
            ),
            ports.reserve(),
            folder,
        )
        for name in ("one", "two")
    ]
    try:
        for each in pair:
            each.extender.start()
            wait(each.extender.warm, 60, f"{each.extender.name} is warm")
            before = scheduler_holder(cluster)
            each.start_scheduler(election or {})
            if not before:
                wait(lambda: scheduler_holder(cluster) != "", 60, "a scheduler leads")
        yield pair[0], pair[1]
    finally:
        for each in pair:
            each.stop()
        cluster.client.delete("Lease", SCHEDULER_LEASE, "kube-system", missing_ok=True)
        ports.close()
