"""The way between the extender and the API server, on which requests can be made to suffer.

Plain HTTP in front; behind it the API server with the extender's token. Without a rule every
request passes as it is.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import aiohttp
from aiohttp import web

from extender.kube.credentials import Access
from extender.sandbox.forwarding import Forwarder, cut, piecewise, pour, whole

Harm = Literal["delay", "lose", "unclear", "repeat", "refuse", "hold"]

STATUS = "/configmaps/podgroup-extender-status"
_POD = re.compile(r"^/api/v1/namespaces/[^/]+/pods/(?P<name>[^/]+)(?P<sub>/[a-z]+)?$")
_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as rules see it."""

    kind: str
    """eviction, rehearsal, status, touch, record, event, watch or read."""
    name: str
    """The pod's name, where it is about a pod."""

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.kind not in ("watch", "read", "rehearsal")


def call_of(method: str, path: str, query: dict[str, str]) -> Call:
    """Tell what a request is about."""
    if method == "GET":
        return Call("watch" if query.get("watch") in ("1", "true", "True") else "read", "")
    found = _POD.match(path)
    if found is None:
        # The status ConfigMap is written now and then, whatever is decided: no record.
        records = "/configmaps" in path and not path.endswith(STATUS)
        kind = "record" if records else "event" if "/events" in path else "other"
        return Call(kind, "")
    name, sub = found["name"], found["sub"]
    if method == "DELETE" or sub == "/eviction":
        return Call("rehearsal" if "dryRun" in query else "eviction", name)
    return Call("status" if sub == "/status" else "touch", name)


@dataclass
class Rule:
    """A harm that requests may come to while it is in force."""

    harm: Harm
    meant: Callable[[Call], bool]
    chance: float = 1.0
    seconds: float = 0.0
    """delay: at most this long."""
    status: int = 503
    """refuse, unclear: the answer."""
    late: bool = False
    """hold: whether what was held is sent on in the end."""
    hits: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class FaultProxy:
    """Forwards everything; ``url`` is known after ``start``."""

    def __init__(self, access: Access, seed: str) -> None:
        self.rules: list[Rule] = []
        self.passed: list[Callable[[Call], None]] = []
        """Each is called when the API server has done a write, before the extender is told."""
        self._forwarder = Forwarder(access, self._serve)
        self._rng = random.Random(seed)
        self._watches: dict[int, web.Request] = {}

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._forwarder.url

    async def start(self) -> None:
        """Listen on a free loopback port."""
        await self._forwarder.start()

    async def close(self) -> None:
        """Cut every connection."""
        for rule in list(self.rules):
            self.lift(rule)
        await self._forwarder.close()

    def impose(self, rule: Rule) -> None:
        """Put a rule in force."""
        self.rules.append(rule)

    def lift(self, rule: Rule) -> None:
        """Take a rule back and let go of what it holds."""
        if rule in self.rules:
            self.rules.remove(rule)
        rule.over.set()

    def cut_watches(self) -> int:
        """Close the connection of every watch; return how many there were."""
        cut = 0
        for request in list(self._watches.values()):
            if request.transport is not None:
                request.transport.close()
                cut += 1
        return cut

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = call_of(request.method, request.path, dict(request.query))
        rule = self._rule_for(call)
        if rule is None:
            return await self._pass(request, call)
        rule.hits += 1
        if rule.harm == "delay":
            try:
                await asyncio.wait_for(rule.over.wait(), self._rng.uniform(0, rule.seconds))
            except TimeoutError:
                pass
            return await self._pass(request, call)
        if rule.harm == "refuse":
            return _refusal(rule.status)
        if rule.harm == "hold":
            await rule.over.wait()
            if rule.late:
                return await self._pass(request, call)
            return cut(request)
        answer = await self._pass(request, call)
        if rule.harm == "repeat":
            return await self._pass(request, call)
        if rule.harm == "unclear" and answer.status < 300:
            return _refusal(rule.status)
        return cut(request)

    def _rule_for(self, call: Call) -> Rule | None:
        """The first rule that a request falls under."""
        for rule in self.rules:
            if rule.meant(call) and self._rng.random() < rule.chance:
                return rule
        return None

    async def _pass(self, request: web.Request, call: Call) -> web.StreamResponse:
        """Send a request on and return its answer."""
        try:
            async with self._forwarder.answer_to(request) as answer:
                if call.kind not in ("watch", "read"):
                    done = await whole(answer)
                    if answer.status < 300:
                        for told in list(self.passed):
                            told(call)
                    return done
                response = piecewise(answer)
                await response.prepare(request)
                if call.kind == "watch":
                    self._watches[id(request)] = request
                await pour(answer, response)
                return response
        except (ConnectionError, TimeoutError, aiohttp.ClientError):
            # A connection that fails behind us fails in front of us as well.
            return cut(request)
        finally:
            self._watches.pop(id(request), None)


def _refusal(status: int) -> web.Response:
    """An answer as the API server would give it."""
    reason = _REASONS.get(status, "Unknown")
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"refused by the test: {reason}",
        "reason": reason,
        "code": status,
    }
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return web.Response(
        status=status, headers=headers, body=json.dumps(body), content_type="application/json"
    )
