"""Follow the API server itself (never the proxy): pods, nodes, plan records and the audit log.

Watches run in threads and survive whatever is done to the API server; what they see is handed
to a callback on the runner's event loop.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from calendar import timegm
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from extender.decode.quantity import parse_quantity
from tests.chaos.groups import GROUP_LABEL
from tests.chaos.history import SQUATTERS, PodSeen
from tests.controlplane.client import ApiError, Client, Object

Told = Callable[[str, Object, float], None]
"""Called with (ADDED, MODIFIED or DELETED; object; wall clock) in the watch's own thread."""
PAUSE = 0.2
PLAN_LABEL = "podgroup-extender.io/plan"
PART_LABEL = "podgroup-extender.io/plan-part"
GANG_ANNOTATION = "podgroup-extender.io/gang"


class Follower:
    """Lists and watches one collection for as long as the run lasts, through every outage."""

    def __init__(self, client: Client, kind: str, told: Told, namespace: str, **query: str) -> None:
        self._client = client.fork()
        self._path = client.resource(kind).path(namespace)
        self._told = told
        self._query = query
        self._known: dict[str, Object] = {}
        self._version = ""
        self._stopped = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._run, name=f"follow {kind}", daemon=True)
        self.gaps = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
            except (OSError, http.client.HTTPException, ApiError, ValueError):
                self._client.close()
                self._stopped.wait(PAUSE)

    def _list(self) -> None:
        answer = self._client.request("GET", self._path, **self._query)
        found = {each["metadata"]["uid"]: each for each in answer["items"]}
        for uid in self._known.keys() - found.keys():
            self._tell("DELETED", self._known[uid])
        for each in found.values():
            self._tell("MODIFIED", each)
        self._version = answer["metadata"]["resourceVersion"]

    def _follow(self) -> None:
        query: dict[str, Any] = {
            **self._query,
            "watch": 1,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": 240,
        }
        # A stopped API server says nothing at all, and a killed one may leave us waiting.
        connection = self._connection = self._client.connect(timeout=90)
        try:
            connection.request(
                "GET", f"{self._path}?{urlencode(query)}", headers=self._client.headers()
            )
            response = connection.getresponse()
            if response.status != 200:
                response.read()
                if response.status == http.client.GONE:
                    self._lost()
                raise ConnectionError(f"watch: {response.status}")
            while line := response.readline():
                self._take(json.loads(line))
        finally:
            connection.close()

    def _take(self, event: Object) -> None:
        if event["type"] == "ERROR":
            self._lost()
            raise ConnectionError(f"watch: {event['object'].get('message')}")
        self._version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._tell(event["type"], event["object"])

    def _lost(self) -> None:
        self._version = ""
        self.gaps += 1

    def _tell(self, kind: str, each: Object) -> None:
        uid = each["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = {"metadata": each["metadata"]}
        self._told(kind, each, time.time())


def pod_seen(pod: Object) -> PodSeen:
    """Reduce a pod to what the invariants look at."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    disrupted = conditions.get("DisruptionTarget") or {}
    return PodSeen(
        uid=meta["uid"],
        name=meta["name"],
        group=(meta.get("labels") or {}).get(GROUP_LABEL, ""),
        cpu=sum(_cpu(container) for container in spec.get("containers") or ()),
        priority=spec.get("priority") or 0,
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        deleting=bool(meta.get("deletionTimestamp")),
        nominated=status.get("nominatedNodeName") or "",
        disrupted=disrupted.get("message") or "" if disrupted.get("status") == "True" else "",
        ready=status.get("phase") == "Running" and ready.get("status") == "True",
        squats=meta.get("namespace") == SQUATTERS,
    )


def _cpu(container: Object) -> int:
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("cpu", "0")), 1000)


def node_room(node: Object) -> tuple[int, bool]:
    """A node's milli-cores, and whether kube-scheduler puts pods on it."""
    spec = node.get("spec") or {}
    closed = spec.get("unschedulable") or any(
        taint.get("effect") in ("NoSchedule", "NoExecute") for taint in spec.get("taints") or ()
    )
    cpu = parse_quantity(str((node.get("status") or {}).get("allocatable", {}).get("cpu", 0)), 1000)
    return cpu, not closed


def record_gang(record: Object) -> str:
    """Which gang a plan record is for."""
    meta = record["metadata"]
    part_of = (meta.get("labels") or {}).get(PART_LABEL)
    return part_of or str((meta.get("annotations") or {}).get(GANG_ANNOTATION, "?"))


class Removal(NamedTuple):
    """An accepted request to remove a pod."""

    at: float
    """Wall clock."""
    user: str
    name: str
    uid: str
    """"" where the request did not say."""
    asked: bool
    """Whether the Eviction API was asked."""


class AuditLog:
    """New accepted removals of pods, from the API server's audit log."""

    def __init__(self, path: Path, namespace: str) -> None:
        self._path = path
        self._namespace = namespace
        self._offset = 0

    def new(self) -> Iterator[Removal]:
        """Yield removals not yet told."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # It is still being written.
                self._offset += len(line)
                found = self._removal(line)
                if found is not None:
                    yield found

    def _removal(self, line: bytes) -> Removal | None:
        try:
            record = json.loads(line)
        except ValueError:  # Cut off by kill -9.
            return None
        about = record.get("objectRef") or {}
        status = (record.get("responseStatus") or {}).get("code", 0)
        if about.get("namespace") != self._namespace or not 200 <= status < 300:
            return None
        body = record.get("requestObject") or {}
        options = body.get("deleteOptions") or body
        if options.get("dryRun") or "dryRun=" in record.get("requestURI", ""):
            return None
        uid = (options.get("preconditions") or {}).get("uid", "")
        at = _seconds(record["requestReceivedTimestamp"])
        asked = about.get("subresource") == "eviction"
        return Removal(at, record["user"]["username"], about.get("name", ""), uid, asked)


def _seconds(stamp: str) -> float:
    """A time stamp such as 2026-01-02T03:04:05.678901Z as seconds."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")
