"""By whose DELETE a pod goes, told apart by what a real kube-apiserver answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import pytest

from extender.gang.controller.evictor import Evictor, Removal
from extender.kube.client import KubeClient
from extender.model.plan import Victim
from extender.model.settings import EvictionSettings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod

GRACE = 60
SECONDS = 90.0
Write = Callable[[KubeClient, str], Coroutine[Any, Any, object]]


async def deleted(client: KubeClient, path: str) -> object:
    return await client.delete(path)


async def annotated(client: KubeClient, path: str) -> object:
    return await client.patch(path, {"metadata": {"annotations": {"a": "b"}}})


class Beaten(KubeClient):
    """Somebody else's request arrives right before our next DELETE."""

    write: Write | None = None
    sent = 0

    async def delete(self, path: str, **named: Any) -> dict[str, Any]:
        self.sent += 1
        write, self.write = self.write, None
        if write is not None:
            # In a context of its own: a DELETE of ours leaves once at most.
            await asyncio.create_task(write(self, path), context=Context())
            self.sent -= write is deleted
        return await super().delete(path, **named)


@pytest.mark.real
@pytest.mark.parametrize(
    ("before", "between", "untouched", "ended", "sent"),
    [
        (None, None, True, Removal.ACCEPTED, 1),
        (deleted, None, True, Removal.GONE, 0),
        (None, deleted, True, Removal.GONE, 1),
        (None, annotated, True, Removal.ACCEPTED, 2),
        # What makes all of this necessary: the API server takes it, and does not tell.
        (deleted, None, False, Removal.ACCEPTED, 1),
        (None, deleted, False, Removal.ACCEPTED, 1),
    ],
)
async def test_whose_delete_a_pod_goes_by(
    cluster: Cluster,
    before: Write | None,
    between: Write | None,
    untouched: bool,  # noqa: FBT001 - one of a table's columns
    ended: Removal,
    sent: int,
) -> None:
    (node,) = await asyncio.to_thread(cluster.nodes, 1)
    base = f"/api/v1/namespaces/{cluster.namespace}/pods"
    async with await Beaten.connect(str(cluster.control_plane.kubeconfig)) as client:
        pod = await client.create(base, make_pod("low-0", node=node, grace=GRACE))
        uid = pod["metadata"]["uid"]
        # Its status is written once more when it runs, and then no more.
        await asyncio.to_thread(cluster.client.wait_running, "low-0", timeout=SECONDS)
        if before is not None:
            await before(client, f"{base}/low-0")
        client.sent, client.write = 0, between
        victim = Victim(uid, cluster.namespace, "low-0", node, 0, grace=GRACE)
        removal = await Evictor(client, EvictionSettings()).remove(
            victim,
            budgeted=False,
            mark="preempted",
            allowed=lambda: True,
            asking=lambda: None,
            untouched=lambda: untouched,
        )
        assert (removal, client.sent) == (ended, sent)
        left = (await client.get(f"{base}/low-0"))["metadata"]
        assert left["uid"] == uid
        assert left["deletionTimestamp"]
