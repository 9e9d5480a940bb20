"""Fuzzer of the console: pages, forms and server-sent events, of a real cluster and a full stage.

    python -m tests.fuzz.console --seconds 3600 --seed 1

What must hold: every answer is below 500 or a 503, no page runs or loads anything that is not ours
and all of it shows, whoever does not read or goes keeps nothing, a verb is answered meanwhile,
nothing is logged as an error, nobody is evicted, and memory, tasks and descriptors stay bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Sequence
from typing import Any, cast

from extender.app.console_source import console_source
from extender.console.console import Console
from extender.gang.tell.decisions_per_day import Days
from extender.model.texts import unseen
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from tests.console.reading import Read
from tests.console.stage import training_cluster
from tests.fuzz import playing
from tests.fuzz.pages_of import Visit, Visits, crowds
from tests.fuzz.target import CALM_SECONDS, SECONDS, SETTINGS, Target
from tests.server.doubles import Echo, Source

ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")
ALLOWED = {100, 200, 304, 308, 400, 401, 403, 404, 405, 408, 409, 413, 414, 421, 429, 431, 503}
QUIET_SECONDS = 0.05
MOST_PAGE = 4 * 2**20
HONEST = b'{"Pod":{"metadata":{"name":"x","uid":"u"}},"NodeNames":["n0"]}'
LISTEN = b"GET /ui/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\n\r\n"


class _Replica:
    """What the console asks of one."""

    def __init__(self, target: Target) -> None:
        self.coordinator = target.rig.coordinator
        self.verbs = target.rig.verbs

    def not_ready(self) -> list[str]:
        return []


class ConsoleFuzz(Target):
    """The console of the whole extender, and beside it one that has more to show."""

    def parts(self, examples: int) -> Sequence[playing.Part]:
        """Crowds before the one, and before the other."""
        return (
            (crowds(), lambda drawn: self.visit(drawn, self.server), examples),
            (crowds(), lambda drawn: self.visit(drawn, self.staged), examples),
        )

    def _pages(self) -> Console:
        coordinator = self.rig.coordinator
        self.console = Console(
            console_source(
                self.rig.cache,
                cast("Any", _Replica(self)),
                coordinator.resolver,
                self.rig.settings,
                Days(0.0),
            )
        )
        return self.console

    async def _begin(self) -> None:
        self.stage = training_cluster()
        self.full = self.stage.console()
        self.more_metrics = Metrics()
        self.staged = Server(
            SETTINGS, Echo(), Source(), Health(), self.more_metrics, pages=self.full
        )
        self._staging = asyncio.create_task(self.staged.serve(self._stop))
        await asyncio.wait_for(self.staged.started.wait(), CALM_SECONDS)

    async def _end(self) -> None:
        await self._staging
        self.more_metrics.close()

    # -- crowds ---------------------------------------------------------------------------

    def visit(self, crowd: Visits, server: Server) -> None:
        """Have them come at once, and look at what they read."""
        for text in self.call(self._visit(crowd, server.port)):
            self._look_at(text)
        self.complain()

    async def _visit(self, crowd: Visits, port: int) -> list[bytes]:
        listening = [asyncio.create_task(self._listened(port)) for _ in range(crowd.listeners)]
        self.stage.generation += 1
        found = await asyncio.gather(
            *(self._read(each, port) for each in crowd.visits), self._honest(port)
        )
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        return [text for text in found if text is not None]

    async def _listened(self, port: int) -> None:
        """Listen until nobody wants that any more, and go without a word."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(LISTEN)
            with contextlib.suppress(ConnectionError):
                while await reader.read(1 << 12):
                    pass
        finally:
            writer.transport.abort()

    async def _read(self, visit: Visit, port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        text = b""
        try:
            async with asyncio.timeout(3.0):
                writer.write(visit.data * visit.times)
                if visit.reads == "never":
                    await asyncio.sleep(2 * SECONDS)
                    return b""
                patience = 5.0
                while chunk := await asyncio.wait_for(
                    reader.read(100 if visit.reads == "slowly" else 1 << 16), patience
                ):
                    text += chunk
                    patience = QUIET_SECONDS
                    if visit.reads == "once":
                        return b""
                    if visit.reads == "slowly":
                        await asyncio.sleep(0.001)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.transport.abort()
        return text

    async def _honest(self, port: int) -> None:
        """A verb is answered, whoever looks at pages. Only a place may have to be waited for."""
        async with asyncio.timeout(CALM_SECONDS):
            while True:
                with contextlib.suppress(ConnectionError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    head = f"Content-Length: {len(HONEST)}\r\nConnection: close\r\n\r\n"
                    writer.write(b"POST /filter HTTP/1.1\r\n" + head.encode() + HONEST)
                    text = await reader.read()
                    writer.close()
                    if text and not text.startswith(b"HTTP/1.1 503"):
                        assert text.startswith((b"HTTP/1.1 200", b"HTTP/1.1 4")), text[:300]
                        return
                await asyncio.sleep(SECONDS)

    # -- what must hold -------------------------------------------------------------------

    def _look_at(self, text: bytes) -> None:
        """Each answer's status, and that a page is one of ours."""
        assert len(text) < 100 * MOST_PAGE
        for found in ANSWER.finditer(text):
            status, head = int(found[1]), found[2].lower()
            self.statuses[status] += 1
            assert status in ALLOWED, text[found.start() :][:1000]
            length = re.search(rb"content-length: (\d+)", head)
            if length is None or b"text/html" not in head:
                continue
            assert int(length[1]) < MOST_PAGE
            page = text[found.end() : found.end() + int(length[1])]
            if len(page) == int(length[1]) and not page.startswith(b"HTTP/1.1"):
                shown = page.decode()
                suspicious = Read(shown).suspicious
                assert not suspicious, suspicious
                assert not unseen(shown), "a character does not show"

    async def _answers(self) -> None:
        await super()._answers()
        for console, server in ((self.console, self.server), (self.full, self.staged)):
            await self.until(
                lambda console=console: not len(console.events),  # type: ignore[misc]
                lambda console=console: f"{len(console.events)} still listen",  # type: ignore[misc]
            )
            await asyncio.wait_for(server.app.idle(), CALM_SECONDS)
            assert server.app.budget.held == 0


def main(arguments: list[str]) -> int:
    """Run from the command line; raises what did not hold."""
    return playing.main(arguments, __doc__, ConsoleFuzz, examples=100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
