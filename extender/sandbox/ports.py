"""Free loopback ports that stay reserved until a server listens on them.

A port that the kernel names and a closed socket gives back may become another socket's port. Here
the socket stays bound and does not listen. With ``SO_REUSEADDR`` on both sides a server can still
listen there; asyncio, gRPC and Go set it on every listener. No other socket gets the port.
"""

from __future__ import annotations

import socket


class Ports:
    """Reservations of loopback TCP ports, held until ``close``."""

    def __init__(self) -> None:
        """Start without any reservation."""
        self._held: list[socket.socket] = []

    def reserve(self, port: int = 0) -> int:
        """Reserve one more port, a free one for 0, and return its number. Raises OSError for one
        that is taken."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        return int(holder.getsockname()[1])

    def close(self) -> None:
        """Give all ports back."""
        for holder in self._held:
            holder.close()
        self._held.clear()
