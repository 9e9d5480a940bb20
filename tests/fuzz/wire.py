"""Fuzzer of the HTTP and decoding layers: bytes over a real socket, and straight at the decoders.

    python -m tests.fuzz.wire --seconds 3600 --seed 1

What must hold: every answer is below 500 or a 503, nothing is logged as an internal error, the
process goes on to answer, nobody is evicted or planned for, and memory stays bounded. A failure
is shrunk and printed by Hypothesis; the same seed finds it again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import structlog
import uvloop
from hypothesis import HealthCheck, Phase, given, seed, settings

from extender.model.errors import InvalidInput
from extender.model.settings import ServerSettings
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from extender.wire.filter_json import FilterResult, decode_filter_args, encode_filter_result
from extender.wire.preempt_json import PreemptResult, decode_preempt_args, encode_preempt_result
from tests.fuzz.bytes_of import Names, Piece, connections, documents
from tests.gang.rig import Rig
from tests.server.doubles import Source

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
ALLOWED = {100, 200, 400, 401, 403, 404, 405, 408, 409, 413, 421, 429, 431, 503}
SECONDS = 0.1
"""The server's patience with heads and bodies; a connection is read until it closes or is quiet."""
QUIET_SECONDS = 0.02
MEMORY_BYTES = 96 * 1024 * 1024
"""Growth allowed after the first round."""
SETTINGS = ServerSettings(
    port=0,
    health_port=0,
    max_body_bytes=256 * 1024,
    max_bytes_in_flight=1024 * 1024,
    max_connections=32,
    head_seconds=SECONDS,
    body_seconds=SECONDS,
    pod_wait_seconds=0.0,
)


class Errors(logging.Handler):
    """Keeps what is logged as an error, by us or by a library."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += "".join(traceback.format_exception(record.exc_info[1])[-3:])
        self.found.append(text)

    def process(self, logger: Any, method: str, event: Any) -> Any:
        """structlog's end of the line."""
        if method in ("error", "exception", "critical"):
            self.found.append(repr(event))
        raise structlog.DropEvent

    def take(self) -> list[str]:
        """Return what was found since the last time."""
        found, self.found = self.found, []
        return found


class Target:
    """The whole extender on a small full cluster, in a thread of its own."""

    def __init__(self) -> None:
        self.errors = Errors()
        self.statuses: Counter[int] = Counter()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stop: asyncio.Event

    def __enter__(self) -> Target:
        self._logging = structlog.get_config()
        structlog.configure(processors=[self.errors.process])
        logging.getLogger().addHandler(self.errors)
        self._thread.start()
        self.call(self._start())
        return self

    def __exit__(self, *exc: object) -> None:
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        logging.getLogger().removeHandler(self.errors)
        structlog.configure(**self._logging)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the extender's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self) -> None:
        self.rig = Rig()
        rig = await self.rig.__aenter__()
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        pods = [await rig.pod(f"meek-{i}", cpu="3") for i in range(2)]
        await rig.until(lambda: rig.cache.pod_named("default", "meek-1") is not None)
        self.pods = await rig.names()
        self.names = Names(pods, {f"n{i}": rig.cached(f"low-{i}").uid for i in range(2)})
        self.metrics = Metrics()
        self.server = Server(SETTINGS, rig.verbs, Source(), Health(), self.metrics)
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(self.server.serve(self._stop))
        await asyncio.wait_for(self.server.started.wait(), 60)

    async def _end(self) -> None:
        self._stop.set()
        await self._serving
        self.metrics.close()
        await self.rig.__aexit__()

    # -- one connection -------------------------------------------------------------------

    def talk(self, pieces: list[Piece]) -> None:
        """Send the pieces on one connection, and look at what comes back."""
        text = self.call(self._talk(pieces))
        statuses = [int(found) for found in STATUS.findall(text)]
        self.statuses.update(statuses)
        assert set(statuses) <= ALLOWED, f"answers {statuses}"
        errors = self.errors.take()
        assert not errors, errors

    async def _talk(self, pieces: list[Piece]) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        text = b""
        try:
            for data, times in pieces:
                for _ in range(times):
                    writer.write(data)
                    await writer.drain()
            # Answers come at once, refusals of what is incomplete when its time is over.
            patience = 5 * SECONDS
            while chunk := await asyncio.wait_for(reader.read(1 << 16), patience):
                text += chunk
                patience = QUIET_SECONDS
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.transport.abort()
        return text

    # -- what must hold -------------------------------------------------------------------

    def check(self) -> None:
        """It still answers, and nothing was done."""
        self.call(self._check())

    async def _check(self) -> None:
        for port in (self.server.port, self.server.health_port):
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()
        await asyncio.wait_for(self.server.app.idle(), 60)
        assert self.server.app.budget.held == 0
        assert await self.rig.names() == self.pods, "somebody was evicted"
        plans = [flight.key for flight in self.rig.coordinator.book if flight.plan.victims]
        assert not plans, "a plan with victims was made"
        assert not self.rig.coordinator.flights.evictions.broken()
        errors = self.errors.take()
        assert not errors, errors


def decode(text: bytes) -> None:
    """Decode as each verb does; only InvalidInput may come out."""
    try:
        args = decode_filter_args(text)
        encode_filter_result(FilterResult(args.node_names), args)
    except InvalidInput:
        pass
    try:
        encode_preempt_result(PreemptResult(decode_preempt_args(text).candidates))
    except InvalidInput:
        pass


def resident_bytes() -> int:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def rounds(
    target: Target,
    first: int,
    examples: int,
    seconds: float,
    told: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Fuzz, round by round, each with a seed of its own; return how many examples were tried.

    The time ends the round that is being played: no further example is tried then.
    """
    tried = 0
    end = clock() + seconds
    number = first
    base = 0
    while clock() < end:
        tried += one_round(target, number, examples, lambda: clock() >= end)
        target.check()
        size = resident_bytes()
        base = base or size
        told(f"seed {number}: {tried} examples, {size >> 20} MiB, {dict(target.statuses)}")
        assert size - base < MEMORY_BYTES, f"memory grew from {base} to {size} bytes"
        number += 1
    return tried


class _OverError(BaseException):
    """Ends a round. Hypothesis takes an Exception for a failure, and lets this through."""


def one_round(target: Target, number: int, examples: int, over: Callable[[], bool]) -> int:
    """Try so many connections, and four times as many documents; return how many were tried.

    When it is ``over`` the rest is skipped, unless a failure is being shrunk.
    """
    tried = 0
    failed = False
    terms = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )

    def attempt(act: Callable[[bytes], None] | Callable[[list[Piece]], None], given: Any) -> None:
        nonlocal tried, failed
        if over() and not failed:
            raise _OverError
        tried += 1
        try:
            act(given)
        except BaseException:
            failed = True
            raise

    @seed(number)
    @settings(terms)
    @given(connections(target.names))
    def over_the_socket(pieces: list[Piece]) -> None:
        attempt(target.talk, pieces)

    @seed(number)
    @settings(terms, max_examples=4 * examples)
    @given(documents(target.names))
    def at_the_decoders(data: bytes) -> None:
        attempt(decode, data)

    with contextlib.suppress(_OverError):
        over_the_socket()
        at_the_decoders()
    return tried


def main(arguments: list[str]) -> int:
    """Run from the command line; exit status 1 when something did not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--examples", type=int, default=200, help="connections a round")
    given_arguments = parser.parse_args(arguments)
    began = time.monotonic()
    with Target() as target:
        tried = rounds(
            target,
            given_arguments.seed,
            given_arguments.examples,
            given_arguments.seconds,
            lambda line: print(line, flush=True),
        )
        refused = [
            line
            for line in target.metrics.render("")[0].decode().splitlines()
            if "refused_total{" in line
        ]
    print(*refused, sep="\n")
    print(f"OK  {tried} examples in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
