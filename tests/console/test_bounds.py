"""What people at the page can make the process do, counted (docs/security.md, row 11)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from extender.console import board, worker
from extender.console.bars import crosses, rings, squares
from extender.console.renderings import MOST, Renderings
from extender.console.worker import CpuAllowance, TooManyRenderings, Worker
from tests.console.reading import Read
from tests.console.site import Site, serving
from tests.console.stage import Stage, training_cluster


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
