"""What the API server answers to one request, without HTTP: paths, verbs, dry runs, lists in pages.

Watches are not answered here; what carries requests (sockets, or the simulation) opens them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from msgspec import Struct

from extender.sandbox import resources as res
from extender.sandbox.api_status import Obj, StatusError, bad_request, expired
from extender.sandbox.eviction import evict
from extender.sandbox.list_selectors import parse
from extender.sandbox.resources import ServedResource, discover
from extender.sandbox.rest import Api

SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "status": "Success"}


class Route(Struct, frozen=True):
    """A request path taken apart."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    sub: str = ""


class ApiRequests:
    """Answers requests on an Api of one Kubernetes minor version ("1.37").

    ``token`` makes the continue tokens of lists in pages.
    """

    def __init__(
        self, api: Api, minor: str, token: Callable[[], str] = lambda: secrets.token_hex(8)
    ) -> None:
        self._api = api
        self._minor = minor
        self._token = token
        self._pages: dict[str, tuple[int, list[Obj]]] = {}

    def forget_pages(self) -> None:
        """Make every continue token too old, as a compaction does."""
        self._pages.clear()

    def route(self, parts: list[str]) -> Route:
        """Take a path apart; 404 for what is not served."""
        match parts:
            case ["api", version, *rest]:
                group = ""
            case ["apis", group, version, *rest]:
                pass
            case _:
                group, version, rest = "", "", []
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] != "status":
            namespace, rest = rest[1], rest[2:]
        resource = self._api.find(group, version, rest[0]) if rest else None
        if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        name, sub = [*rest[1:], "", ""][:2]
        known = res.SUBRESOURCES.get(resource.key, {})
        if sub and sub not in known and not (sub == "status" and resource.status):
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        if name and resource.namespaced and not namespace:
            raise bad_request("an empty namespace may not be set when a resource name is provided")
        return Route(resource, namespace, name, sub)

    def read(self, parts: list[str], query: Mapping[str, str]) -> Obj:
        """Answer a GET: discovery, one object, or a list."""
        document = discover(self._api.resources, self._minor, parts)
        if document is not None:
            return document
        route = self.route(parts)
        if route.name:
            return self._api.get(route.resource, route.namespace, route.name)
        return self._list(route, query)

    def write(
        self, method: str, route: Route, query: Mapping[str, str], body: Obj, kind: str
    ) -> tuple[Obj, int]:
        """Do a write and return the answer and its code; dryRun=All changes nothing.

        ``kind`` is the content type of the body.
        """
        self._api.storage.dry = query.get("dryRun") == "All" or "dryRun" in body
        try:
            match method:
                case "POST":
                    return self._post(route, body), 201
                case "DELETE" if route.name and not route.sub:
                    return self._delete(query, route, body), 200
                case "PUT" | "PATCH" if route.name and route.sub in ("", "status"):
                    status = route.sub == "status"
                    where = (route.resource, route.namespace, route.name)
                    if method == "PUT":
                        return self._api.replace(*where, body, status=status), 200
                    return self._api.patch(*where, body, kind, status=status), 200
        finally:
            self._api.storage.dry = False
        why = "the server does not allow this method on the requested resource"
        raise StatusError(405, "MethodNotAllowed", why)

    def _post(self, route: Route, body: Obj) -> Obj:
        if route.sub == "binding":
            self._api.bind(route.namespace, route.name, body)
            return SUCCESS
        if route.sub == "eviction":
            evict(self._api, route.namespace, route.name, body)
            return SUCCESS
        if route.name or (route.resource.namespaced and not route.namespace):
            raise StatusError(405, "MethodNotAllowed", "create needs a collection of a namespace")
        return self._api.create(route.resource, route.namespace, body)

    def _delete(self, query: Mapping[str, str], route: Route, options: Obj) -> Obj:
        if route.resource.key == res.NAMESPACES.key:
            return self._api.drop_namespace(route.name)
        conditions = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        return self._api.delete(
            route.resource,
            route.namespace,
            route.name,
            uid=conditions.get("uid") or "",
            version=conditions.get("resourceVersion") or "",
            grace=None if grace is None else int(grace),
        )

    def _list(self, route: Route, query: Mapping[str, str]) -> Obj:
        resource = route.resource
        token = query.get("continue", "")
        if token:
            if token not in self._pages:
                raise expired("The provided continue parameter is too old")
            version, items = self._pages.pop(token)
        else:
            version = self._api.storage.version
            match = parse(query.get("labelSelector", ""), query.get("fieldSelector", ""))
            items = [o for o in self._api.storage.all(resource.key, route.namespace) if match(o)]
        limit = int(query.get("limit") or 0)
        meta: Obj = {"resourceVersion": str(version)}
        # A list "from the cache" is never cut into pages, whatever limit says.
        if limit and query.get("resourceVersion") != "0" and len(items) > limit:
            meta["continue"] = self._token()
            meta["remainingItemCount"] = len(items) - limit
            self._pages[meta["continue"]] = (version, items[limit:])
            items = items[:limit]
        kind, api_version = f"{resource.kind}List", resource.api_version
        return {"kind": kind, "apiVersion": api_version, "metadata": meta, "items": items}
