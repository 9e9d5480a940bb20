"""NodePorts: a host port can be taken once per address and protocol on a node.

Source: HostPortInfo in k8s.io/kube-scheduler/framework. The address 0.0.0.0
(also written as empty) stands for every address of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.model.objects import HostPort

_ANY = ("", "0.0.0.0")


ANY = "0.0.0.0"


def slot(wanted: HostPort) -> tuple[str, int, str]:
    """Return protocol, port and address, with the defaults filled in."""
    address = ANY if wanted.ip in _ANY else wanted.ip
    return (wanted.protocol or "TCP", wanted.port, address)


def conflict(wanted: HostPort, taken: HostPort) -> bool:
    """Tell whether two host ports cannot be on one node."""
    if wanted.port <= 0 or wanted.port != taken.port:
        return False
    if (wanted.protocol or "TCP") != (taken.protocol or "TCP"):
        return False
    return wanted.ip in _ANY or taken.ip in _ANY or wanted.ip == taken.ip


def clash(wanted: Sequence[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    """Return the first wanted port that is not free, None when all are."""
    in_use = tuple(taken)
    for port in wanted:
        if any(conflict(port, other) for other in in_use):
            return port
    return None


def why_not(wanted: Sequence[HostPort], taken: Iterable[HostPort]) -> str | None:
    """Return which host port is taken already, None when all are free."""
    port = clash(wanted, taken)
    if port is None:
        return None
    address = "" if port.ip in _ANY else f" on {port.ip}"
    return f"NodePorts: host port {port.port}/{port.protocol or 'TCP'}{address} is taken"
