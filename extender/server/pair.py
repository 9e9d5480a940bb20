"""Is this certificate good now, and until when?

Python's ssl shows the contents of a certificate only after a handshake that verified it. So one is
made, in memory, with a caller that trusts this certificate and nothing else: it fails on one that
has expired, is not valid yet or is not meant for servers, as every caller's would.
"""

from __future__ import annotations

import ssl

from extender.model.errors import InvalidInput

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
