"""Rules on the connection from the plugin to the extender's gRPC: address and TLS."""

from __future__ import annotations

from collections.abc import Iterator

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.cli.plugin_profile import Args
from extender.model.grpc_address import Address, parse
from extender.model.settings import Settings
from extender.server.addresses import is_loopback

_UNIX = "unix:"


def problem_of_address(text: str) -> str:
    """What is wrong with HOST:PORT or unix:/path as gRPC's target; "" when nothing is."""
    if text.startswith(_UNIX):
        path = _path(text)
        return "" if path.startswith("/") else f"{text!r} is not unix:/absolute/path"
    host, port = _host_and_port(text)
    fine = (
        host and "/" not in host and port.isdecimal() and len(port) < 6 and 0 < int(port) <= 65535
    )
    return "" if fine else f"{text!r} is neither HOST:PORT nor unix:/absolute/path"


def link_findings(args: Args, place: str, settings: Settings) -> Iterator[Finding]:
    """Whether the address leads to grpc.listen, with the same idea of TLS."""
    where = f"{place}.address"
    unix = args.address.startswith(_UNIX)
    host, port = _host_and_port(args.address)
    if not unix and not is_loopback(host) and not args.ca_file:
        problem = f"{host} is reached over the network, without TLS"
        yield broken("plugin-plain", where, problem)
    if not settings.grpc.listen:
        yield broken("plugin-unserved", where, "grpc.listen is not set")
        return
    listens = parse(settings.grpc.listen)
    if unix or listens.path:
        if _path(args.address) != listens.path:
            yield _elsewhere(where, args, listens)
            return
    elif listens.local and not is_loopback(host):
        yield _elsewhere(where, args, listens)
    elif listens.port and int(port) != listens.port:
        problem = f"goes to port {port}, while grpc.listen has {listens.port}"
        yield broken("plugin-port", where, problem, port=listens.port)
    yield from _tls(args, place, listens, settings)


def _elsewhere(where: str, args: Args, listens: Address) -> Finding:
    problem = f"leads to {args.address}, while grpc.listen is {listens.target}"
    return broken("plugin-address", where, problem, target=listens.target)


def _tls(args: Args, place: str, listens: Address, settings: Settings) -> Iterator[Finding]:
    certificate, _, authority = settings.grpc_tls
    served = bool(certificate) and not listens.path
    where = f"{place}.caFile"
    if served and not args.ca_file:
        advice = "name the authority of the extender's certificate"
        problem = "is missing, while the extender speaks TLS"
        yield broken("plugin-tls", where, problem, advice=advice)
    elif args.ca_file and not served:
        advice = "leave caFile, certFile and keyFile out, or give the extender a certificate"
        problem = "is set, while the extender does not speak TLS there"
        yield broken("plugin-tls", where, problem, advice=advice)
    elif served and authority and not args.cert_file:
        advice = "name a certificate of that authority, whose name is in grpc.allowedNames"
        problem = "is missing, while the extender asks for a certificate"
        yield broken("plugin-tls", f"{place}.certFile", problem, advice=advice)


def _path(address: str) -> str:
    """Of a Unix socket; gRPC takes unix:/path and unix:///path."""
    if not address.startswith(_UNIX):
        return ""
    path = address.removeprefix(_UNIX)
    return path[2:] if path.startswith("//") else path


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return ("" if ":" in host else host), port
