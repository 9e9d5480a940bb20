"""Rules on the Unix socket that gRPC listens on: is there a directory in which it can be made?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from extender.cli.catalogue import broken
from extender.cli.documents import Document
from extender.cli.findings import Finding
from extender.cli.workloads import Workload, items, workloads
from extender.model.grpc_address import parse
from extender.model.settings import Settings


def socket_findings(documents: Sequence[Document], settings: Settings) -> Iterator[Finding]:
    """Findings on our pods' mounts, where ``grpc.listen`` names a socket."""
    listen = settings.grpc.listen
    path = parse(listen).path if listen else ""
    if not path:
        return
    directory = PurePosixPath(path).parent
    for each in workloads(documents):
        if each.extender is not None and not _mounted(each, each.extender, directory):
            problem = f"mounts nothing that can be written at {directory}, for grpc.listen"
            yield broken("socket-unmounted", each.place, problem)


def _mounted(workload: Workload, extender: dict[str, Any], directory: PurePosixPath) -> bool:
    """Whether the directory is there and can be written; an emptyDir has none below its own."""
    empty = {each.get("name") for each in items(workload.pod, "volumes") if "emptyDir" in each}
    for mount in items(extender, "volumeMounts"):
        place = str(mount.get("mountPath") or "")
        if not place or mount.get("readOnly") is True:
            continue
        if directory == PurePosixPath(place):
            return True
        if directory.is_relative_to(place) and mount.get("name") not in empty:
            return True
    return False
