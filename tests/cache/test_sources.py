"""Whatever is a source of PodGroups is looked for, in its own API group, and has its dialect."""

from __future__ import annotations

import pytest

from extender.cache.discovery import CANDIDATES
from extender.groups.member_group import MemberGroupDialect
from extender.groups.registry import DIALECTS
from extender.model.group_sources import API_GROUPS, OTHER_GROUPS, SOURCES


def test_every_source_has_versions_that_may_serve_it() -> None:
    """One that lacks them would end the cache's round with a KeyError."""
    assert set(CANDIDATES) == set(SOURCES)
    for source, group in API_GROUPS.items():
        assert all(path.startswith(f"/apis/{group}/v") for path in CANDIDATES[source])


def test_podgroups_of_other_schedulers_are_named_like_their_dialect() -> None:
    assert {dialect.name for dialect in DIALECTS} >= OTHER_GROUPS


def test_a_dialect_of_podgroups_that_nobody_would_read_is_no_dialect() -> None:
    with pytest.raises(KeyError, match="flotilla"):
        type("FlotillaDialect", (MemberGroupDialect,), {"name": "flotilla"})
