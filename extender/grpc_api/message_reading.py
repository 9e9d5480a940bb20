"""Reading one message and writing one answer, within the limits that bodies have over HTTP.

The gRPC library reads a message only when it is asked for one, and holds no more than WINDOW of it
before; but how large one is, it tells when all of it is there. So a call that reads holds the
largest size in the budget, and what it has really got from then on.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import grpc
from msgspec import Struct

from extender.model.errors import InvalidInput
from extender.server.limits import ByteBudget
from extender.settings.settings import Settings

Call: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
WINDOW = 64 * 1024
"""Bytes of a message that may come before it is read."""
MOST = 16 * 1024 * 1024
"""Of one message, if server.maxBodyBytes is not less: nodes are named and never sent whole, and
this are 5,000 of them with 60 victims each."""

SENT_SECONDS = 0.5
"""For what is being sent while the call is ended; less than a stopping server waits for its calls
(server.ABORT_SECONDS)."""


class MessageLate(Exception):  # noqa: N818 - reads as the condition it is
    """The message did not come in time."""


class NoRoom(Exception):  # noqa: N818 - reads as the condition it is
    """Others' messages held all of the budget, as long as one may take to come."""


class AnswerNotRead(Exception):  # noqa: N818 - reads as the condition it is
    """The caller has not taken its answer in time."""


class MessageLimits(Struct, frozen=True):
    """Of messages; see ServerSettings."""

    seconds: float
    """From a call's headers to the end of its message, and for a caller to take its answer."""
    size: int
    """Bytes of one."""
    budget: ByteBudget


def largest(settings: Settings) -> int:
    """Return how many bytes a message may have."""
    return min(settings.server.max_body_bytes, MOST)


class Message:
    """Reads one message, and holds its bytes in the budget until ``release``."""

    def __init__(self, limits: MessageLimits) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, call: Call) -> bytes:
        """Return the message. Raises MessageLate, NoRoom, or InvalidInput when none comes."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.seconds):
                await limits.budget.room(limits.size)
                self._held = limits.size
                # The bare interface: bytes, or the mark of the end.
                data = await call.read()
        except TimeoutError:
            if self._held:
                raise MessageLate from None
            raise NoRoom from None
        if not isinstance(data, bytes):
            raise InvalidInput("no message came", "message")
        self._held = len(data)
        limits.budget.give(limits.size - self._held)
        return data

    def release(self) -> None:
        """Hold nothing any more."""
        self._limits.budget.give(self._held)
        self._held = 0


async def write(call: Call, body: bytes, seconds: float | None) -> None:
    """Give a caller a message. Raises AnswerNotRead when it has not taken it in so long.

    A message that is on its way when the task is cancelled gets SENT_SECONDS more, and then raises
    AnswerNotRead too: until the first is sent, gRPC takes no status behind it, and fails in the
    call that would tell one. ``seconds`` is None for a reader that may be as slow as it likes.
    """
    sending = asyncio.ensure_future(call.write(body))
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(sending)
    except TimeoutError:
        _forget(sending)
        raise AnswerNotRead from None
    except asyncio.CancelledError:
        if not (await asyncio.wait({sending}, timeout=SENT_SECONDS))[0]:
            _forget(sending)
            raise AnswerNotRead from None
        _forget(sending)
        raise


def _forget(sending: asyncio.Future[None]) -> None:
    """Ask nobody how a message fared: its call is over, or is about to be cut."""
    sending.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
    sending.cancel()
