"""Watch a collection in a thread and keep every event.

A test can then assert the exact set of pods that were ever evicted or deleted, by UID, even when
a pod of the same name has come back in the meantime.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

from tests.controlplane.client import PATIENCE, Client, Object, wait_for


@dataclass(frozen=True, slots=True)
class Event:
    """One watch event and when (monotonic seconds) it arrived."""

    type: str
    object: Object
    at: float

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        """UID of the object."""
        return str(self.object["metadata"]["uid"])


class Watch:
    """Every event of one kind in one namespace (``""``: all) since the watch was made."""

    def __init__(self, client: Client, kind: str = "Pod", namespace: str | None = None) -> None:
        """List once, then follow from there; what exists already counts as ADDED."""
        self._client = client
        self._kind = kind
        self._path = client.resource(kind).path(
            client.namespace if namespace is None else namespace
        )
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._stopped = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._known: dict[str, Object] = {}
        self._version = ""
        self.error: BaseException | None = None
        self.gaps = 0
        """How often the collection had to be listed again. An object that came and went in
        between is missed, any other change is not."""
        self._list()
        self._thread = threading.Thread(target=self._run, name=f"watch {kind}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return the watch itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop."""
        self.stop()

    def stop(self) -> None:
        """End the thread; the events stay readable."""
        self._stopped.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # Already closed by the other side.
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    @property
    def events(self) -> list[Event]:
        """All events so far, oldest first. A watch that has lost events raises."""
        if self.error is not None:
            raise RuntimeError(f"the watch of {self._kind} broke") from self.error
        with self._lock:
            return list(self._events)

    def deleted(self) -> dict[str, str]:
        """Objects that are gone: UID to name."""
        return {each.uid: each.name for each in self.events if each.type == "DELETED"}

    def deleting(self) -> dict[str, str]:
        """Objects somebody asked to delete, gone or not: UID to name."""
        return {
            each.uid: each.name
            for each in self.events
            if each.type == "DELETED" or each.object["metadata"].get("deletionTimestamp")
        }

    def disrupted(self) -> dict[str, str]:
        """Pods that ever carried the condition DisruptionTarget: UID to name."""
        return {each.uid: each.name for each in self.events if _is_disrupted(each.object)}

    def of(self, uid: str) -> list[Event]:
        """The history of one object."""
        return [each for each in self.events if each.uid == uid]

    def wait_for(
        self, predicate: Callable[[Event], bool], timeout: float = PATIENCE, what: str = ""
    ) -> Event:
        """Wait for an event (past ones count) and return the first that fits."""
        found = wait_for(
            lambda: next((each for each in self.events if predicate(each)), None), timeout, what
        )
        assert found is not None
        return found

    def settle(self, quiet: float = 1.0, timeout: float = PATIENCE) -> None:
        """Wait until nothing has happened for a while, before asserting that nothing will."""
        deadline = time.monotonic() + timeout
        while True:
            events = self.events
            seen = len(events)
            time.sleep(quiet)
            if len(self.events) == seen:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._kind} events do not settle: {events[-1]}")

    def _run(self) -> None:
        """Follow the collection, reconnecting where the server ends a watch as usual."""
        try:
            while not self._stopped.is_set():
                self._follow()
        except BaseException as problem:
            if not self._stopped.is_set():
                self.error = problem

    def _follow(self) -> None:
        """One watch request, until it ends."""
        query: dict[str, Any] = {"watch": 1, "resourceVersion": self._version}
        query["allowWatchBookmarks"] = "true"
        connection = self._connection = self._client.connect(timeout=None)
        try:
            connection.request(
                "GET", f"{self._path}?{urlencode(query)}", headers=self._client.headers()
            )
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"watch: {response.status} {response.read().decode()}")
            while line := response.readline():
                self._take(json.loads(line))
        except (OSError, http.client.HTTPException):
            # The API server was restarted, perhaps. The next watch resumes where this one ended.
            self._stopped.wait(0.2)
        finally:
            connection.close()

    def _take(self, event: Object) -> None:
        """Store one event and remember how far we are."""
        if event["type"] == "ERROR":
            if event["object"].get("code") != http.client.GONE:
                raise RuntimeError(f"watch: {event['object']}")
            # A restarted API server has no history in its watch cache.
            self.gaps += 1
            self._list()
            return
        self._version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._store(event["type"], event["object"])

    def _list(self) -> None:
        """List the collection and store what has changed since the last event."""
        answer = self._client.request("GET", self._path)
        found = {each["metadata"]["uid"]: each for each in answer["items"]}
        for uid in self._known.keys() - found.keys():
            self._store("DELETED", self._known[uid])
        for uid, each in found.items():
            known = self._known.get(uid)
            if known is None:
                self._store("ADDED", each)
            elif known["metadata"]["resourceVersion"] != each["metadata"]["resourceVersion"]:
                self._store("MODIFIED", each)
        self._version = answer["metadata"]["resourceVersion"]

    def _store(self, kind: str, each: Object) -> None:
        """Append an event."""
        uid = each["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = each
        with self._lock:
            self._events.append(Event(kind, each, time.monotonic()))


def _is_disrupted(pod: Object) -> bool:
    """Whether a pod has been marked as the victim of a disruption."""
    return any(
        each["type"] == "DisruptionTarget" and each["status"] == "True"
        for each in pod.get("status", {}).get("conditions") or ()
    )
