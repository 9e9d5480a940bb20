"""Connections that notice when their other end is gone.

A watch of a quiet resource brings nothing for a minute, so silence says nothing. When the
other end has vanished without a word (a node without power, a NAT entry forgotten) nothing
ever comes again, and Linux would say so after two hours. client-go pings over HTTP/2
(30 s and 15 s); over HTTP/1.1 the kernel's keep-alive does the same, sooner.
"""

from __future__ import annotations

import socket
from typing import Any

IDLE_SECONDS = 4
"""Silence after which the other end's kernel is asked for a sign of life."""
INTERVAL_SECONDS = 1
UNANSWERED_SECONDS = 5
"""Without an answer for so long, asked or sent to, the connection is broken: ETIMEDOUT."""

_OPTIONS = (
    ("TCP_KEEPIDLE", IDLE_SECONDS),
    ("TCP_KEEPINTVL", INTERVAL_SECONDS),
    ("TCP_KEEPCNT", UNANSWERED_SECONDS // INTERVAL_SECONDS),
    ("TCP_USER_TIMEOUT", UNANSWERED_SECONDS * 1000),
)


def watchful(address: Any) -> socket.socket:
    """Return a socket for one of getaddrinfo's answers; aiohttp's ``socket_factory``."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:  # not every system has each
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
