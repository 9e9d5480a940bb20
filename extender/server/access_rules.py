"""What a listener shows, and to whom.

Loopback is for the processes beside us: kube-scheduler, and whoever may forward a port into the
pod. Everywhere else the verbs want a certificate of a known name, and people a token that the API
server knows and allows (as kube-rbac-proxy asks).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Literal

from extender.settings.settings import ServerSettings

Exposure = Literal["open", "token", "off"]
TOKENS_NEED_TLS = "tokens are read over TLS only (server.tlsCertFile)"


@dataclass(frozen=True)
class Rules:
    """Of one listener. ``token``: to callers whom the API server allows it."""

    verbs: bool = True
    names: frozenset[str] = frozenset()
    """Callers of the verbs show a certificate with one of these; empty: nobody has to."""
    metrics: Exposure = "open"
    debug: Exposure = "open"
    encrypted: bool = False
    local: bool = False
    """Only this machine's (or pod's) own processes reach it."""


def verbs_rules(settings: ServerSettings) -> Rules:
    """Of the listener on ``host`` and ``port``."""
    return _rules(settings, settings.host, verbs=True)


def health_rules(settings: ServerSettings) -> Rules:
    """Of the listener on ``health_host`` and ``health_port``."""
    return _rules(settings, settings.health_host or settings.host, verbs=False)


def _rules(settings: ServerSettings, host: str, *, verbs: bool) -> Rules:
    local = is_loopback(host)
    metrics: Exposure = "open" if local or settings.open_metrics else "token"
    debug = debug_shown(settings, local=local)
    return Rules(
        verbs=verbs,
        names=frozenset(settings.allowed_names),
        metrics=metrics,
        debug=debug,
        encrypted=bool(settings.tls_cert_file),
        local=local,
    )


def debug_shown(settings: ServerSettings, *, local: bool) -> Exposure:
    """To whom a listener shows what the debug API knows; ``local``: only this machine calls."""
    if local:
        return "off" if settings.debug is False else "open"
    return "token" if settings.debug else "off"


def is_open(settings: ServerSettings) -> bool:
    """Whether strangers can call the verbs."""
    known = bool(settings.client_ca_file and settings.allowed_names)
    return not known and not is_loopback(settings.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine's (or pod's) own processes reach a listener on ``host``.

    A name other than localhost may resolve to anything, and no name at all is every address.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
