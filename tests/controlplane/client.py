"""A small synchronous JSON client for tests: plain dictionaries, standard library only.

It is deliberately not the product's client, so that a mistake there cannot hide here. Kinds are
resolved through API discovery: ``get("Pod", "a")``, ``create({"kind": "Job", ...})`` and
``list("example.com/v1/Widget")`` all work without a table of resources.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]
Objects = list[Object]
Found = TypeVar("Found")

PATIENCE = 120.0
"""Seconds for what has to come true: they cost only where it does not."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

INITIALIZING_TRIES = 50
INITIALIZING_SECONDS = 0.2


class ApiError(RuntimeError):
    """The API server refused; ``status`` is the HTTP code, ``body`` its Status object."""

    def __init__(self, status: int, request: str, body: Object) -> None:
        """Keep the answer and make a message of it."""
        super().__init__(f"{request}: {status} {body.get('reason')}: {body.get('message')}")
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class Resource:
    """Where a kind lives in the API."""

    base: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
        """URL path of an object or, without a name, of a collection (of all namespaces)."""
        parts = [self.base]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


class Client:
    """Requests to one API server as one user; may be used from several threads."""

    def __init__(
        self, server: str, token: str, ca_file: Path | str, namespace: str = "default"
    ) -> None:
        """Prepare a client; ``namespace`` is meant wherever none is given."""
        self.server = server
        self.token = token
        self.namespace = namespace
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._ca_file = ca_file
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._local = threading.local()
        self._resources: dict[str, Resource] = {}

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close this thread's connection."""
        self.close()

    def fork(self, namespace: str | None = None, token: str | None = None) -> Client:
        """A client of its own for another namespace or user."""
        return Client(self.server, token or self.token, self._ca_file, namespace or self.namespace)

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def connect(self, timeout: float | None = 30.0) -> http.client.HTTPSConnection:
        """A new connection, for whoever needs one of its own (a watch)."""
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=timeout, context=self._tls
        )

    def headers(self, **more: str) -> dict[str, str]:
        """Headers every request carries."""
        return {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **more}

    def request(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: Any,
    ) -> Any:
        """One request; the parsed answer, or ApiError for anything but success."""
        if query:
            path = f"{path}?{urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        headers = self.headers(Accept=accept)
        if data is not None:
            headers["Content-Type"] = content_type
        for _ in range(INITIALIZING_TRIES):
            status, raw = self._exchange(verb, path, data, headers)
            # A custom resource whose definition was just made or removed (1.34).
            if status != 429 or b"storage is (re)initializing" not in raw:
                break
            time.sleep(INITIALIZING_SECONDS)
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = raw.decode(errors="replace")
        if status >= 300:
            problem = answer if isinstance(answer, dict) else {"message": answer}
            raise ApiError(status, f"{verb} {path}", problem)
        return answer

    def _exchange(
        self, verb: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        """Send over the thread's connection; a kept one that has gone stale is replaced once."""
        kept = getattr(self._local, "connection", None)
        for connection in (kept, None) if kept is not None else (None,):
            if connection is None:
                connection = self._local.connection = self.connect()
            try:
                connection.request(verb, path, body=data, headers=headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (ConnectionError, ssl.SSLEOFError):
                self.close()
                if kept is None or connection is not kept:
                    raise
            except BaseException:
                self.close()
                raise
        raise AssertionError("unreachable")

    def resource(self, kind: str) -> Resource:
        """Find a kind (``Pod``) or, where several groups know it, ``group/version/Kind``."""
        if kind not in self._resources:
            self._resources = self._discover()
        try:
            return self._resources[kind]
        except KeyError:
            raise LookupError(f"the API server does not serve {kind}") from None

    def _discover(self) -> dict[str, Resource]:
        """Ask for everything served; of several versions the preferred one gets the plain name."""
        found: dict[str, Resource] = {}
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=AGGREGATED)["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    api = f"{name}/{version['version']}" if name else version["version"]
                    for each in version["resources"]:
                        kind = each["responseKind"]["kind"]
                        resource = Resource(
                            f"{root}/{api}", each["resource"], each["scope"] == "Namespaced"
                        )
                        found[f"{api}/{kind}"] = resource
                        found.setdefault(kind, resource)
        return found

    def _namespace(self, namespace: str | None) -> str:
        """The given namespace or the client's own."""
        return self.namespace if namespace is None else namespace

    def create(self, document: Object, namespace: str | None = None) -> Object:
        """Create an object; its own ``metadata.namespace`` wins over the argument."""
        resource = self.resource(f"{document['apiVersion']}/{document['kind']}")
        space = document.get("metadata", {}).get("namespace") or self._namespace(namespace)
        created: Object = self.request("POST", resource.path(space), document)
        return created

    def create_all(self, *documents: Object) -> Objects:
        """Create several objects, in order."""
        return [self.create(document) for document in documents]

    def get(
        self, kind: str, name: str, namespace: str | None = None, *, subresource: str = ""
    ) -> Object:
        """Read one object."""
        path = self.resource(kind).path(self._namespace(namespace), name, subresource)
        found: Object = self.request("GET", path)
        return found

    def get_or_none(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Read one object, or None where there is none."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as problem:
            if problem.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, **query: Any) -> Objects:
        """Read all objects of a kind; ``namespace=""`` means all namespaces.

        Keyword arguments are query parameters: labelSelector, fieldSelector, limit.
        """
        items: Objects = self.list_raw(kind, namespace, **query)["items"]
        return items

    def list_raw(self, kind: str, namespace: str | None = None, **query: Any) -> Object:
        """Read a whole List object, for its resourceVersion."""
        path = self.resource(kind).path(self._namespace(namespace))
        answer: Object = self.request("GET", path, **query)
        return answer

    def replace(self, document: Object, *, subresource: str = "") -> Object:
        """PUT an object as it is."""
        metadata = document["metadata"]
        resource = self.resource(f"{document['apiVersion']}/{document['kind']}")
        path = resource.path(metadata.get("namespace"), metadata["name"], subresource)
        changed: Object = self.request("PUT", path, document)
        return changed

    def patch(
        self,
        kind: str,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> Object:
        """Patch an object (merge patch by default) or a subresource such as ``status``."""
        path = self.resource(kind).path(self._namespace(namespace), name, subresource)
        changed: Object = self.request("PATCH", path, patch, content_type=content_type)
        return changed

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        uid: str | None = None,
        propagation: str | None = None,
        missing_ok: bool = False,
    ) -> None:
        """Delete one object, optionally with a grace period and a UID precondition."""
        options = _delete_options(grace, propagation)
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        path = self.resource(kind).path(self._namespace(namespace), name)
        try:
            self.request("DELETE", path, options)
        except ApiError as problem:
            if not (missing_ok and problem.status == 404):
                raise

    def delete_all(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        propagation: str | None = None,
        selector: str = "",
    ) -> None:
        """Delete a collection; some kinds only allow it within one namespace."""
        path = self.resource(kind).path(self._namespace(namespace))
        options = _delete_options(grace, propagation)
        self.request("DELETE", path, options, **({"labelSelector": selector} if selector else {}))

    def evict(self, name: str, namespace: str | None = None, *, grace: int | None = None) -> None:
        """Evict a pod through the Eviction API, which honours disruption budgets."""
        space = self._namespace(namespace)
        eviction: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": space},
        }
        if grace is not None:
            eviction["deleteOptions"] = {"gracePeriodSeconds": grace}
        self.request("POST", self.resource("Pod").path(space, name, "eviction"), eviction)

    def wait_for(
        self, predicate: Callable[[], Found], timeout: float = PATIENCE, what: str = ""
    ) -> Found:
        """Call a predicate until it returns something true and return that."""
        return wait_for(predicate, timeout, what)

    def wait_running(self, *names: str, timeout: float = PATIENCE) -> Objects:
        """Wait until pods run and return them."""

        def running() -> Objects | None:
            pods = [self.get_or_none("Pod", name) for name in names]
            found = [pod for pod in pods if pod and pod["status"].get("phase") == "Running"]
            return found if len(found) == len(names) else None

        return wait_for(running, timeout, f"pods {', '.join(names)} to run") or []

    def wait_gone(
        self, kind: str, name: str, namespace: str | None = None, timeout: float = PATIENCE
    ) -> None:
        """Wait until an object no longer exists."""
        wait_for(
            lambda: self.get_or_none(kind, name, namespace) is None, timeout, f"{kind} {name} gone"
        )


def _delete_options(grace: int | None, propagation: str | None) -> Object:
    """The body of a DELETE."""
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = propagation
    return options


def wait_for(predicate: Callable[[], Found], timeout: float = PATIENCE, what: str = "") -> Found:
    """Call a predicate every 20 ms until it returns something true; TimeoutError names what."""
    deadline = time.monotonic() + timeout
    while not (last := predicate()):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"not in {timeout:g} s: {what or predicate!r} (last answer: {last!r})"
            )
        time.sleep(0.02)
    return last
