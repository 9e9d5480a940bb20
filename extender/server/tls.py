"""TLS from files that change under a running process.

Certificates are rotated by replacing the files (cert-manager, a mounted Secret).
Every handshake is given the newest context that could be built. A pair that is
half-written, does not match, has expired or is not valid yet is no improvement on
the one in use, which is kept.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

from structlog import get_logger

from extender.model.errors import InvalidInput
from extender.server.pair import expiry_of
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
