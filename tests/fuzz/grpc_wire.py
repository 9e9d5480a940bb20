"""Fuzzer of the gRPC side: calls through a real client, and frames by hand.

    python -m tests.fuzz.grpc_wire --seconds 3600 --seed 1

What must hold: no call ends as UNKNOWN, INTERNAL or DATA_LOSS, nothing is logged as an error, an
honest caller is answered meanwhile, nobody is evicted or planned for, and memory, bytes held, tasks
and descriptors stay bounded. A failure is shrunk and printed; the same seed finds it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import grpc
from msgspec.structs import replace

from extender.pb.podgroup.v1 import extender_pb2
from tests.fuzz import playing
from tests.fuzz.frames_of import Called, Spoken, calls, connections
from tests.fuzz.target import CALM_SECONDS, SECONDS, SETTINGS, Target
from tests.gang.rig import FAST, Rig
from tests.grpc_api.site import LOCAL, calling, serving
from tests.grpc_api.test_calls import POD

Code = grpc.StatusCode
NEVER = {Code.UNKNOWN, Code.INTERNAL, Code.DATA_LOSS}
BUSY = {Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED}
"""What an honest caller may be told while others crowd the server."""
OVER = (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError)
"""What its client raises where something is sent on a call that is over."""
OWN_FAULT = "Internal error from Core"
"""What grpcio's client says where an operation of its own was no more possible; no server did."""
MOST_SECONDS = 2.0
"""How long a call is waited for; a watch ends only then."""
HONEST = extender_pb2.FilterRequest(pod=POD, node_names=["nowhere"])


class GrpcWire(Target):
    """Its gRPC side."""

    def parts(self, examples: int) -> Sequence[playing.Part]:
        """Calls, and as many connections."""
        return (
            (calls(self.names), self.call_all, examples),
            (connections(self.names), self.speak, examples),
        )

    def _made(self) -> Rig:
        return Rig(replace(FAST, grpc=LOCAL, server=SETTINGS))

    async def _begin(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        rig = self.rig
        self.site = await self._stack.enter_async_context(
            serving(
                rig.verbs,
                rig.settings,
                lambda: rig.verbs.context,
                lambda namespace, name: rig.cache.pod_named(namespace, name),
            )
        )
        rig.listener.feed = self.site.feed.add
        self.callers = await self._stack.enter_async_context(calling(self.site.target))
        self.honest = await self._stack.enter_async_context(calling(self.site.target))
        await self._asks_honestly(set())

    async def _end(self) -> None:
        await self._stack.aclose()

    async def _asks_honestly(self, may: set[grpc.StatusCode]) -> None:
        """A pod that nobody knows is asked about, whatever others do."""
        try:
            await self.honest.extender.Filter(HONEST, timeout=CALM_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() not in {Code.FAILED_PRECONDITION, *may}:
                raise AssertionError(f"an honest caller is told {error}") from error

    # -- calls through a client -----------------------------------------------------------

    def call_all(self, several: list[Called]) -> None:
        """Make them at once, and look at how each ended."""
        self.call(self._call_all(several))
        self.complain()

    async def _call_all(self, several: list[Called]) -> None:
        found = await asyncio.gather(*map(self._call, several), self._asks_honestly(BUSY))
        ends = [end for end in found if end is not None]
        self.statuses.update(code.name for code, _ in ends)
        wrong = [(code.name, text) for code, text in ends if code in NEVER]
        assert not wrong, wrong

    async def _call(self, asked: Called) -> tuple[grpc.StatusCode, str] | None:
        """Return how a call ended; None when its caller ended it."""
        call: Any = self.callers.channel.stream_stream(asked.path)(
            metadata=asked.metadata, timeout=asked.seconds
        )
        try:
            async with asyncio.timeout(MOST_SECONDS):
                with contextlib.suppress(*OVER):
                    for each in asked.messages:
                        await call.write(each)
                    if asked.ends == "cancels":
                        return None
                    if asked.ends == "reads":
                        await call.done_writing()
                if asked.ends == "leaves":
                    await asyncio.sleep(SECONDS / 10)
                    return None
                with contextlib.suppress(grpc.aio.AioRpcError):
                    async for _ in call:
                        pass
                code, text = await call.code(), await call.details()
                return None if text == OWN_FAULT else (code, text)
        except TimeoutError:
            return None
        finally:
            call.cancel()

    # -- frames by hand -------------------------------------------------------------------

    def speak(self, spoken: Spoken) -> None:
        """Send frames on a connection of their own, and look at what comes back."""
        text = self.call(self._speak(spoken))
        self.statuses["connection answered" if text else "connection not answered"] += 1
        # The library itself tells INTERNAL of what is no HTTP/2, and says that.
        assert b"internal error" not in text, text[:1000]
        self.complain()

    async def _speak(self, spoken: Spoken) -> bytes:
        text, _ = await asyncio.gather(self._sent(spoken), self._asks_honestly(BUSY))
        return text

    async def _sent(self, spoken: Spoken) -> bytes:
        port = int(self.site.target.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        text = b""
        try:
            for data, times in spoken.pieces:
                async with asyncio.timeout(MOST_SECONDS):
                    for _ in range(times):
                        writer.write(data)
                        await writer.drain()
            if not spoken.reads:
                await asyncio.sleep(SECONDS / 10)
                return b""
            patience = 3 * SECONDS
            while chunk := await asyncio.wait_for(reader.read(1 << 16), patience):
                text += chunk
                patience = SECONDS / 2
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.transport.abort()
        return text

    # -- what must hold -------------------------------------------------------------------

    async def _answers(self) -> None:
        await super()._answers()
        await self._asks_honestly(set())
        calls = self.site.server.calls
        await self.until(
            lambda: calls.working == 0 and not calls.streams() and self.site.load.budget.held == 0,
            lambda: f"{calls.working} calls, {calls.streams()}, {self.site.load.budget.held} bytes",
        )


def ended(target: GrpcWire) -> list[str]:
    """Return how calls ended, and how often was refused what, as metrics."""
    lines = target.site.scrape().splitlines()
    return [line for line in lines if "refused_total{" in line or "_requests_total{" in line]


def main(arguments: list[str]) -> int:
    """Run from the command line; raises what did not hold."""
    return playing.main(arguments, __doc__, GrpcWire, ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
