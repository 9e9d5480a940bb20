"""Who may be a member is known by the keys told: none of a gang that waits goes without one."""

from __future__ import annotations

import pytest

from extender.groups.markers import KEYS, gang_keys
from extender.groups.registry import DIALECTS
from extender.groups.resolver import Resolver
from extender.model.custom_groups import CustomGroup
from extender.model.objects import Pod
from extender.model.settings import GroupSettings
from tests.groups import recorded
from tests.groups.build import pod


def test_every_dialect_has_its_keys() -> None:
    assert set(KEYS) == {dialect.name for dialect in DIALECTS}


@pytest.mark.parametrize("system", recorded.EVERY)
def test_a_member_has_a_key_and_without_it_is_none(system: str) -> None:
    keys = set(gang_keys(GroupSettings()))
    resolver = Resolver(GroupSettings())
    meta = recorded.EVERY[system](1, 4, "g")
    marks: dict[str, dict[str, str]] = {
        name: meta.get(name) or {} for name in ("labels", "annotations")
    }
    member = resolver.member_key(_pod(marks))
    assert member is not None
    assert keys & {key for found in marks.values() for key in found}, member
    bare = {
        name: {key: value for key, value in found.items() if key not in keys}
        for name, found in marks.items()
    }
    assert resolver.member_key(_pod(bare)) is None


def _pod(marks: dict[str, dict[str, str]]) -> Pod:
    return pod("p", labels=marks["labels"], annotations=marks["annotations"])


def test_indexed_jobs_count_where_they_start_whole() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    assert index not in gang_keys(GroupSettings())
    assert index in gang_keys(GroupSettings(starts_whole={"indexed-job": True}))


def test_custom_groups_and_only_enabled_dialects() -> None:
    custom = (
        CustomGroup(name="one", label="x.example/run", size=2),
        CustomGroup(name="two", annotation="x.example/id", size=2),
    )
    settings = GroupSettings(dialects=("jobset", "pod-group"), custom=custom)
    assert gang_keys(settings) == (
        "jobset.sigs.k8s.io/jobset-name",
        "x.example/id",
        "x.example/run",
    )
