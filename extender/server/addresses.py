"""Which addresses strangers can reach."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine's (or pod's) own processes reach a listener on ``host``.

    A name other than localhost may resolve to anything, and no name at all is every address.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
