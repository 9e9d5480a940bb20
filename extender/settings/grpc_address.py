"""Where the gRPC server listens, and what such a place asks for."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

from msgspec import Struct

from extender.model.errors import InvalidInput

MOST_PATH = 107
"""Bytes of a Unix socket's path: sun_path of unix(7) less its zero byte."""
_UNIX = "unix:"


class Address(Struct, frozen=True):
    """A TCP address or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def target(self) -> str:
        """The address as gRPC spells it."""
        if self.path:
            return _UNIX + self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether only this machine (or pod) can reach it."""
        return bool(self.path) or self.host == "localhost" or ip_address(self.host).is_loopback


def parse(text: str, key: str = "grpc.listen") -> Address:
    """Return the address that ``HOST:PORT``, ``[IPv6]:PORT`` or ``unix:/path`` names. ``key`` is
    where it stands.

    Raises InvalidInput.
    """
    if text.startswith(_UNIX):
        path = text.removeprefix(_UNIX)
        if path.startswith("//"):
            path = path[2:]
        if not path.startswith("/") or len(path.encode()) > MOST_PATH:
            raise InvalidInput(
                f"{text!r} is not the path of a socket: unix:/absolute/path, at most "
                f"{MOST_PATH} bytes",
                key,
            )
        return Address(path=path)
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        if host != "localhost":
            ip_address(host)
        fine = port.isdecimal() and int(port) <= 65535
    except ValueError:
        fine = False
    if not fine:
        raise InvalidInput(
            f"{text!r} is none of IP:PORT, [IPv6]:PORT, localhost:PORT and unix:/absolute/path",
            key,
        )
    return Address(host=host, port=int(port))


def problems_of(
    listen: str, certificate: str, key: str, authority: str, names: Collection[str]
) -> list[str]:
    """Return what is wrong with listening there with these files ("" = none is given).

    A port that others can reach is served to holders of a client certificate only, and of them
    to those whose ``names`` are given.
    """
    if not listen:
        return []
    try:
        address = parse(listen)
    except InvalidInput as problem:
        return [str(problem)]
    if bool(certificate) != bool(key):
        return ["grpc.tlsCertFile and grpc.tlsKeyFile go together"]
    if authority and not certificate:
        return ["grpc.clientCaFile needs grpc.tlsCertFile"]
    checked = bool(certificate and authority) and not address.path
    if names and (not checked or not all(names)):
        return ["grpc.allowedNames needs a TCP port with clientCaFile, and no empty name"]
    if address.local or (checked and names):
        return []
    return [
        f"grpc.listen {listen} can be reached from elsewhere: callers must show a certificate "
        "(tlsCertFile, tlsKeyFile and clientCaFile, of grpc or of server) with a known name "
        "(grpc.allowedNames); or listen on 127.0.0.1 or unix:/path"
    ]


def problems_of_verifier(address: str) -> list[str]:
    """Return what is wrong with asking there ("" = nobody is asked).

    Whoever answers from elsewhere would be believed.
    """
    if not address:
        return []
    try:
        if parse(address, "verifier.address").local:
            return []
    except InvalidInput as problem:
        return [str(problem)]
    return [f"verifier.address {address} is elsewhere: it must be a loopback address or unix:/path"]
