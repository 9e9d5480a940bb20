"""An extender that agrees with everything, unless told otherwise."""

from __future__ import annotations

from typing import Any

from aiohttp import web

Obj = dict[str, Any]


class StubExtender:
    """Serves the verbs on a loopback port and keeps what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Obj]] = []
        self.url = ""
        self.status = 200
        self.held_back: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.scores: dict[str, int] = {}
        self.answer_preempt: Any = None

    async def __aenter__(self) -> StubExtender:
        app = web.Application()
        app.router.add_post("/{verb}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    def asked(self, verb: str) -> list[Obj]:
        return [body for name, body in self.calls if name == verb]

    async def _handle(self, request: web.Request) -> web.Response:
        verb, body = request.match_info["verb"], await request.json()
        self.calls.append((verb, body))
        if self.status != 200:
            return web.Response(status=self.status)
        if verb == "filter":
            names = body["NodeNames"]
            left = [n for n in names if n not in self.held_back and n not in self.refused]
            return web.json_response(
                {
                    "NodeNames": left,
                    "FailedNodes": {n: r for n, r in self.refused.items() if n in names},
                    "FailedAndUnresolvableNodes": {
                        n: r for n, r in self.held_back.items() if n in names
                    },
                    "Error": "",
                }
            )
        if verb == "prioritize":
            names = body["NodeNames"]
            return web.json_response([{"Host": n, "Score": self.scores.get(n, 0)} for n in names])
        if self.answer_preempt is not None:
            return web.json_response(self.answer_preempt)
        return web.json_response({"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]})
