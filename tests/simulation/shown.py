"""How old the picture is that a process has of the cluster, as the server knows it.

The extender says itself how old its state is, and acts by that; whether it says the truth is seen
from the other side only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.watches import Stream

WATCHED = ("/api/v1/pods", "/api/v1/nodes")
"""What a picture must have."""
WHOLE = b'"k8s.io/initial-events-end":"true"'
"""In the event that ends the whole state at the beginning of a watch."""


class Shown:
    """What one process was shown."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._last: dict[str, Stream] = {}
        """Path -> the last watch that went on from the state which the process had."""
        self._listed: dict[str, float] = {}
        """Path -> when its state was listed last."""

    def listed(self, path: str) -> None:
        """Note that the whole state of a path was answered."""
        if path in WATCHED:
            self._listed[path] = self._time()

    def begins(self, path: str, stream: Stream, query: Mapping[str, str]) -> bool:
        """Note that a watch was accepted; return whether it goes on from what was shown before.

        Else the whole state comes first (see ``told``). One that has ended in the moment in which
        it was accepted shows nothing, nor does one that goes on from what is lost.
        """
        goes_on = query.get("sendInitialEvents") != "true"
        if goes_on and path in WATCHED and stream.ended_at is None and not stream.blind:
            self._last[path] = stream
        return goes_on

    def told(self, path: str, stream: Stream, lines: list[bytes]) -> bool:
        """Return whether the whole state is there with these lines."""
        whole = any(WHOLE in line for line in lines)
        if whole and path in WATCHED:
            self._last[path] = stream
        return whole

    def age(self) -> float:
        """Return for how many seconds changes may have been missed."""
        now, oldest = self._time(), 0.0
        for path, stream in self._last.items():
            if stream.ended_at is not None:
                since = max(stream.ended_at, self._listed.get(path, 0.0))
                oldest = max(oldest, now - since)
            oldest = max(oldest, now - stream.unread(now))
        return oldest
