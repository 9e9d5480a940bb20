"""TLS of the gRPC port from files that change under a running process."""

from __future__ import annotations

from pathlib import Path

import grpc

from extender.model.errors import InvalidInput
from extender.server.certificates import Certificates
from extender.server.metrics import Metrics
from extender.settings.settings import ServerSettings


class Rotating:
    """Server credentials that follow their files; a pair that cannot be used is not taken.

    The files are looked at when somebody connects. Raises InvalidInput when they cannot be used at
    the start.
    """

    def __init__(self, certificate: str, key: str, authority: str, metrics: Metrics) -> None:
        self._paths = (certificate, key, authority)
        # The HTTP side's rules and its log lines; the contexts that it builds are not used.
        self._certificates = Certificates(
            ServerSettings(tls_cert_file=certificate, tls_key_file=key, client_ca_file=authority),
            metrics.reloaded,
        )
        metrics.certificate("grpc", lambda: self._certificates.expiry)

    def credentials(self) -> grpc.ServerCredentials:
        """Return what the listening port is opened with."""
        return grpc.dynamic_ssl_server_credentials(
            self._read(),
            self._newer,  # type: ignore[arg-type]  # the stub forgets None: nothing new
            require_client_authentication=bool(self._paths[2]),
        )

    def _newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what is in the files if that is new; asked at each handshake."""
        if not self._certificates.refresh():
            return None
        try:
            return self._read()
        except InvalidInput:
            return None  # replaced once more at this moment: the next handshake sees it

    def _read(self) -> grpc.ServerCertificateConfiguration:
        certificate, key, authority = self._paths
        try:
            pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
            roots = Path(authority).read_bytes() if authority else None
        except OSError as error:
            raise InvalidInput(f"{error.strerror}: {error.filename}", "grpc.tls") from None
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=roots)
