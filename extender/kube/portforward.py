"""A connection to a port inside a pod, through the API server.

kubelet connects from within the pod's network namespace, so that a port that listens on the
pod's loopback address is reached too; the pod proxy would not. Protocol v4.channel.k8s.io over
WebSocket: the first byte of a message is the channel (0 data, 1 error), and kubelet begins each
channel with the port as two bytes, little endian. Source: pkg/streaming/portforward/websocket.go
in k8s.io/cri-streaming.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from extender.kube.api_errors import Unavailable, from_answer
from extender.kube.client import proxied
from extender.kube.credentials import Access

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
PREFIX = 2
"""Bytes of the port number with which each channel begins."""
CHUNK = 32 * 1024
"""Bytes of one message to kubelet."""
CONNECT_SECONDS = 15.0


class Forward:
    """One forwarded connection: whatever is written to ``near`` comes out at the port."""

    def __init__(self, near: socket.socket) -> None:
        self.near = near
        self.error = ""
        """What kubelet said was wrong, "" so far."""


@contextlib.asynccontextmanager
async def forwarded(access: Access, namespace: str, pod: str, port: int) -> AsyncIterator[Forward]:
    """Open a connection to a pod's port for the length of a block.

    No port of this machine is opened. Raises ApiError when the API server or kubelet refuses;
    what kubelet refuses later is in ``Forward.error``, and the connection then ends.
    """
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
    what = f"port {port} of pod {namespace}/{pod}"
    headers = {}
    if access.authorization is not None:
        header = await access.authorization()
        if header:
            headers["Authorization"] = header
    # Only where it is needed: older aiohttp does not know it here.
    named: Any = {"server_hostname": access.server_hostname} if access.server_hostname else {}
    near, far = socket.socketpair()
    far.setblocking(False)  # noqa: FBT003 - takes no keyword
    forward = Forward(near)
    try:
        async with aiohttp.ClientSession() as session:
            try:
                link = await asyncio.wait_for(
                    session.ws_connect(
                        access.server + path,
                        params={"ports": str(port)},
                        protocols=(PROTOCOL,),
                        headers=headers,
                        ssl=access.tls if access.tls is not None else True,
                        **proxied(access),
                        max_msg_size=0,
                        **named,
                    ),
                    CONNECT_SECONDS,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise from_answer(error.status, error.message.encode(), what) from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                text = str(error) or "no answer in time"
                raise Unavailable(0, "ConnectionFailed", f"{what}: {text}") from error
            tasks = [
                asyncio.create_task(_inward(link, far, forward)),
                asyncio.create_task(_outward(far, link)),
            ]
            try:
                yield forward
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await link.close()
    finally:
        near.close()
        far.close()


async def _inward(
    link: aiohttp.ClientWebSocketResponse, far: socket.socket, forward: Forward
) -> None:
    """Hand on what kubelet sends, until it ends the connection."""
    loop = asyncio.get_running_loop()
    prefix = {DATA: PREFIX, ERROR: PREFIX}
    try:
        async for message in link:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            drop = min(prefix.get(channel, 0), len(data))
            if drop:
                prefix[channel] -= drop
                data = data[drop:]
            if not data:
                continue
            if channel == ERROR:
                forward.error += data.decode("utf-8", "replace")
                break
            await loop.sock_sendall(far, data)
    finally:
        with contextlib.suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)


async def _outward(far: socket.socket, link: aiohttp.ClientWebSocketResponse) -> None:
    """Hand on what is written here, until it ends."""
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(far, CHUNK):
        await link.send_bytes(bytes([DATA]) + data)
