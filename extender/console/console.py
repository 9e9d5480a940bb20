"""The console: which page a path is, who makes it, and what an error looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from jinja2 import Environment
from markupsafe import escape

from extender.console import (
    view_cluster,
    view_decisions,
    view_gang,
    view_gangs,
    view_observed,
    view_what_if,
)
from extender.console.asking import (
    LEAST_PRIORITY,
    MOST_COUNT,
    MOST_MANIFEST,
    MOST_PRIORITY,
    Answered,
    WhatIfAsker,
    WhatIfRequest,
)
from extender.console.board import Board
from extender.console.capture import ConsoleSource
from extender.console.events import Events
from extender.console.files import files
from extender.console.headers import ALWAYS, EVENTS, FOR_EVER, HTML, NOT_KEPT
from extender.console.missing import Missing
from extender.console.picture import Picture
from extender.console.query import Query
from extender.console.renderings import Rendering, Renderings, rendering
from extender.console.templating import environment, visible
from extender.console.worker import TooManyRenderings, Worker
from extender.gang.tell.what_ifs import TooManyAsked
from extender.model.errors import InvalidInput, NotReady
from extender.server.limits import BudgetSpent
from extender.server.pages import PREFIX, Visit
from extender.server.responses import (
    CLOSE,
    JSON,
    Body,
    BodyTooLarge,
    BodyTooLate,
    Disconnected,
    header,
    respond,
    respond_unread,
)

MOST_BODY: Final = 3 * MOST_MANIFEST + 16 * 1024
"""Bytes of a form: each character of a manifest may take three."""
FORM: Final = b"application/x-www-form-urlencoded"
log = structlog.get_logger("console")

View = Callable[[Picture, Query], Mapping[str, Any]]


class Console:
    """Implements server.pages.Pages. One event loop; pages are made on a thread of their own."""

    def __init__(self, source: ConsoleSource) -> None:
        self._source = source
        self.worker = Worker()
        self.board = Board(source, self.worker)
        self.renderings = Renderings(self.worker)
        self.events = Events(self.board)
        self._asking: WhatIfAsker | None = None
        self._templates: Environment | None = None
        self._files = files()
        self._views: dict[str, tuple[str, View]] = {
            "": ("gangs.html", view_gangs.gangs),
            "gang": ("gang.html", self._gang),
            "decisions": ("decisions.html", view_decisions.decisions),
            "cluster": ("cluster.html", view_cluster.cluster),
            "node": ("node.html", self._node),
            "observed": ("observed.html", view_observed.observed),
            "what-if": ("what_if.html", self._form),
        }

    def stopping(self) -> None:
        """End events, and take nothing more."""
        self.events.stop()
        self.worker.close()
        if self._asking is not None:
            self._asking.close()

    # -- requests -------------------------------------------------------------------------

    async def serve(self, visit: Visit) -> None:
        """Answer a request below /ui."""
        path, method = visit.scope["path"], visit.scope["method"]
        if path == PREFIX:
            # Relative, so that it holds behind a proxy that serves us under another path.
            await self._answer(visit, 308, b"", HTML, (b"location", b"ui/"))
            return
        page = path[len(PREFIX) + 1 :]
        asks = page == "what-if" and method == "POST"
        if not asks and method not in ("GET", "HEAD"):
            allowed = b"GET, HEAD, POST" if page == "what-if" else b"GET, HEAD"
            await self._answer(visit, 405, b"", HTML, (b"allow", allowed))
        elif page == "events":
            await self._events(visit)
        elif page.startswith("static/"):
            await self._file(visit, page.removeprefix("static/"))
        else:
            await self._made(visit, page, asks=asks)

    async def _made(self, visit: Visit, page: str, *, asks: bool) -> None:
        """Answer with a page, whatever becomes of making it."""
        status, more, wrong = 200, [], ""
        kind = HTML
        try:
            if asks:
                made = await self._ask(visit)
            elif page == "cells":
                kind, made = JSON, await self._page(page, visit, self._cells)
            elif page in self._views:
                made = await self._page(page, visit, partial(self._rendered, page))
            else:
                raise Missing(f"no page {page[:100]!r}")
        except Disconnected:
            return
        except (TooManyRenderings, TooManyAsked, BudgetSpent) as problem:
            status, more = 503, [(b"retry-after", b"2")]
            wrong = str(problem) or "too many bytes are being read"
        except NotReady as problem:
            status, wrong = 503, str(problem)
        except BodyTooLarge:
            status, more = 413, [CLOSE]
            wrong = f"the form has more than {MOST_BODY} bytes"
        except BodyTooLate:
            status, more = 408, [CLOSE]
            wrong = "the form did not arrive in time"
        except Missing as problem:
            status, wrong = 404, str(problem)
        except InvalidInput as problem:
            status, wrong = 400, str(problem)
        except Exception:
            log.exception("internal error", path=visit.scope["path"])
            status, wrong = 500, "internal error, see the log"
        if wrong:
            made = await self._error(visit, status, wrong)
        if status == 200 and header(visit.scope, b"if-none-match") == made.tag:
            await self._answer(visit, 304, b"", kind, (b"etag", made.tag), NOT_KEPT)
            return
        every = [(b"etag", made.tag), NOT_KEPT, *more, *ALWAYS, *visit.headers]
        if CLOSE in more:
            await respond_unread(visit.receive, visit.send, status, made.body, every, kind)
        else:
            await respond(visit.send, status, made.body, kind, every)

    async def _page(
        self, page: str, visit: Visit, make: Callable[[Picture, Query], bytes]
    ) -> Rendering:
        query = Query(visit.scope["query_string"])
        picture = await self.board.picture()
        return await self.renderings.get(
            f"{page}?{query.canonical()}", picture.version, partial(make, picture, query)
        )

    async def _events(self, visit: Visit) -> None:
        if self.events.full:
            body = b"so many pages are open already\n"
            await self._answer(visit, 503, body, b"text/plain", (b"retry-after", b"30"), NOT_KEPT)
            return
        headers = ((b"content-type", EVENTS), NOT_KEPT, *ALWAYS, *visit.headers)
        if visit.scope["method"] == "HEAD":
            await respond(visit.send, 200, b"", EVENTS, headers[1:])
            return
        await self.events.tell(visit.send, headers, visit.gone)

    async def _file(self, visit: Visit, name: str) -> None:
        found = self._files.get(name)
        if found is None:
            made = await self._error(visit, 404, f"no file {name[:100]!r}")
            await self._answer(visit, 404, made.body, HTML, NOT_KEPT)
            return
        await self._answer(visit, 200, found.body, found.kind, FOR_EVER)

    async def _error(self, visit: Visit, status: int, message: str) -> Rendering:
        """Return a page that says what is wrong; bare where the thread has too much to do."""
        # As it was sent: a browser takes %2f for no part of its own, and may not be led above us.
        sent = visit.scope.get("raw_path") or visit.scope["path"].encode()
        up = "../" * (sent.count(b"/") - PREFIX.count("/") - 1)
        context = {"up": up, "status": status, "message": message}

        def make() -> Rendering:
            return rendering(0, self._filled("error.html", "error", self.board.last, context))

        try:
            return await self.worker.run(make)
        except TooManyRenderings:
            return rendering(0, BARE % (status, escape(visible(message)).encode()))

    async def _answer(
        self, visit: Visit, status: int, body: bytes, kind: bytes, *headers: tuple[bytes, bytes]
    ) -> None:
        every = [*headers, *ALWAYS, *visit.headers]
        await respond(visit.send, status, body, kind, every)

    # -- what-if --------------------------------------------------------------------------

    async def _ask(self, visit: Visit) -> Rendering:
        if _foreign(visit):
            raise InvalidInput("was sent by a page of another site", "form")
        if not _urlencoded(visit):
            raise InvalidInput("must be application/x-www-form-urlencoded", "Content-Type")
        reading = Body(visit.budget, MOST_BODY)
        try:
            raw = await reading.read(visit.scope, visit.receive)
            asked = await self.worker.run(lambda: self._asked(Query(raw)))
        finally:
            reading.release()
        if self._asking is None:
            self._asking = WhatIfAsker(self._source)
        answered, problem = None, ""
        try:
            answered = await _unless_gone(visit, self._asking.ask(asked))
        except (InvalidInput, NotReady) as error:
            problem = str(error)
        picture = await self.board.picture()

        def make() -> bytes:
            return self._filled(
                "what_if.html",
                "what-if",
                picture,
                view_what_if.what_if(picture, self._source.settings.plan, asked, answered, problem),
            )

        return await self.worker.run(lambda: rendering(picture.version, make()))

    # -- on the worker's thread -----------------------------------------------------------

    def _rendered(self, page: str, picture: Picture, query: Query) -> bytes:
        template, view = self._views[page]
        context = view(picture, query)
        return self._filled(template, page, picture, {"query": query, **context})

    def _filled(
        self, template: str, page: str, picture: Picture | None, context: Mapping[str, Any]
    ) -> bytes:
        if self._templates is None:
            self._templates = environment()
            self._templates.globals["marks"] = {
                name: file.mark for name, file in self._files.items()
            }
        made = self._templates.get_template(template)
        capture = picture.capture if picture is not None else None
        return made.render(page_name=page, picture=picture, capture=capture, **context).encode(
            "utf-8", "replace"
        )

    def _gang(self, picture: Picture, query: Query) -> Mapping[str, Any]:
        return view_gang.gang(picture, self.board.reader.gangs, query)

    def _node(self, picture: Picture, query: Query) -> Mapping[str, Any]:
        return view_cluster.node(picture, self._source.resolver, query)

    def _form(self, picture: Picture, query: Query) -> Mapping[str, Any]:
        return view_what_if.what_if(picture, self._source.settings.plan, self._asked(query))

    def _asked(self, query: Query) -> WhatIfRequest:
        order, settings = query.text("costOrder"), self._source.settings.plan
        known = view_what_if.orders(settings)
        if order and order not in known:
            raise InvalidInput(f"{order!r} does not exist (known: {', '.join(known)})", "costOrder")
        return WhatIfRequest(
            gang=query.text("gang"),
            manifest=query.text("manifest", MOST_MANIFEST),
            priority=query.number("priority", LEAST_PRIORITY, MOST_PRIORITY),
            min_count=query.number("minCount", 1, MOST_COUNT),
            cost_order="" if order == settings.cost_order else order,
        )

    def _cells(self, picture: Picture, query: Query) -> bytes:
        return msgspec.json.encode(view_cluster.cells(picture, query))


BARE: Final = b"<!doctype html><html lang=en><title>%d</title><h1>podgroup-extender</h1><p>%b</p>"


def _foreign(visit: Visit) -> bool:
    """Whether a form comes from a page that is not ours; a browser says so, others need not."""
    site = header(visit.scope, b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = header(visit.scope, b"origin")
    if origin is None:
        return False
    return origin.partition(b"://")[2] != (header(visit.scope, b"host") or b"")


def _urlencoded(visit: Visit) -> bool:
    """Whether the body is what a browser makes of our form; unsaid it is taken for that."""
    kind = header(visit.scope, b"content-type")
    return kind is None or kind.partition(b";")[0].strip().lower() == FORM


async def _unless_gone(visit: Visit, asking: Any) -> Answered:
    """Return the answer, unless the caller leaves first. Raises Disconnected then."""
    work = asyncio.ensure_future(asking)
    leaving = asyncio.ensure_future(visit.gone())
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Disconnected
        found: Answered = work.result()
        return found
    finally:
        for task in (work, leaving):
            task.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)
