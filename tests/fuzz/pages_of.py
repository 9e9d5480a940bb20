"""Strategies of what nobody would ask a console: paths, queries, headers, forms, and readers."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from hypothesis import strategies as st
from msgspec import Struct

PAGES = ("", "gang", "decisions", "cluster", "node", "observed", "what-if", "cells", "events")
PATHS = (
    *(f"/ui/{page}" for page in PAGES),
    "/ui",
    "/ui/static/console.css",
    "/ui/static/../headers.py",
    "/ui/static/%2e%2e/%2e%2e/etc/passwd",
    "/ui/static/",
    "/ui/static/\x00",
    "/ui/../debug/gangs",
    "/ui//",
    "/ui/gang/",
    "/ui/gang/low%2f..%2f",
    "/ui/%00",
    "/ui/%ff%fe",
    "/ui/%e2%80%ae",
    "/ui/<script>",
    "/ui;x=1",
    "/UI/",
    "http://localhost/ui/gang",
    "/ui/" + "p" * 5000,
    "/ui/" + "../" * 500,
    "/ui/" + "%2f" * 900,
)
FIELDS = (
    *("by", "costOrder", "gang", "group", "manifest", "minCount", "name", "namespace", "only"),
    *("outcome", "page", "priority", "q", "show", "victim", "week", "zone", "x", ""),
)
VALUES = (
    *("pod-group:research/frontier-run", "pod-group:research/giant-eval", "pod-group:a/b"),
    *(
        "pod-group:default/low",
        "default",
        "gpu-a-00",
        "n0",
        "eu-west-1a",
        "memory",
        "nvidia.com/gpu",
    ),
    *("", " ", "0", "1", "-1", "2", "99999", "100000", "9" * 400, "1_0", "\u0661", "1e3", "NaN"),
    *(
        "plan",
        "refusal",
        "done",
        "waiting",
        "running",
        "stuck",
        "1970-01-05",
        "2026-W48",
        "9999-W99",
    ),
    *("\x00", "\u202e\U000e0041", "<img src=x onerror=alert(1)>", "' or 1=1 --", "{{7*7}}", "%s%n"),
    *("../../x", "javascript:alert(1)", "x" * 599, "x" * 601, "a:" * 200, "/" * 300, "\ud800"),
)
MANIFESTS = (
    "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n",
    "a: &a [*a]",
    "[" * 20_000,
    "- " * 9000,
    "---\n" * 3000,
    "!!python/object:os.system x",
    "\x00",
    "kind: List\nitems: [1, {}, null]",
    '{"kind": "Job", "spec": {"parallelism": 1e99}}',
)
HEADERS = (
    *("Last-Event-ID: 7", "Last-Event-ID: -1", "Last-Event-ID: " + "9" * 3000),
    *("Last-Event-ID: \xff", 'If-None-Match: "x"', "If-None-Match: *", "Accept: text/event-stream"),
    *(
        "Accept-Encoding: gzip, br",
        "Range: bytes=0-1",
        "Cookie: " + "c=d;" * 900,
        "Origin: http://x",
    ),
    *("Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin", "Expect: x"),
    *("Authorization: Basic !!", "Authorization: Basic eDp5", "Connection: close", "Upgrade: x"),
    *(
        "Content-Type: multipart/form-data; boundary=x",
        "X-Forwarded-Prefix: //evil",
        "TE: trailers",
    ),
)
HOSTS = (*("localhost",) * 9, "127.0.0.1:1", "[::1]", "evil.example", "", "\xff")
METHODS = ("GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE")


class Visit(Struct, frozen=True):
    """One connection: bytes, how often they are sent, and what becomes of its reader."""

    data: bytes
    times: int
    reads: str
    """"all", "slowly", "once" (and then goes), "never"."""


class Visits(Struct, frozen=True):
    """Connections that are open at the same time."""

    visits: list[Visit]
    listeners: int
    """Beside them so many listen to events, and vanish."""


def queries() -> st.SearchStrategy[str]:
    """Return queries: fields with odd values, and what is none at all."""
    values = st.one_of(st.sampled_from(VALUES), st.text(max_size=30))
    fields = st.lists(st.tuples(st.sampled_from(FIELDS), values), max_size=2)
    made = fields.map(lambda given: urlencode(given, errors="surrogatepass"))
    odd = (
        *("&" * 500, "a=1&" * 40, "%", "%zz=%", "page=1&page=2&page=x", "=", "?", "q=%ff%fe"),
        *("q=" + "%25" * 1500, "q=" + "x" * 8000, "\xff", "gang=%00", "page=%2B1", "\t"),
    )
    return st.one_of(st.just(""), made, made, st.sampled_from(odd))


@st.composite
def visits(draw: st.DrawFn) -> Visit:
    """Return a request that is right but for some things."""
    method, path = draw(st.sampled_from(METHODS)), draw(st.sampled_from(PATHS[: len(PAGES)]))
    if draw(st.integers(0, 2)) == 0:
        path = draw(st.sampled_from(PATHS))
    query, body = draw(queries()), b""
    headers = [f"Host: {draw(st.sampled_from(HOSTS))}"]
    headers += draw(st.lists(st.sampled_from(HEADERS), max_size=3))
    if method == "POST":
        path = draw(st.sampled_from((path, "/ui/what-if", "/ui/what-if")))
        form = draw(queries())
        if draw(st.booleans()):
            form += "&manifest=" + quote(draw(st.sampled_from(MANIFESTS)))
        body = form.encode("latin-1", "replace")
        cut = draw(st.sampled_from((0, 0, 0, 0, 1, -1, 400_000)))
        headers.append(f"Content-Length: {max(0, len(body) + cut)}")
    head = "\r\n".join((f"{method} {path}{'?' if query else ''}{query} HTTP/1.1", *headers))
    data = head.encode("latin-1", "replace") + b"\r\n\r\n" + body
    reads = draw(st.sampled_from(("all", "all", "all", "slowly", "once", "never")))
    return Visit(data=data, times=draw(st.sampled_from((1, 1, 1, 2, 100))), reads=reads)


def crowds() -> st.SearchStrategy[Visits]:
    """Return some that come at the same time."""
    return st.builds(
        Visits,
        visits=st.lists(visits(), min_size=1, max_size=4),
        listeners=st.sampled_from((0, 0, 0, 1, 5, 20)),
    )
