"""TLS from files that change under a running process.

Certificates are rotated by replacing the files (cert-manager, a mounted Secret).
Every handshake is given the newest context that could be built; a half-written
pair keeps the previous one in use.
"""

from __future__ import annotations

import asyncio
import os
import ssl

from structlog import get_logger

from extender.model.errors import InvalidInput
from extender.model.settings import ServerSettings

Signature = tuple[tuple[int, int, int], ...]


class Certificates:
    """The server's certificate and the authority of its callers.

    ``context`` goes to the listening socket and stays; what a handshake uses is
    swapped in when the client's hello arrives. A fresh context (instead of one
    loaded again) also forgets an authority that was taken out of the file.
    Raises InvalidInput when the files cannot be used at start.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._seen = self._signature()
        self._current = self._build()
        self._refused: Signature | None = None
        self.context = self._build()
        self.context.sni_callback = self._swap

    def refresh(self) -> bool:
        """Take the files in when they changed; return whether new ones are in use."""
        try:
            signature = self._signature()
            if signature == self._seen or signature == self._refused:
                return False
            self._refused = signature
            self._current = self._build()
        except InvalidInput as error:
            get_logger().error("certificate not reloaded, keeping the old one", error=str(error))
            return False
        self._seen, self._refused = signature, None
        get_logger().info("certificate reloaded", file=self._settings.tls_cert_file)
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

    def _build(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session would skip the check of the caller's certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
        except (OSError, ssl.SSLError) as error:
            files = f"{settings.tls_cert_file} and {settings.tls_key_file}"
            raise InvalidInput(f"{files}: {error}", "server.tlsCertFile") from None
        if settings.client_ca_file:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(settings.client_ca_file)
            except (OSError, ssl.SSLError) as error:
                where = "server.clientCaFile"
                raise InvalidInput(f"{settings.client_ca_file}: {error}", where) from None
        return context
