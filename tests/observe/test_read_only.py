"""The only client of observe mode lets nothing but GET leave."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import ClientTimeout, web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.kube.client import KubeClient
from extender.kube.read_only import ReadOnlyClient, WriteRefused

PATH = "/api/v1/namespaces/default/pods/p"
WRITES: dict[str, Callable[[KubeClient], Awaitable[object]]] = {
    "create": lambda client: client.create(PATH, {}),
    "create, dry run": lambda client: client.create(PATH, {}, dry_run=True),
    "replace": lambda client: client.replace(PATH, {}),
    "patch": lambda client: client.patch(PATH, {}),
    "delete": lambda client: client.delete(PATH, uid="u"),
    "evict": lambda client: client.evict("default", "p", uid="u"),
    "evict, dry run": lambda client: client.evict("default", "p", uid="u", dry_run=True),
    "request": lambda client: client.request("DELETE", PATH),
    "request, spelt otherwise": lambda client: client.request("get", PATH),
    "request, a GET with a body": lambda client: client.request("GET", PATH, body={}),
}
READS = {"get", "batches", "stream"}
NEITHER = {"close", "connect"}


class Site:
    """An API server that counts what reaches it."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.methods.append(request.method)
        return web.json_response({})


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, str]]:
    found = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    async with TestServer(app) as server:
        yield found, str(server.make_url("")).rstrip("/")


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_is_refused_before_it_leaves(name: str, site: tuple[Site, str]) -> None:
    found, url = site
    async with await ReadOnlyClient.connect(server=url) as client:
        with pytest.raises(WriteRefused, match="observe mode"):
            await WRITES[name](client)
        assert found.methods == []
        await client.get(PATH)
    assert found.methods == ["GET"]


def test_every_method_of_the_client_is_known_here() -> None:
    """A method that is added to KubeClient has to be looked at."""
    methods = {
        name for name, _ in inspect.getmembers(KubeClient, callable) if not name.startswith("_")
    }
    assert methods == READS | NEITHER | {name.partition(",")[0] for name in WRITES}


def test_the_client_talks_in_one_place_only() -> None:
    """The refusal stands before that place, so it stands before everything."""
    assert inspect.getsource(KubeClient).count("self._session.request(") == 1
    assert "self._session.request(" in inspect.getsource(KubeClient._send)


@settings(deadline=None)
@given(st.text(max_size=12).filter(lambda method: method != "GET"))
def test_no_other_method_passes(method: str) -> None:
    client = ReadOnlyClient.__new__(ReadOnlyClient)
    sending = client._send(method, PATH, None, None, "", ClientTimeout())
    with pytest.raises(WriteRefused):
        sending.__aenter__().send(None)
