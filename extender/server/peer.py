"""The names on a caller's certificate, and until when they count."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from math import inf
from typing import Any


def names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return common names, DNS names and URIs of a verified certificate.

    ``certificate`` is what ssl's getpeercert returns; None or empty without a certificate.
    """
    if not certificate:
        return frozenset()
    common = {
        value
        for pairs in certificate.get("subject", ())
        for key, value in pairs
        if key == "commonName"
    }
    others = {
        value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI")
    }
    return frozenset(common | others)


def end_of(certificate: Mapping[str, Any] | None) -> float:
    """Return when it ends, in seconds since the epoch; infinite without a certificate."""
    if not certificate:
        return inf
    return float(ssl.cert_time_to_seconds(certificate["notAfter"]))
