"""Traces of a gang's life, sent over OTLP/HTTP: their section of the settings."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from extender.settings.mode import OBSERVE
from extender.settings.policy import Section

PATH = "/v1/traces"
"""Of an OTLP/HTTP receiver (OpenTelemetry protocol specification, "OTLP/HTTP request")."""


class TracingSettings(Section, frozen=True, kw_only=True):
    """Where traces are sent; docs/operations.md has what is in them."""

    endpoint: str = ""
    """URL of an OTLP/HTTP receiver. Without a path /v1/traces is used. Empty: no traces."""
    headers_file: str = ""
    """File with headers for each request, one "Name: value" on a line. It is read at the start, and
    belongs into a Secret."""
    ca_file: str = ""
    """Authority of the receiver's certificate. Empty: the public ones."""
    sample_ratio: float = 1.0
    """Share of gangs that are traced."""

    @property
    def url(self) -> str:
        """The endpoint, with its path."""
        parts = _split(self.endpoint)
        return (
            self.endpoint.rstrip("/") + PATH
            if parts and parts.path in ("", "/")
            else (self.endpoint)
        )


def problems_of(tracing: TracingSettings, mode: str) -> list[str]:
    """Return what is wrong with the section, in words."""
    wrong = []
    if not 0 < tracing.sample_ratio <= 1:
        wrong.append(
            "tracing.sampleRatio must be above 0 and at most 1 (no endpoint: no traces at all)"
        )
    if not tracing.endpoint:
        if tracing.headers_file or tracing.ca_file:
            wrong.append("tracing.headersFile and tracing.caFile need tracing.endpoint")
        return wrong
    if mode == OBSERVE:
        wrong.append("tracing.endpoint needs mode: enforce: nothing is done that could be traced")
    parts = _split(tracing.endpoint)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return [*wrong, "tracing.endpoint must be a URL: http://HOST:PORT or https://HOST:PORT"]
    if parts.username or parts.password or parts.query or parts.fragment:
        wrong.append(
            "tracing.endpoint must have no user, password, query or fragment: what is secret "
            "belongs into tracing.headersFile"
        )
    if parts.scheme == "http":
        if tracing.ca_file:
            wrong.append("tracing.caFile needs an endpoint with https")
        if tracing.headers_file and not _local(parts.hostname):
            wrong.append(
                "tracing.headersFile needs an endpoint with https, or on this machine: they would "
                "cross the network unencrypted"
            )
    return wrong


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is none
    except ValueError:
        return None
    return None if any(each.isspace() for each in url) else parts


def _local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
