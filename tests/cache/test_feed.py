"""What subscribers and logs are told of a change, word for word."""

from __future__ import annotations

import msgspec
from structlog.testing import capture_logs

from extender.cache.feed import Change, ChangeKind, Feed
from extender.cache.stats import CacheStats

KINDS = {
    "pod",
    "node",
    "namespace",
    "budget",
    "priority-class",
    "group",
    "group-sources",
    "ended-member",
}


def test_kinds_of_changes_are_written_as_ever() -> None:
    assert {str(kind) for kind in ChangeKind} == KINDS


def test_a_subscriber_that_fails_is_counted_and_told_with_the_kind() -> None:
    def broken(change: Change) -> None:
        raise RuntimeError("broken on purpose")

    stats = CacheStats()
    feed = Feed(stats)
    feed.subscribe(broken)
    with capture_logs() as lines:
        feed.emit(ChangeKind.GROUP_SOURCES, None, None)
    assert stats.subscriber_errors == 1
    told = {key: lines[0][key] for key in ("event", "kind")}
    assert msgspec.json.encode(told) == b'{"event":"subscriber failed","kind":"group-sources"}'
