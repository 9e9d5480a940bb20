"""Fuzzer of the HTTP and decoding layers: bytes over a real socket, and straight at the decoders.

    python -m tests.fuzz.wire --seconds 3600 --seed 1

What must hold: every answer is below 500 or a 503, nothing is logged as an internal error, the
process goes on to answer, nobody is evicted or planned for, and memory stays bounded. A failure
is shrunk and printed by Hypothesis; the same seed finds it again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence

from extender.model.errors import InvalidInput
from extender.wire.filter_json import FilterResult, decode_filter_args, encode_filter_result
from extender.wire.preempt_json import PreemptResult, decode_preempt_args, encode_preempt_result
from tests.fuzz import playing
from tests.fuzz.bytes_of import Piece, connections, documents
from tests.fuzz.target import SECONDS, Target

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
ALLOWED = {100, 200, 400, 401, 403, 404, 405, 408, 409, 413, 421, 429, 431, 503}
QUIET_SECONDS = 0.02


class Wire(Target):
    """Its HTTP side and its decoders."""

    def parts(self, examples: int) -> Sequence[playing.Part]:
        """Connections, and four times as many documents."""
        return (
            (connections(self.names), self.talk, examples),
            (documents(self.names), decode, 4 * examples),
        )

    def talk(self, pieces: list[Piece]) -> None:
        """Send the pieces on one connection, and look at what comes back."""
        text = self.call(self._talk(pieces))
        statuses = [int(found) for found in STATUS.findall(text)]
        self.statuses.update(statuses)
        assert set(statuses) <= ALLOWED, f"answers {statuses}"
        self.complain()

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


def refused(target: Wire) -> list[str]:
    """Return how often was refused what, as metrics."""
    lines = target.metrics.render("")[0].decode().splitlines()
    return [line for line in lines if "refused_total{" in line]


def main(arguments: list[str]) -> int:
    """Run from the command line; exit status 1 when something did not hold."""
    return playing.main(arguments, __doc__, Wire, refused)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
