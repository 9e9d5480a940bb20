"""A running server as the commands ask it: at a URL, or through the API server into its pod.

Only the debug API is read. Without ``--url`` the pod is found by label, of several replicas the
one that leads, and its port is forwarded as ``kubectl port-forward`` does, but to this process
alone. The kubeconfig's credentials stay with the API server: the extender gets ``--token`` or none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Raw, Struct

from extender.cli.live_http import BadAnswer, get
from extender.cli.number_flags import port_number
from extender.cli.output import note
from extender.decode.json_text import decoded
from extender.kube.api_errors import ApiError
from extender.kube.client import KubeClient
from extender.kube.credentials import MOST_TOKEN, Access, find_access
from extender.kube.portforward import forwarded
from extender.model.errors import ExtenderError, InvalidInput

NAMESPACE = "podgroup-extender"
SELECTOR = "app.kubernetes.io/name=podgroup-extender"
LEADER = "podgroup-extender.io/leader"
COMPONENT, OBSERVER = "app.kubernetes.io/component", "observer"
"""Label and value by which one that only watches is known, beside one that acts."""
PORT = 8888
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0
"""A server that sends nothing for so long does not answer any more."""


class _Error(Struct):
    """What an answer with an error's status holds."""

    error: str


class NoAnswer(ExtenderError):  # noqa: N818 - reads as what has happened
    """The server was not reached, or does not give what was asked for."""


class Declined(NoAnswer):
    """The server answered with an error; ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Target(Struct, frozen=True):
    """Where the server is and what it is shown."""

    url: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = NAMESPACE
    selector: str = SELECTOR
    pod: str = ""
    observer: bool = False
    """Where one acts and another observes, ask the latter."""
    port: int = PORT
    tls: bool = False
    server_name: str = ""
    token: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""


def given(text: str) -> str:
    """Return an option's value, for argparse: "" is a variable that is not set.

    Left to the default, another server would be asked than was meant.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no value")
    return text


def add_target(parser: argparse.ArgumentParser) -> None:
    """Register the options that say where the server is."""
    group = parser.add_argument_group(
        "where the server is",
        "Without --url its pod is found with the kubeconfig, and a connection is forwarded to it. "
        "That needs the rights to list pods, and to get and create pods/portforward there.",
    )
    add = group.add_argument
    add(
        "--url",
        type=given,
        default=os.environ.get("PODGROUP_EXTENDER_URL") or None,
        metavar="URL",
        help="its address, such as http://127.0.0.1:8888 (default: $PODGROUP_EXTENDER_URL)",
    )
    usual = "default: $KUBECONFIG, ~/.kube/config, in-cluster"
    add("--kubeconfig", type=given, metavar="FILE", help=usual)
    add("--context", type=given, metavar="NAME", help="of the kubeconfig")
    add(
        "--extender-namespace",
        type=given,
        default=NAMESPACE,
        metavar="NAME",
        help=f"namespace of its pods (default: {NAMESPACE})",
    )
    add(
        "--extender-selector",
        type=given,
        default=SELECTOR,
        metavar="LABELS",
        help=f"labels of its pods (default: {SELECTOR})",
    )
    add("--extender-pod", default="", metavar="NAME", help="this pod, not the one that leads")
    add(
        "--extender-port",
        type=port_number,
        default=PORT,
        metavar="PORT",
        help=f"port in the pod that serves /debug (default: {PORT})",
    )
    add("--tls", action="store_true", help="that port speaks TLS (with --url: write https://)")
    add(
        "--server-name",
        default="",
        metavar="NAME",
        help="name that its certificate must have (default: the host of the URL, the Service)",
    )
    add("--ca", default="", metavar="FILE", help="authorities that its certificate may be from")
    add("--cert", default="", metavar="FILE", help="client certificate to show")
    add("--key", default="", metavar="FILE", help="its key (default: in the same file)")
    add(
        "--token",
        default="",
        metavar="TOKEN",
        help="bearer token to show, only over TLS or to loopback (default: "
        "$PODGROUP_EXTENDER_TOKEN, which no list of processes shows)",
    )
    add("--token-file", type=Path, metavar="FILE", help="file with that token")


def target_of(args: argparse.Namespace, *, observer: bool = False) -> Target:
    """Return the target that the options name. Raises InvalidInput."""
    token = args.token or os.environ.get("PODGROUP_EXTENDER_TOKEN", "")
    if args.token_file is not None:
        try:
            with args.token_file.open(encoding="utf-8") as file:
                token = file.read(MOST_TOKEN).strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise InvalidInput(f"{args.token_file}: cannot be read: {problem}") from problem
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InvalidInput("--token: a token has no blanks and only ASCII characters")
    url: str = args.url or ""
    if "@" in url:  # told without the address, which may hold a password
        raise InvalidInput(
            "--url: a name or password in the address is not sent to the extender, which knows "
            "tokens only: --token-file"
        )
    if url:
        parts = _split(url)
        if parts is None:
            raise InvalidInput(f"--url {url!r} must read http://HOST:PORT or https://HOST:PORT")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise InvalidInput(f"--url {url!r}: the debug API is served at the root only")
        if token and parts.scheme == "http" and not _loopback(parts.hostname or ""):
            raise InvalidInput(
                f"--token is not sent to {url}: it would cross the network unencrypted"
            )
    return Target(
        url=url,
        kubeconfig=args.kubeconfig,
        context=args.context,
        namespace=args.extender_namespace,
        selector=args.extender_selector,
        pod=args.extender_pod,
        observer=observer,
        port=args.extender_port,
        tls=args.tls or url.startswith("https:"),
        server_name=args.server_name,
        token=token,
        ca=args.ca,
        cert=args.cert,
        key=args.key,
    )


def _split(url: str) -> SplitResult | None:
    """Return the parts of an address of HTTP, None when it is none."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if fine else None


def _loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


Received = Callable[[int], None]


class ServerClient:
    """Asks one server; every question has a connection of its own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._tls = _tls(target)
        self._access: Access | None = None
        self._pod = target.pod

    async def find(self) -> None:
        """Find the pod that leads, and tell on standard error when what answers does not.

        Raises NoAnswer, InvalidInput.
        """
        if not self._target.url:
            await self._find_pod()
        status, body = await self._get("/readyz", lambda _: None)
        if status not in (200, 404):
            note(f"the server is not ready, what it says may be old: {_error_of(body)}")

    async def ask(self, path: str, received: Received = lambda _: None) -> bytes:
        """Return the body of a debug page; ``received`` is told the bytes so far.

        Raises NoAnswer.
        """
        status, body = await self._get(path, received)
        if status == 200:
            return body
        hint = ""
        if status in (401, 403):
            hint = " (on a shared listener: show a token, over TLS, with --token-file)"
        elif status == 404:
            hint = " (is server.debug on, and is this the port that serves it?)"
        raise Declined(status, f"{path}: {status}: {_error_of(body)}{hint}")

    async def rows(self, page: str, **query: object) -> list[dict[str, Any]]:
        """Return the list that a debug page holds under its own name. Raises NoAnswer."""
        path = f"/debug/{page}"
        asked = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in query.items())
        try:
            document = decoded(
                await self.ask(path + (f"?{asked}" if asked else "")), dict[str, Raw]
            )
            return decoded(document[page], list[dict[str, Any]])
        except (InvalidInput, LookupError) as problem:
            raise NoAnswer(
                f"{path}: no such list came, is this the extender? ({problem})"
            ) from problem

    async def _get(self, path: str, received: Received) -> tuple[int, bytes]:
        where = self._target.url or f"pod {self._target.namespace}/{self._pod}"
        try:
            async with self._connected() as (reader, writer, host):
                token = self._target.token
                return await get(reader, writer, host, path, token, IDLE_SECONDS, received)
        except TimeoutError as problem:
            raise NoAnswer(f"{where}: no answer in time") from problem
        except (BadAnswer, OSError, ApiError) as problem:
            raise NoAnswer(f"{where}: {_words(problem)}") from problem

    @contextlib.asynccontextmanager
    async def _connected(
        self,
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, str]]:
        target = self._target
        async with contextlib.AsyncExitStack() as stack:
            if target.url:
                parts = urlsplit(target.url)
                host = parts.hostname or ""
                port = parts.port or (443 if target.tls else 80)
                opening = asyncio.open_connection(
                    host,
                    port,
                    ssl=self._tls,
                    server_hostname=(target.server_name or host) if self._tls else None,
                )
                forward = None
            else:
                assert self._access is not None
                forward = await stack.enter_async_context(
                    forwarded(self._access, target.namespace, self._pod, target.port)
                )
                host, port = f"{NAMESPACE}.{target.namespace}.svc", target.port
                opening = asyncio.open_connection(
                    sock=forward.near,
                    ssl=self._tls,
                    server_hostname=(target.server_name or host) if self._tls else None,
                )
            try:
                reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
                stack.callback(writer.transport.abort)
                # A forwarded port is loopback's for the pod, where no other name is answered.
                named = host if forward is None else "localhost"
                yield reader, writer, f"{named}:{port}"
            except (BadAnswer, OSError) as problem:
                # What kubelet said is the cause of whatever became of the connection.
                if forward is not None and forward.error:
                    raise BadAnswer(forward.error.strip()) from problem
                raise

    async def _find_pod(self) -> None:
        target = self._target
        try:
            self._access = await asyncio.to_thread(
                find_access, target.kubeconfig, target.context, None
            )
        except InvalidInput as problem:
            other = "without one the server is named by --url http://HOST:PORT"
            raise InvalidInput(f"{problem}; {other}") from problem
        try:
            if self._pod:
                return
            async with KubeClient(self._access) as client:
                found = await client.get(
                    f"/api/v1/namespaces/{target.namespace}/pods",
                    params={"labelSelector": target.selector},
                )
        except ApiError as problem:
            raise NoAnswer(f"the extender's pod is not found: {problem}") from problem
        running = [
            pod["metadata"]
            for pod in found.get("items") or ()
            if (pod.get("status") or {}).get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        ]
        if not running:
            raise NoAnswer(
                f"no running pod with labels {target.selector} in namespace {target.namespace}"
                f"{_there(found.get('items') or ())} "
                "(--extender-namespace, --extender-selector, or --url)"
            )
        running.sort(key=lambda meta: str(meta["name"]))
        running = [
            meta
            for meta in running
            if (meta.get("labels", {}).get(COMPONENT) == OBSERVER) is target.observer
        ] or running
        leaders = [meta for meta in running if meta.get("labels", {}).get(LEADER) == "true"]
        self._pod = (leaders or running)[0]["name"]
        if not leaders:
            await self._first_ready([str(meta["name"]) for meta in running])

    async def _first_ready(self, names: list[str]) -> None:
        """No label says who leads (leadership.labelPod): take the first that is ready."""
        for name in names if len(names) > 1 else ():
            self._pod = name
            with contextlib.suppress(NoAnswer):
                if (await self._get("/readyz", lambda _: None))[0] == 200:
                    return
        self._pod = names[0]


def _there(pods: Sequence[Mapping[str, Any]]) -> str:
    """Return which pods are there all the same; the kubelet or a scheduler has the reason."""
    if not pods:
        return ""
    first = pods[0]
    name, phase = first["metadata"]["name"], (first.get("status") or {}).get("phase", "Unknown")
    leaving = first["metadata"].get("deletionTimestamp")
    more = f" and {len(pods) - 1} more are not either" if len(pods) > 1 else ""
    return f": {name} is {'terminating' if leaving else phase}{more}, see `kubectl describe pod`"


def _tls(target: Target) -> ssl.SSLContext | None:
    if not target.tls:
        if target.ca or target.cert:
            raise InvalidInput("--ca and --cert are for TLS: write https:// in --url, or --tls")
        return None
    try:
        context = ssl.create_default_context(cafile=target.ca or None)
        if target.cert:
            context.load_cert_chain(target.cert, target.key or None)
    except (OSError, ssl.SSLError) as problem:
        raise InvalidInput(f"--ca, --cert or --key cannot be used: {problem}") from problem
    return context


def _error_of(body: bytes) -> str:
    """Return the text of an error answer."""
    try:
        return decoded(body, _Error).error
    except InvalidInput:
        pass
    return body[:200].decode("utf-8", "replace").strip() or "empty answer"


def _words(problem: Exception) -> str:
    """Return what the system says of a connection, without its numbers."""
    text = str(problem)
    # With several addresses asyncio joins what became of each.
    number = re.search(r"\[Errno (\d+)\]", text)
    if isinstance(problem, OSError) and number is not None:
        return os.strerror(int(number[1])).lower()
    return text
