"""What stands where the kubelets' servers would be: it takes connections and says nothing.

With it a client that wants to run something in a pod waits, as it does on a slow node. Closed, the
connections end and new ones are refused: the client is told at once that it cannot.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.controlplane.client import Client


class SilentKubelet:
    """A port on 127.0.0.1 that every node of a cluster names as its kubelet's."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._kept: list[socket.socket] = []
        self.asked = threading.Event()
        """Somebody wants something of a node."""
        threading.Thread(target=self._take, name="silent kubelet", daemon=True).start()

    def _take(self) -> None:
        with contextlib.suppress(OSError):  # Closed.
            while True:
                connection, _ = self._listener.accept()
                self._kept.append(connection)
                self.asked.set()

    def named_by(self, client: Client) -> None:
        """Let all nodes have their kubelet here; they are Ready by then."""
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        }
        for node in client.list("Node", ""):
            name = node["metadata"]["name"]
            client.patch("Node", name, {"status": status}, "", subresource="status")

    def close(self) -> None:
        """End all connections and take no more."""
        with contextlib.suppress(OSError):
            # Wakes the thread, which a mere close would not.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._kept:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
