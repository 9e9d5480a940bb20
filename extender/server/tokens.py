"""Whether the API server knows a token, and allows its bearer to read a page.

TokenReview, then SubjectAccessReview on the path (nonResourceURLs), as kube-rbac-proxy does it.
Fails closed: no answer of the API server is a no. Answers are kept for a short while, so that a
scraper costs two requests a minute. Whoever invents tokens waits behind others (ReviewTurns).
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

import structlog
from cachetools import TTLCache
from msgspec import Struct

from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError
from extender.kube.gate import hint
from extender.server.access_rules import TOKENS_NEED_TLS, Rules

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KEPT_ALLOWED_SECONDS = 60.0
KEPT_REFUSED_SECONDS = 10.0
KNOWN_SECONDS = 3600.0
"""How long a token that was good is no stranger's, when it is to be reviewed again."""
WAIT_SECONDS = 10.0
"""For the turn."""
REVIEW_SECONDS = 5.0
"""For the answer."""
AT_ONCE = 4
"""Reviews at the same time: a flood of invented tokens must not become one of requests."""
MAX_KEPT = 1024
MAX_TOKEN = 16 * 1024


class Verdict(Struct, frozen=True):
    """What came of a review."""

    status: int
    """200; 401: not a known token; 403: known, not allowed; 503: the API server cannot be asked."""
    message: str = ""


ALLOWED = Verdict(200)
UNKNOWN = Verdict(401, "a bearer token that the API server knows is needed")


class Tokens:
    """Reviews bearers; one event loop only."""

    def __init__(self, client: KubeApi, timer: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._turns = ReviewTurns(AT_ONCE)
        self._allowed: TTLCache[tuple[bytes, str], Verdict] = TTLCache(
            MAX_KEPT, KEPT_ALLOWED_SECONDS, timer
        )
        self._refused: TTLCache[tuple[bytes, str], Verdict] = TTLCache(
            MAX_KEPT, KEPT_REFUSED_SECONDS, timer
        )
        self._known: TTLCache[bytes, bool] = TTLCache(MAX_KEPT, KNOWN_SECONDS, timer)
        """Tokens that were good for some page."""

    async def review(self, authorization: bytes | None, path: str, peer: str = "") -> Verdict:
        """Say whether the bearer of an Authorization header may get ``path``.

        ``peer``: the caller's network address; all without one are one caller.
        """
        kind, _, token = (authorization or b"").partition(b" ")
        token = token.strip()
        if kind.lower() != b"bearer" or not 0 < len(token) <= MAX_TOKEN or not token.isascii():
            return UNKNOWN
        digest = hashlib.sha256(token).digest()
        kept = self._kept(digest, path)
        if kept is not None:
            return kept
        known = digest in self._known
        turn = self._turns.turn(digest if known else network_of(peer), known=known)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(WAIT_SECONDS):
                    await stack.enter_async_context(turn)
                # Another request of the same caller may have asked meanwhile.
                return self._kept(digest, path) or await self._fresh(token, digest, path)
        except TooManyReviews:
            why = "too many tokens wait for their review"
        except (ApiError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            structlog.get_logger().warning("a token cannot be reviewed", path=path, error=why)
        return Verdict(503, f"the API server cannot be asked about the token: {why}")

    def _kept(self, digest: bytes, path: str) -> Verdict | None:
        key = (digest, path)
        return self._allowed.get(key) or self._refused.get((digest, "")) or self._refused.get(key)

    async def _fresh(self, token: bytes, digest: bytes, path: str) -> Verdict:
        async with asyncio.timeout(REVIEW_SECONDS):
            with hint():
                verdict = await self._ask(token.decode(), path)
        if verdict.status == 200:
            self._allowed[digest, path] = verdict
            self._known[digest] = True
        elif verdict is UNKNOWN:
            self._refused[digest, ""] = verdict  # whatever the page
            self._known.pop(digest, None)
        else:
            self._refused[digest, path] = verdict
        return verdict

    async def _ask(self, token: str, path: str) -> Verdict:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = _status(await self._client.create(TOKEN_REVIEWS, review))
        if status.get("authenticated") is not True:
            return UNKNOWN
        user = status.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        access = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        status = _status(await self._client.create(ACCESS_REVIEWS, access))
        if status.get("allowed") is True and status.get("denied") is not True:
            return ALLOWED
        return Verdict(403, f"{spec['user']} may not get {path}: a ClusterRole with it is needed")


async def review(
    rules: Rules, tokens: Tokens | None, authorization: bytes | None, path: str, peer: str
) -> Verdict:
    """Say whether a listener with these rules shows ``path`` to the bearer of a token."""
    if not rules.encrypted:
        return Verdict(403, TOKENS_NEED_TLS)
    if tokens is None:
        return Verdict(403, "no API server is known here that could review a token")
    return await tokens.review(authorization, path, peer)


def _status(answer: dict[str, Any]) -> dict[str, Any]:
    status = answer.get("status")
    return status if isinstance(status, dict) else {}


KEPT_FREE = 1
"""Places that first-seen tokens do not take."""
MOST_OF_ONE = 32
"""Reviews of one caller that wait."""
MOST_WAITING = 256
IPV6_NETWORK = 64
"""Bits that tell IPv6 callers apart: whoever has one address there has them all."""


class TooManyReviews(Exception):  # noqa: N818 - reads as the condition it is
    """Too many wait already."""


class ReviewTurns:
    """At most ``at_once`` at the same time. One event loop only."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._busy: dict[Hashable, bool] = {}
        """Callers whose turn it is, and whether they are known."""
        self._waiting: dict[bool, dict[Hashable, deque[asyncio.Future[None]]]] = {
            True: {},
            False: {},
        }
        """Known and others -> caller -> in order; callers in the order of their turns."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nobody waits."""
        return not (self._busy or any(self._waiting.values()))

    @asynccontextmanager
    async def turn(self, caller: Hashable, *, known: bool) -> AsyncIterator[None]:
        """Hold a place for the length of a block. Raises TooManyReviews when too many wait."""
        if self._free(caller, known=known):
            self._busy[caller] = known
        else:
            await self._wait(caller, known=known)
        try:
            yield
        finally:
            del self._busy[caller]
            self._next()

    def _free(self, caller: Hashable, *, known: bool) -> bool:
        if caller in self._busy or len(self._busy) >= self._at_once:
            return False
        strangers = sum(not each for each in self._busy.values())
        return known or strangers < self._at_once - KEPT_FREE

    async def _wait(self, caller: Hashable, *, known: bool) -> None:
        lines = self._waiting[known]
        line = lines.get(caller, ())
        if len(line) >= MOST_OF_ONE:
            raise TooManyReviews
        if sum(map(len, lines.values())) >= MOST_WAITING:
            longest = max(lines.values(), key=len)
            if len(longest) <= len(line) + 1:
                raise TooManyReviews
            last = longest.pop()
            if not last.done():  # else its caller has just left
                last.set_exception(TooManyReviews())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lines.setdefault(caller, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                del self._busy[caller]  # it was let in at the very moment
                self._next()
            raise
        finally:
            self._forget(caller, known=known, future=future)

    def _forget(self, caller: Hashable, *, known: bool, future: asyncio.Future[None]) -> None:
        line = self._waiting[known].get(caller)
        if line is not None and future in line:
            line.remove(future)
        if line is not None and not line:
            del self._waiting[known][caller]

    def _next(self) -> None:
        """Let in whoever can be, each caller once before the first has another turn."""
        for known, lines in self._waiting.items():
            for caller in list(lines):
                line = lines[caller]
                while line and line[0].done():
                    line.popleft()
                if not line or not self._free(caller, known=known):
                    continue
                self._busy[caller] = known
                line.popleft().set_result(None)
                del lines[caller]
                if line:
                    lines[caller] = line


def network_of(peer: str) -> str:
    """Return by what a caller at an address is told from others: it, or its network."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), IPV6_NETWORK), strict=False))
    return str(address)
