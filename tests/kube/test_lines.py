from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.kube.api_errors import Unavailable
from extender.kube.lines import LineSplitter


@given(
    st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b and b != b"\r")),
    st.lists(st.integers(1, 7), min_size=1),
)
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter()
    got: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        got += splitter.feed(stream[at : at + size])
        at += size
        turn += 1
    assert got == lines
    assert not splitter.pending


def test_half_a_line_is_pending_and_never_handed_out() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert splitter.pending
    assert splitter.feed(b":2}\n") == [b'{"b":2}']
    assert not splitter.pending


def test_a_line_without_end_is_refused_before_memory_runs_out() -> None:
    splitter = LineSplitter(max_line=100)
    for _ in range(10):
        assert splitter.feed(b"x" * 10) == []
    with pytest.raises(Unavailable, match="more than 100 bytes"):
        splitter.feed(b"x")
