"""Free loopback ports that stay ours until a server has bound them.

Asking the kernel for a free port and closing the socket leaves a gap in which somebody else may
get the same port. Here the socket stays bound, without listening: with ``SO_REUSEADDR`` on both
sides (Go sets it on every listener) a child can still listen there, and nobody else is given it.
"""

from __future__ import annotations

import socket


class Ports:
    """Reservations of loopback TCP ports, held until ``close``."""

    def __init__(self) -> None:
        """Start without any reservation."""
        self._held: list[socket.socket] = []

    def reserve(self) -> int:
        """Reserve one more port and return its number."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        self._held.append(holder)
        return int(holder.getsockname()[1])

    def close(self) -> None:
        """Give all ports back."""
        for holder in self._held:
            holder.close()
        self._held.clear()
