"""The place of the console's pages in the application, and who may see them.

The console is one more way to read what /debug/ shows: the same switch turns it off, and on
listeners that others reach the same review lets a bearer in, asked for RIGHT. A browser can send no
bearer token by itself: it may send one as the password of HTTP Basic, with any user name.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from extender.server.limits import ByteBudget
from extender.server.responses import Headers, Receive, Scope, Send, header

PREFIX = "/ui"
RIGHT = "/debug/ui"
"""What the API server is asked about a bearer: nonResourceURLs of /debug/* admit it."""
CHALLENGE = (b"www-authenticate", b'Basic realm="podgroup-extender, password: a token"')
MOST_HEADER = 24 * 1024


@dataclass(frozen=True)
class Visit:
    """A request from somebody who may see the pages."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Headers
    """To go along with the answer."""
    gone: Callable[[], Awaitable[None]]
    """Returns when the caller has left; while it is awaited, the answer keeps nobody busy."""
    budget: ByteBudget
    """Of bytes of questions."""


class Pages(Protocol):
    """What the console gives. Runs on the event loop."""

    async def serve(self, visit: Visit) -> None:
        """Answer a request below PREFIX."""

    def stopping(self) -> None:
        """End answers that would go on: this process stops."""


def is_page(path: str) -> bool:
    """Whether a path is the console's."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def credential(scope: Scope) -> bytes | None:
    """Return the Authorization header as a review reads it: a Basic password is a token."""
    given = header(scope, b"authorization")
    if given is None or len(given) > MOST_HEADER or given[:6].lower() != b"basic ":
        return given
    try:
        _, _, token = base64.b64decode(given[6:].strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return b"Bearer " + token


def from_browser(scope: Scope) -> bool:
    """Whether a page in a browser sends this: browsers say so with everything that they post."""
    return header(scope, b"origin") is not None or header(scope, b"sec-fetch-site") is not None


HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.%]+)\]|(?P<name>[a-z0-9.-]+))(?::[0-9]*)?", re.IGNORECASE)
"""Host and port (RFC 3986, 3.2.2), as far as a listener here can have such a name."""


def misdirected(scope: Scope) -> bool:
    """Whether the request names a host that an open listener has no name for, or none at all.

    A page of somebody else's, open in a browser on this machine, may let its own name point to
    loopback and then read what is here: such a request names that host. People name an address or
    localhost.
    """
    host = header(scope, b"host")
    if host is None and scope["http_version"] == "1.0":
        return False  # no browser's; every request of HTTP/1.1 has one (RFC 9112, 3.2)
    found = HOST.fullmatch((host or b"").decode("latin-1"))
    if found is None:
        return True
    name = (found["name"] or "").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return False
    name = name or found["six"]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False
