"""Where the API server is and how to prove who we are.

The ``kubernetes`` package reads kubeconfig files and runs exec plugins; nothing else of it
is used. Importing ``kubernetes.config`` costs about 0.2 s and 35 MB, so it is imported only
for a kubeconfig: a pod's service account is three small files and two variables.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from extender.model.errors import InvalidInput

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts a pod's token, its namespace and the API server's CA certificates."""

OUTPUT = re.compile(r"(?<=process returned )(-?\d+).*", re.DOTALL)
"""What the kubernetes package says of a plugin that failed: exit status, and then its command line
and its standard error, which may be secret."""
MOST_TOKEN = 64 * 1024
"""Characters of a token: more than any header may have."""


class HeaderSource(Protocol):
    """Gives the Authorization header for the next request, None for no header."""

    async def __call__(self) -> str | None:
        """Return the header; called before each request, so it must be cheap when unchanged."""


class Access(Struct, frozen=True):
    """One way to reach an API server."""

    server: str
    """Base URL without a trailing slash; may carry a path."""
    namespace: str = "default"
    authorization: HeaderSource | None = None
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None


class TokenFile:
    """A bearer token that something else keeps rotating in a file.

    Read anew for every request: kubelet replaces a projected token well before it
    expires, and a request with the old one would be refused.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def __call__(self) -> str | None:
        """Return the header made of the file's present content."""
        try:
            with self._path.open(encoding="utf-8") as file:
                token = file.read(MOST_TOKEN + 1).strip()
        except OSError as error:
            raise InvalidInput(f"token file {self._path}: {error.strerror}") from error
        if not token:
            raise InvalidInput(f"token file {self._path} is empty")
        if len(token) > MOST_TOKEN:
            raise InvalidInput(f"token file {self._path} has more than {MOST_TOKEN} characters")
        return _sendable(f"Bearer {token}", f"token file {self._path}")


class _Configured:
    """The header as the kubernetes package computes it (static token, exec plugin, OIDC)."""

    def __init__(self, configuration: Any, *, blocking: bool) -> None:
        self._configuration = configuration
        self._blocking = blocking

    async def __call__(self) -> str | None:
        # A plugin that renews an expired credential is a subprocess or an HTTP call.
        return await asyncio.to_thread(self._read) if self._blocking else self._read()

    def _read(self) -> str | None:
        try:
            header: str | None = self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception as error:  # of many types, as in _from_kubeconfig
            raise InvalidInput(f"credentials: {_without_output(str(error))}") from None
        return header and _sendable(header, "the token")


def _without_output(text: str) -> str:
    return OUTPUT.sub(r"\1", text)


def _tells_no_output(record: logging.LogRecord) -> bool:
    """Cut what the kubernetes package logs of an exec plugin, by the root logger; keep the rest."""
    if record.module == "kube_config":
        record.msg, record.args = _without_output(record.getMessage()), ()
    return True


def _sendable(header: str, what: str) -> str:
    """Return a header that can be sent as it is. Raises InvalidInput, which does not show it."""
    if not (header.isascii() and header.isprintable()):
        raise InvalidInput(f"{what} holds a character that no header may have")
    return header


def find_access(kubeconfig: str | None, context: str | None, server: str | None) -> Access:
    """Return how to reach the API server that the arguments or the surroundings name.

    In this order: ``kubeconfig`` when given; ``server`` alone without credentials; the
    service account when running in a cluster; $KUBECONFIG or ~/.kube/config. ``server``
    together with ``kubeconfig`` replaces only the address. Raises InvalidInput that
    names the file and what is wrong with it.
    """
    if kubeconfig is None and server is not None:
        return Access(server=_checked(server), tls=_plain_tls(server))
    if kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return _in_cluster()
    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    return _from_kubeconfig(path, context, server)


def _checked(server: str) -> str:
    _check_url("server", server)
    parts = urlsplit(server)
    if "@" in parts.netloc or "?" in server or "#" in server:
        raise InvalidInput(
            "server must have no user, password, query or fragment: it is written to the log, and "
            "credentials belong into the kubeconfig's user"
        )
    return server.rstrip("/")


def _check_url(what: str, url: str) -> None:
    """Raise InvalidInput unless requests can be sent there. The URL may be secret in part."""
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{what} must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise InvalidInput(f"{what} must be a URL: http://HOST:PORT or https://HOST:PORT")


def _plain_tls(server: str) -> ssl.SSLContext | None:
    return ssl.create_default_context() if server.startswith("https://") else None


def _in_cluster() -> Access:
    """Return what rest.InClusterConfig of client-go would: variables, token and CA file."""
    what = "service account of this pod"
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT")
    if not port:
        raise InvalidInput(f"{what}: KUBERNETES_SERVICE_PORT is not set")
    token, authority = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    try:
        if not token.read_text(encoding="utf-8").strip():
            raise InvalidInput(f"{what}: {token} is empty")
        tls = ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"{what}: {token} and {authority} are needed: {error}") from error
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        namespace = "default"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        authorization=TokenFile(str(token)),
        tls=tls,
    )


def _from_kubeconfig(path: str, context: str | None, server: str | None) -> Access:
    from kubernetes.client import Configuration
    from kubernetes.config import load_kube_config
    from kubernetes.config.kube_config import KubeConfigMerger

    expanded = os.pathsep.join(os.path.expanduser(part) for part in path.split(os.pathsep))
    if not any(os.path.isfile(part) for part in expanded.split(os.pathsep)):
        raise InvalidInput(f"kubeconfig {path}: no such file")
    configuration = Configuration()
    logging.getLogger().addFilter(_tells_no_output)  # added once, however often it is asked for
    try:
        load_kube_config(
            config_file=expanded,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
        config = KubeConfigMerger(expanded).config
        chosen = config["contexts"].get_with_name(context or config["current-context"])["context"]
        user = config["users"].get_with_name(chosen["user"])["user"] if "user" in chosen else None
        namespace = chosen.safe_get("namespace") or "default"
    except Exception as error:
        # For a number where a list belongs the package raises whatever comes of it, of many types.
        raise InvalidInput(f"kubeconfig {path}: {_without_output(str(error))}") from None
    authorization: HeaderSource | None = None
    if user is not None and user.value:
        if "tokenFile" in user and "token" not in user:
            base = os.path.dirname(os.path.abspath(user.path or expanded))
            authorization = TokenFile(os.path.join(base, str(user["tokenFile"])))
        elif configuration.api_key.get("BearerToken"):
            blocking = "exec" in user or "auth-provider" in user
            authorization = _Configured(configuration, blocking=blocking)
        elif "exec" in user and not configuration.cert_file:
            raise InvalidInput(f"kubeconfig {path}: the exec plugin gave no credentials")
    proxy = getattr(configuration, "proxy", None)
    try:
        address = _checked(server or configuration.host)
        if proxy:
            _check_url("proxy-url", proxy)
            if ":" in unquote(urlsplit(proxy).username or ""):
                raise InvalidInput("proxy-url must have no colon in its user's name")
        if token := configuration.api_key.get("BearerToken"):
            _sendable(token, "the token")
    except InvalidInput as problem:
        raise InvalidInput(f"kubeconfig {path}: {problem}") from None
    return Access(
        server=address,
        namespace=namespace,
        authorization=authorization,
        tls=_tls(configuration) if address.startswith("https://") else None,
        server_hostname=getattr(configuration, "tls_server_name", None),
        proxy=proxy,
    )


def _tls(configuration: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"certificates for {configuration.host}: {error}") from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
