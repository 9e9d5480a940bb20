"""What people at the page, and tenants' texts, can do (docs/security.md, row 11)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.console import board, events, worker
from extender.console.bars import crosses, rings, squares
from extender.console.renderings import MOST, Renderings
from extender.console.templating import visible
from extender.console.worker import CpuAllowance, TooManyRenderings, Worker
from extender.gang.tell.decisions import Outcome
from extender.model.objects import Taint
from extender.model.plan import Cost, Seat, Victim
from extender.server.access_rules import Rules, health_rules, verbs_rules
from extender.server.pages import RIGHT, credential, is_page, misdirected
from extender.server.tokens import Tokens
from extender.settings.settings import ServerSettings
from tests.console.reading import Read
from tests.console.site import Site, serving
from tests.console.stage import Stage, training_cluster
from tests.server.test_access import Api


class Time:
    """A clock moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_thread_gets_a_share_of_time() -> None:
    time = Time()
    pace = CpuAllowance(time)
    assert pace.wait() == 0
    pace.spend(worker.BURST_SECONDS + 1.0)
    assert pace.wait() == pytest.approx(1.0 / worker.SHARE, abs=0.01)
    time.now += 1.0 / worker.SHARE
    pace.spend(0.0)
    assert pace.wait() < 0.01
    time.now += 1000.0
    assert pace.wait() == 0
    pace.spend(worker.BURST_SECONDS + 0.1)
    assert pace.wait() > 0, "a long rest is worth no more than a burst"


async def test_who_would_wait_too_long_is_sent_away() -> None:
    one = Worker()
    gate = threading.Event()
    waiting = [asyncio.create_task(one.run(gate.wait)) for _ in range(worker.MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRenderings):
        await one.run(gate.wait)
    gate.set()
    assert all(await asyncio.gather(*waiting))
    assert await one.run(lambda: 7) == 7
    one.close()
    with pytest.raises(TooManyRenderings):
        await one.run(lambda: 7)


async def test_who_waits_when_the_process_stops_is_sent_away() -> None:
    one = Worker()
    gate = threading.Event()
    running = asyncio.create_task(one.run(gate.wait))
    waiting = asyncio.create_task(one.run(gate.wait))
    while not one._pool._threads:
        await asyncio.sleep(0.01)
    one.close()
    gate.set()
    assert await running
    with pytest.raises(TooManyRenderings):
        await waiting


async def test_everybody_gets_the_same_rendering() -> None:
    pages = Renderings(Worker())
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"page"

    first, *others = await asyncio.gather(*(pages.get("a", 1, make) for _ in range(20)))
    assert all(other is first for other in others)
    assert len(made) == 1
    again = await pages.get("a", 2, make)
    assert (len(made), again.tag) == (2, first.tag), "the same bytes have the same tag"


async def test_renderings_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = Renderings(Worker())
    for number in range(MOST + 5):
        await pages.get(f"p{number}", 1, lambda: b"x" * 10)
    assert len(pages._kept) == MOST
    monkeypatch.setattr("extender.console.renderings.MOST_BYTES", 100)
    await pages.get("large", 1, lambda: b"x" * 90)
    assert sum(len(kept.body) for kept in pages._kept.values()) == pages._size <= 100


async def test_failing_page_is_tried_again() -> None:
    pages = Renderings(Worker())

    def fail() -> bytes:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - nothing more is said
        await pages.get("a", 1, fail)
    assert (await pages.get("a", 1, lambda: b"x")).body == b"x"


async def test_picture_is_made_once_for_many(site: Site, web: aiohttp.ClientSession) -> None:
    async def look(number: int) -> int:
        async with web.get(site.url(f"?page={number}")) as answer:
            return answer.status

    assert set(await asyncio.gather(*(look(n) for n in range(1, 13)))) == {200}
    assert site.console.board.made == 1
    # Nothing has changed: however long ago it was made, it is the picture of now.
    site.console.board._next = 0.0
    await look(1)
    assert site.console.board.made == 1
    site.stage.generation += 1
    await look(1)
    assert site.console.board.made == 2


async def test_picture_is_made_at_most_once_a_second(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "FRESH_SECONDS", 3600.0)
    for _ in range(5):
        site.stage.generation += 1
        async with web.get(site.url("")) as answer:
            assert answer.status == 200
    assert site.console.board.made == 1


async def test_nothing_is_made_while_nobody_looks(site: Site) -> None:
    assert (site.console.board.made, site.console.worker._pool._threads) == (0, set())


async def test_verbs_are_answered_while_a_page_is_made(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop waits for no page: one that takes for ever keeps no verb."""
    entered, gate = threading.Event(), threading.Event()
    read = site.console.board.reader.read

    def slow(capture: Any) -> Any:
        entered.set()
        assert gate.wait(60)
        return read(capture)

    monkeypatch.setattr(site.console.board.reader, "read", slow)
    page = asyncio.create_task(web.get(site.url("")).__aenter__())
    assert await asyncio.to_thread(entered.wait, 60)
    body = {"Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u"}}, "NodeNames": ["a"]}
    async with web.post(f"{site.server.url}/filter", json=body) as answer:
        assert answer.status == 200
    assert not page.done()
    gate.set()
    answer = await page
    assert answer.status == 200
    answer.close()


def crowd() -> Stage:
    stage = Stage()
    for index in range(30):
        stage.node(f"n-{index:03}", "z")
    for index in range(130):
        stage.gang(f"gang-{index:03}", (), size=2, age=index)
    stage.gang("large", [f"n-{index:03}" for index in range(30)], size=700)
    return stage


async def test_long_lists_come_in_pages(web: aiohttp.ClientSession) -> None:
    async with serving(crowd()) as site:

        async def rows(page: str) -> int:
            async with web.get(site.url(page)) as answer:
                return Read(await answer.text()).tags.count("tr") - 1

        assert [await rows(f"?page={n}") for n in (1, 2, 3, 99999)] == [50, 50, 31, 31]
        name = "gang?name=pod-group:research/large"
        assert await rows(name) == 50
        assert await rows(f"{name}&page=14") == 50


async def test_long_plans_are_cut_and_say_so(web: aiohttp.ClientSession) -> None:
    stage = Stage()
    for index in range(90):
        stage.node(f"n-{index:03}", "z")
        stage.gang(f"low-{index:03}", [f"n-{index:03}"], priority=1)
    key = stage.gang("urgent", (), size=90, priority=9)
    stage.plan(key, "waiting")
    async with serving(stage) as site:
        async with web.get(site.url(f"gang?name={key}")) as answer:
            text = Read(await answer.text()).words
        assert "90 seats on 90 nodes" in text
        assert "and 30 more nodes" in text
        assert "and 50 more units" in text
        async with web.get(site.url("decisions")) as answer:
            assert len(await answer.read()) < 60_000


def test_a_map_costs_a_few_bytes_a_node() -> None:
    draw: tuple[Callable[[range, int], str], ...] = (squares, rings, crosses)
    for path in draw:
        assert len(path(range(5000), 64)) < 5000 * 28
    assert len(squares(range(5000), 64)) < 5000 * 8
    assert squares([0, 65], 64) == "M0 5h10M12 17h10"
    assert squares([1, 2, 5], 64) == "M12 5h10m2 0h10m26 0h10"


async def test_large_cluster_is_a_map_of_few_elements(web: aiohttp.ClientSession) -> None:
    stage = Stage()
    for index in range(1200):
        stage.node(f"n-{index:04}", f"z{index % 3}", closed=index % 100 == 0)
    stage.gang("a", [f"n-{index:04}" for index in range(0, 1200, 7)])
    async with serving(stage) as site:
        async with web.get(site.url("cluster")) as answer:
            found = Read(await answer.text())
        assert found.tags.count("svg") < 80
        assert found.tags.count("path") < 60
        query = {"group": "topology.kubernetes.io/zone", "zone": "z1", "by": "nvidia.com/gpu"}
        async with web.get(site.url("cells"), params=query) as answer:
            cells = await answer.json()
        assert len(cells) == 400
        assert cells[0] == ["n-0001", 0, 0, 0]
        assert cells[2] == ["n-0007", 100, 0, 0]


async def test_form_beyond_the_limit_is_not_read(site: Site, web: aiohttp.ClientSession) -> None:
    form = {"gang": "x", "manifest": "y" * (4 * 1024 * 1024)}
    async with web.post(site.url("what-if"), data=form) as answer:
        assert answer.status == 413
    form = {"gang": "x", "manifest": "y" * (1024 * 1024 + 1)}
    async with web.post(site.url("what-if"), data=form) as answer:
        assert answer.status == 400
        assert "longer than" in await answer.text()
    assert site.server.app.budget.held == 0


@pytest.mark.parametrize("framing", ["Content-Length: 5000000", "Transfer-Encoding: chunked"])
async def test_who_sends_too_much_is_told_so(site: Site, framing: str) -> None:
    """A browser sends its form first and reads then: a reset connection tells it nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(f"POST /ui/what-if HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode())
    piece = b"y" * 50_000
    for _ in range(100):
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if "chunked" in framing else piece)
        await writer.drain()
    writer.write(b"0\r\n\r\n" if "chunked" in framing else b"")
    await writer.drain()
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 413 ")
    writer.close()
    assert site.server.app.budget.held == 0


def test_stage_is_the_same_every_time() -> None:
    assert training_cluster().capture() == training_cluster().capture()


EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</textarea></title><svg/onload=alert(4)>",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(5)",
)
ALL = "".join(EVIL)


def hostile() -> Stage:
    stage = training_cluster()
    name = f"evil{ALL}"
    stage.nodes.append(
        replace(
            stage.nodes[0],
            name=ALL,
            uid="evil",
            labels={"topology.kubernetes.io/zone": ALL, ALL: ALL},
            taints=(Taint(ALL, ALL, ALL),),
            allocatable=(("cpu", 8000), (ALL, 4), ("pods", 10)),
        )
    )
    stage.gang(name, [ALL], size=3, namespace=ALL, gpus=0)
    stage.problems = (ALL,)
    victim = Victim(
        uid="v", namespace=ALL, name=ALL, node=ALL, priority=1, gang=ALL, reason=ALL, unit=ALL
    )
    stage.tell(
        f"pod-group:{ALL}/{name}",
        Outcome.PLAN,
        ALL,
        5.0,
        code=ALL,
        explanation=(ALL,),
        victims=(victim,),
        seats=(Seat("s", ALL, ALL, ALL),),
        costs=(Cost(ALL, 3, 1),),
        proof=ALL,
    )
    stage.tell(f"pod-group:{ALL}/{name}", Outcome.REFUSAL, ALL, 1.0, explanation=(ALL,))
    return stage


PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("", {}),
    ("", {"q": ALL, "namespace": ALL}),
    ("gang", {"name": f"pod-group:{ALL}/evil{ALL}"}),
    ("gang", {"name": ALL}),
    ("decisions", {}),
    ("decisions", {"q": ALL, "victim": ALL, "outcome": ALL}),
    ("cluster", {"by": ALL, "group": ALL, "q": ALL}),
    ("node", {"name": ALL}),
    ("node", {"name": f"{ALL}?"}),
    ("what-if", {"gang": ALL, "manifest": ALL}),
    (f"nothing{ALL}", {}),
)


async def test_names_and_messages_are_escaped(web: aiohttp.ClientSession) -> None:
    shown = 0
    async with serving(hostile()) as site:
        for path, query in PAGES:
            async with web.get(site.url(path), params=query) as answer:
                assert answer.content_type == "text/html"
                assert answer.status in (200, 404), (path, query)
                found = Read(await answer.text())
            assert not found.suspicious, (path, query)
            assert "script" not in found.tags[found.tags.index("body") :]
            assert "{{ 7*7 }}" in found.text or "7*7" not in found.text
            shown += "<script>alert(1)</script>" in found.text
    assert shown >= 8, "it is there to be seen, as text"


async def test_answer_to_a_hostile_question(web: aiohttp.ClientSession) -> None:
    async with (
        serving(hostile()) as site,
        web.post(site.url("what-if"), data={"gang": ALL, "manifest": f"kind: {ALL!r}"}) as answer,
    ):
        assert answer.status == 200
        found = Read(await answer.text())
    assert "No answer" in found.text
    assert not found.suspicious


async def test_characters_that_do_not_show_are_made_visible(web: aiohttp.ClientSession) -> None:
    stage = training_cluster()
    stage.tell("pod-group:a/b", Outcome.REFUSAL, "safe\u202egnp.exe\u200b\x1b[31m", 1.0)
    async with serving(stage) as site, web.get(site.url("decisions")) as answer:
        text = await answer.text()
    assert "safe\ufffdgnp.exe\ufffd\ufffd[31m" in text
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)


def test_ordinary_text_is_left_alone() -> None:
    assert visible("ö \N{EN DASH} 漢字 🙂\n\ttab") == "ö \N{EN DASH} 漢字 🙂\n\ttab"
    assert visible(7) == 7


async def test_form_of_another_site_is_refused(site: Site, web: aiohttp.ClientSession) -> None:
    form = {"gang": "nightly-distill"}
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
    ):
        async with web.post(site.url("what-if"), data=form, headers=headers) as answer:
            assert answer.status == 400
            assert "another site" in await answer.text()
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": site.server.url}):
        async with web.post(site.url("what-if"), data=form, headers=headers) as answer:
            assert answer.status == 200


ENCRYPTED = Rules(debug="token", encrypted=True)


def basic(password: str, user: str = "me") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def door(site: Site, rules: Rules, api: Api | None = None) -> None:
    """Let requests in by these rules."""
    app = site.server.app
    app._authorization._tokens = Tokens(api) if api is not None else None  # type: ignore[arg-type]
    site.server.listeners[0].config.loaded_app = app.door(rules)


async def status(web: aiohttp.ClientSession, site: Site, page: str = "", **headers: str) -> int:
    given = {name.title(): value for name, value in headers.items()}
    async with web.get(site.url(page), headers=given) as answer:
        return answer.status


def test_console_is_off_where_debug_is_off() -> None:
    shared = ServerSettings(host="0.0.0.0")
    assert verbs_rules(shared).debug == "off"
    assert health_rules(shared).debug == "off"
    assert verbs_rules(ServerSettings(debug=False)).debug == "off"


async def test_turned_off(site: Site, web: aiohttp.ClientSession) -> None:
    door(site, Rules(debug="off"))
    for page in ("", "gang", "events", "cells", "static/console.css", "what-if"):
        assert await status(web, site, page) == 404
    async with web.post(site.url("what-if"), data={"gang": "x"}) as answer:
        assert answer.status == 404
    assert site.console.board.made == 0


async def test_token_is_reviewed_as_for_debug(site: Site, web: aiohttp.ClientSession) -> None:
    api = Api()
    api.rights = {"admin": {RIGHT}, "scraper": {"/metrics", "/ui/"}}
    door(site, ENCRYPTED, api)
    async with web.get(site.url("")) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
    for page in ("", "cluster", "static/console.css", "cells"):
        assert await status(web, site, page, authorization="Bearer admin") == 200
        assert await status(web, site, page, authorization=basic("admin")) == 200
        assert await status(web, site, page, authorization=basic("scraper")) == 403
        assert await status(web, site, page, authorization=basic("nobody")) == 401
        assert await status(web, site, page, authorization="Basic %%%") == 401
    reviewed = {spec["nonResourceAttributes"]["path"] for _, spec in api.asked if "user" in spec}
    assert reviewed == {RIGHT}, "one right for all pages, below /debug/"


async def test_token_is_wanted_without_tls_in_vain(site: Site, web: aiohttp.ClientSession) -> None:
    door(site, Rules(debug="token"), Api())
    assert await status(web, site, authorization=basic("admin")) == 403


async def test_basic_is_for_pages_alone(site: Site, web: aiohttp.ClientSession) -> None:
    api = Api()
    api.rights = {"admin": {RIGHT, "/debug/gangs"}}
    door(site, ENCRYPTED, api)
    async with web.get(
        f"{site.server.url}/debug/gangs", headers={"Authorization": basic("admin")}
    ) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_name_of_another_site_is_not_answered(site: Site, web: aiohttp.ClientSession) -> None:
    """A page elsewhere whose name was pointed to loopback reads nothing."""
    port = site.server.port
    for host in (f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example"):
        assert await status(web, site, host=host) == 421
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "10.0.0.7"):
        assert await status(web, site, host=host) == 200


@pytest.mark.parametrize("path", ["/uix", "/u", "/UI", "/debug/ui"])
def test_what_is_no_page(path: str) -> None:
    assert not is_page(path)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        (b"Bearer x", b"Bearer x"),
        (b"Basic bWU6dG9r", b"Bearer tok"),
        (b"basic   bWU6dG9r", b"Bearer tok"),
        (b"Basic bWU6YTpi", b"Bearer a:b"),
        (b"Basic bWU=", b"Bearer "),
        (b"Basic !!", None),
        (b"Basic " + b"A" * 30_000, b"Basic " + b"A" * 30_000),
    ],
)
def test_credential(given: bytes | None, read: bytes | None) -> None:
    headers = [] if given is None else [(b"authorization", given)]
    assert credential({"headers": headers}) == read


def test_request_without_a_host_is_no_browser_s() -> None:
    assert not misdirected({"headers": [], "http_version": "1.0"})
    assert misdirected({"headers": [], "http_version": "1.1"})


async def test_the_root_leads_to_the_console_where_it_is_on(
    site: Site, web: aiohttp.ClientSession
) -> None:
    root = f"{site.server.url}/"
    async with web.get(root, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (302, "/ui/")
    async with web.get(root) as answer:
        assert answer.status == 200
    door(site, Rules(debug="off"))
    async with web.get(root, allow_redirects=False) as answer:
        assert answer.status == 404


SOON = 20.0


@contextlib.asynccontextmanager
async def listening(web: aiohttp.ClientSession, site: Site) -> AsyncIterator[aiohttp.StreamReader]:
    async with web.get(site.url("events")) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        yield answer.content


async def news(stream: aiohttp.StreamReader) -> int:
    async with asyncio.timeout(SOON):
        while not (line := await stream.readline()).startswith(b"data: "):
            assert line, "it goes on"
        return int(line[6:])


async def test_everybody_is_told_of_what_is_new(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.02)
    async with listening(web, site) as one, listening(web, site) as other:
        first = await news(one)
        assert await news(other) == first
        site.console.board._next = 0.0
        site.stage.generation += 1
        later = await asyncio.gather(news(one), news(other))
        assert later[0] == later[1] > first
        assert len(site.console.events) == 2


async def test_who_leaves_is_forgotten_and_nobody_follows_any_more(
    site: Site, web: aiohttp.ClientSession
) -> None:
    async with listening(web, site) as stream:
        await news(stream)
    async with asyncio.timeout(SOON):
        while len(site.console.events) or site.server.app.in_flight:
            await asyncio.sleep(0.01)
    assert site.console.events._following is None


async def test_listeners_are_bounded_and_keep_nobody_busy(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_LISTENERS", 2)
    async with listening(web, site) as one, listening(web, site) as other:
        await news(one)
        await news(other)
        async with web.get(site.url("events")) as answer:
            assert answer.status == 503
            assert "Retry-After" in answer.headers
        assert site.server.app.busy == 0
        assert len(site.server.listeners[0]._connections._holding) == 2, "no place of the verbs'"


async def test_a_stop_does_not_wait_for_listeners(web: aiohttp.ClientSession) -> None:
    async with serving(training_cluster()) as site:
        stream = await web.get(site.url("events")).__aenter__()
        await news(stream.content)
        site.server.app.drain()
        async with asyncio.timeout(SOON):
            await site.server.app.idle()
            assert (await stream.content.read()).endswith((b"\n", b""))
        stream.close()
        async with web.get(site.url("events")) as answer:
            assert answer.status == 503
