"""Strategies of bytes: documents that are nearly right, and requests that are nearly HTTP.

Everything starts from something valid: random bytes alone do not come past the first letter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Piece = tuple[bytes, int]
"""Bytes, and how often they are sent one after the other."""

ODD_VALUES = (
    b"null",
    b"true",
    b"-0",
    b"0.1e-999",
    b"1e999999",
    b"9" * 400,
    b"-9223372036854775809",
    b"18446744073709551616",
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\xff\xfe"',
    b'"' + b"x" * 70_000 + b'"',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"[]",
    b"{}",
    b'{"metadata":{}}',
    b"NaN",
    b"Infinity",
    b"\xef\xbb\xbf",
    b"",
)
TOKENS = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"0", b"-", b"e", b"\x00", b"\x80")


class Names:
    """What exists in the cluster that is asked about."""

    def __init__(self, pods: Sequence[dict[str, Any]], victims: dict[str, str]) -> None:
        self.pods = pods
        """Pods that wait, as the API server has them."""
        self.victims = victims
        """Node -> UID of a pod there."""


def documents(names: Names) -> st.SearchStrategy[bytes]:
    """Questions, whole and spoilt."""
    good = questions(names)
    return st.one_of(good, good, spoilt(good), spoilt(good), st.binary(max_size=200))


def questions(names: Names) -> st.SearchStrategy[bytes]:
    """Valid documents, with what a caller may claim about a pod."""
    nodes = st.lists(st.sampled_from([*names.victims, "nowhere", "", "\u0000", "n" * 300]))
    priority = st.sampled_from([0, 7, 2147483647, -2147483648])
    uids = st.sampled_from([*names.victims.values(), "made-up"])

    @st.composite
    def made(draw: st.DrawFn) -> bytes:
        pod = json.loads(json.dumps(draw(st.sampled_from(names.pods))))
        pod["spec"]["priority"] = draw(priority)
        if draw(st.integers(0, 3)) == 3:
            pod["metadata"]["uid"] = draw(st.sampled_from(["made-up", "x" * 5000, ""]))
        if draw(st.booleans()):
            pod["spec"]["schedulingGroup"] = {"podGroupName": draw(st.sampled_from(["low", "x"]))}
        if draw(st.booleans()):
            question: dict[str, Any] = {"Pod": pod, "Nodes": None, "NodeNames": draw(nodes)}
        else:
            victims = {
                node: {"Pods": [{"UID": draw(uids)}], "NumPDBViolations": draw(st.integers(0, 3))}
                for node in draw(nodes)
            }
            question = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        return json.dumps(question).encode()

    return made()


@st.composite
def spoilt(draw: st.DrawFn, good: st.SearchStrategy[bytes]) -> bytes:
    """Return good bytes with some places cut out, doubled, or replaced."""
    data = draw(good)
    for _ in range(draw(st.integers(1, 4))):
        start = len(data) - draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        how = draw(st.integers(0, 5))
        if how == 5:
            data = data[:start]
        elif how == 1:
            data = data[:start] + data[end:]
        elif how == 2:
            data = data[:end] + data[start:]
        elif how == 3:
            data = data[:start] + draw(st.sampled_from(TOKENS)) + data[end:]
        elif how == 4:
            data = data[:start] + draw(st.sampled_from(ODD_VALUES)) + data[end:]
        else:
            data = _value_replaced(draw, data, start)
    return data


def _value_replaced(draw: st.DrawFn, data: bytes, start: int) -> bytes:
    """Put an odd value where one stands after a colon, or the whole key a second time."""
    colon = data.find(b":", start)
    comma = data.find(b",", colon)
    if colon < 0 or comma < 0:
        return data
    if draw(st.booleans()):
        return data[: colon + 1] + draw(st.sampled_from(ODD_VALUES)) + data[comma:]
    key = data.rfind(b'"', 0, max(0, colon - 1))
    return data[: comma + 1] + data[key : comma + 1] + data[comma + 1 :] if key >= 0 else data


PATHS = (
    b"/filter",
    b"/prioritize",
    b"/preempt",
    b"/livez",
    b"/readyz",
    b"/metrics",
    b"/debug/",
    b"/debug/decisions?limit=2",
    b"/debug/decisions?limit=99999999999999999999",
    b"/debug/snapshot?generation=1",
    b"/debug/gangs",
    b"/debug/watches",
    b"/",
    b"*",
    b"//",
    b"/%",
    b"/%zz%00",
    b"/\xff",
    b"http://other/filter",
    b"/filter?" + b"q" * 3000,
    b"/" + b"p" * 20_000,
)
METHODS = (b"POST", b"GET", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"TRACE", b"PRI", b"post", b"")
VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"HTTP/1.1 ", b"")
HEADERS = (
    b"Host: x",
    b"Host: [::1",
    b"Host: \xff:1",
    b"Origin: http://x",
    b"Sec-Fetch-Site: cross-site",
    b"Connection: close",
    b"Connection: keep-alive, upgrade",
    b"Upgrade: h2c",
    b"Upgrade: websocket",
    b"Expect: 100-continue",
    b"Content-Type: application/json",
    b"Content-Encoding: gzip",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity",
    b"Content-Length: 0",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: +7",
    b"Content-Length: 18446744073709551616",
    b"Content-Length: 300000",
    b"X-Request-Id: " + b"i" * 65,
    b"X-Request-Id: \x01",
    b"Authorization: Bearer x",
    b"X: " + b"v" * 5000,
    b" folded",
    b"No colon",
    b": no name",
    b"Bad\x00Name: x",
)


@st.composite
def requests(draw: st.DrawFn, names: Names) -> list[Piece]:
    """Return one request in pieces; often right, but for one thing."""
    method, path = b"POST", draw(st.sampled_from(PATHS[:3]))
    version, ending = b"HTTP/1.1", b"\r\n"
    headers = [draw(st.sampled_from((b"Host: localhost", b"Host: 127.0.0.1:1", b"Host: x")))]
    odd = draw(st.integers(0, 10))
    if odd == 1:
        method = draw(st.sampled_from(METHODS))
    if odd in (1, 2):
        path = draw(st.sampled_from(PATHS))
    if odd == 2:
        method = draw(st.sampled_from((b"GET", b"HEAD", b"POST")))
    if odd == 3:
        version = draw(st.sampled_from(VERSIONS))
        ending = draw(st.sampled_from((b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" \r\n")))
    if odd == 4:
        headers += draw(st.lists(st.sampled_from(HEADERS), max_size=4))
    body = draw(documents(names))
    framed = _framed(draw, body, odd)
    if framed is None:
        headers.append(b"Transfer-Encoding: chunked")
        pieces = _chunked(draw, body)
    else:
        headers.append(framed)
        pieces = [(body, 1)]
    head = ending.join([b" ".join((method, path, version)), *headers]) + ending + ending
    if odd == 5:
        head = draw(spoilt(st.just(head)))
    if odd == 6:
        where = draw(st.integers(0, len(head)))
        filler = draw(st.sampled_from((b"a" * 1000, b"x: 1\r\n" * 100, b"\r\n", b"\x00", b" ")))
        return [(head[:where], 1), (filler, draw(st.sampled_from((1, 20, 300)))), (head[where:], 1)]
    return [(head, 1), *pieces]


def _framed(draw: st.DrawFn, body: bytes, odd: int) -> bytes | None:
    """Return the header that frames the body, None for chunks."""
    if odd == 7:
        return draw(st.sampled_from(HEADERS))
    if draw(st.integers(0, 3)) == 0:
        return None
    return b"Content-Length: %d" % len(body)


def _chunked(draw: st.DrawFn, body: bytes) -> list[Piece]:
    pieces: list[Piece] = []
    step = draw(st.sampled_from((1, 7, 1000, 1 << 20)))
    if len(body) > 2000:
        step = max(step, 1000)
    spoils = draw(st.integers(0, 3)) == 3
    odd = st.sampled_from((b"00%x", b"%x;e=1", b"-%x", b"%x ", b"x%x", b"ffffffffffffffff%x"))
    size = draw(odd) if spoils else b"%x"
    for start in range(0, len(body), step):
        part = body[start : start + step]
        pieces.append(((size % len(part)) + b"\r\n" + part + b"\r\n", 1))
        if len(pieces) > 50:
            break
    ends = (b"0\r\nX: y\r\n\r\n", b"0\r\nX: ", b"", b"zz\r\n", b"0;", b"0\r\n")
    pieces.append((draw(st.sampled_from(ends)) if spoils else b"0\r\n\r\n", 1))
    if draw(st.integers(0, 9)) == 0:
        pieces.append((b"t" * 1000, 100))
    return pieces


def connections(names: Names) -> st.SearchStrategy[list[Piece]]:
    """What is sent on one connection: requests one behind the other, or bytes of any kind."""
    several = st.lists(requests(names), min_size=1, max_size=4)
    joined = several.map(lambda many: [piece for one in many for piece in one])
    noise = st.lists(st.tuples(st.binary(max_size=300), st.sampled_from((1, 100))), max_size=3)
    many = st.just([(b"GET /livez HTTP/1.1\r\n\r\n", 400)])
    return st.one_of(joined, joined, joined, noise, many)
