"""Server reflection: the interface, for tools; as open as the index of the debug pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from grpc_reflection.v1alpha import reflection, reflection_pb2

from extender.grpc_api.calls import parsed
from extender.grpc_api.message_reading import Call, Message, MessageLimits, write
from extender.model.errors import InvalidInput

SERVICE: str = reflection.SERVICE_NAME
PAGE = "/debug/"
MOST = 8
"""Tools at a time."""
MOST_QUESTIONS = 1000
"""Of one tool in one call."""


class Reflection:
    """The handler of ServerReflectionInfo."""

    def __init__(self, services: Iterable[str], limits: MessageLimits) -> None:
        # What its stub has as a coroutine is a generator.
        self._servicer: Any = reflection.aio.ReflectionServicer(services)
        self._limits = limits

    async def answer(self, call: Call) -> None:
        """Answer one question after the other until the caller has none."""
        answers = self._servicer.ServerReflectionInfo(self._questions(call), call)
        async for answer in answers:
            await write(call, answer.SerializeToString(), self._limits.seconds)

    async def _questions(self, call: Call) -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        for number in range(MOST_QUESTIONS):
            message = Message(self._limits)
            try:
                data = await message.read(call)
            except InvalidInput:
                if not number:
                    raise
                return
            finally:
                message.release()
            yield parsed(reflection_pb2.ServerReflectionRequest, data)
