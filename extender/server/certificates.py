"""TLS from files that change under a running process, and the names on a caller's certificate.

Certificates are rotated by replacing the files (cert-manager, a mounted Secret).
Every handshake is given the newest context that could be built. A pair that is
half-written, does not match, has expired or is not valid yet is no improvement on
the one in use, which is kept.

Python's ssl shows the contents of a certificate only after a handshake that verified it. So one is
made, in memory, with a caller that trusts this certificate and nothing else: it fails on one that
has expired, is not valid yet or is not meant for servers, as every caller's would.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any

from structlog import get_logger

from extender.model.errors import InvalidInput
from extender.settings.settings import ServerSettings

Signature = tuple[tuple[int, int, int], ...]


class Certificates:
    """The server's certificate and the authority of its callers.

    ``context`` goes to the verbs' listening socket and stays (``health_context`` to that of
    health, which asks for no certificate: a kubelet has none); what a handshake uses is
    swapped in when the client's hello arrives. A fresh context (instead of one
    loaded again) also forgets an authority that was taken out of the file.
    ``expiry`` is when the certificate in use ends, in seconds since the epoch. ``reloaded`` is
    told "taken" or "refused" once for each change of the files. Raises InvalidInput when the
    files cannot be used at start.
    """

    def __init__(
        self, settings: ServerSettings, reloaded: Callable[[str], None] = lambda result: None
    ) -> None:
        self._settings = settings
        self._reloaded = reloaded
        self._seen = self._signature()
        self._current, self.expiry = self._build()
        self._health, _ = self._build(callers=False)
        self._refused: Signature | None = None
        self.context, _ = self._build()
        self.context.sni_callback = self._swap
        self.health_context, _ = self._build(callers=False)
        self.health_context.sni_callback = self._swap_health

    def refresh(self) -> bool:
        """Take the files in when they changed; return whether new ones are in use."""
        signature: Signature = ()
        try:
            signature = self._signature()
            if signature == self._seen:
                return False
            # A pair that is not valid yet becomes so without a change: each is tried again.
            current, expiry = self._build()
            health, _ = self._build(callers=False)
        except InvalidInput as error:
            if signature != self._refused:
                self._refused = signature
                self._reloaded("refused")
                get_logger().error(
                    "certificate not reloaded, keeping the old one",
                    error=str(error),
                    old_expires=_date(self.expiry),
                )
            return False
        self._current, self._health, self.expiry = current, health, expiry
        self._seen, self._refused = signature, None
        self._reloaded("taken")
        get_logger().info(
            "certificate reloaded", file=self._settings.tls_cert_file, expires=_date(expiry)
        )
        return True

    async def watch(self, seconds: float) -> None:
        """Look at the files every ``seconds`` until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            self.refresh()

    def _swap(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _signature(self) -> Signature:
        """Return what changes when a file does; follows the symlinks of a mounted Secret."""
        settings = self._settings
        paths = (settings.tls_cert_file, settings.tls_key_file, settings.client_ca_file)
        found = []
        for path in filter(None, paths):
            try:
                stat = os.stat(path)
            except OSError as error:
                raise InvalidInput(f"{error.strerror}: {path}", "server.tls") from None
            found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        return tuple(found)

    def _swap_health(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._health

    def _build(self, *, callers: bool = True) -> tuple[ssl.SSLContext, float]:
        """Return a context and when its certificate ends; ``callers``: ask for theirs."""
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session would skip the check of the caller's certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        try:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
        except (OSError, ssl.SSLError) as error:
            files = f"{settings.tls_cert_file} and {settings.tls_key_file}"
            raise InvalidInput(f"{files}: {error}", "server.tlsCertFile") from None
        expiry = expiry_of(context, settings.tls_cert_file)
        if settings.client_ca_file and callers:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(settings.client_ca_file)
            except (OSError, ssl.SSLError) as error:
                where = "server.clientCaFile"
                raise InvalidInput(f"{settings.client_ca_file}: {error}", where) from None
        return context, expiry


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
ROUNDS = 10
"""Messages each way; a handshake takes two."""


def expiry_of(server: ssl.SSLContext, cert_file: str) -> float:
    """Return when the certificate of a server's context ends, in seconds since the epoch.

    ``cert_file`` is what the context was loaded from. Raises InvalidInput when the certificate
    is not valid at this moment. The context must not ask for a caller's certificate yet.
    """
    where = "server.tlsCertFile"
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cadata=_first(cert_file))
        certificate = _handshake(server, client)
    except ssl.SSLCertVerificationError as error:
        raise InvalidInput(f"{cert_file}: {error.verify_message}", where) from None
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InvalidInput(f"{cert_file}: {error}", where) from None
    return float(ssl.cert_time_to_seconds(certificate["notAfter"]))


def _first(path: str) -> str:
    """Return the server's own certificate of a file that may hold its chain as well."""
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read()
    begin = text.index(BEGIN)
    return text[begin : text.index(END, begin) + len(END)]


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, str]:
    """Let both talk through memory; return the certificate that the client verified."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(to_client, to_server)
    answerer = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(ROUNDS):
        done = _step(caller)
        if _step(answerer) and done:
            return dict(caller.getpeercert() or {})  # type: ignore[arg-type]
    raise ssl.SSLError("the handshake does not end")


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


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
