"""A dialect that is added is added to each table that is keyed by dialects or by their owners."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from extender.groups.dialect import Dialect
from extender.groups.makers import BY_OWNER, JOBSET
from extender.groups.registry import DIALECTS
from extender.groups.workload_priority import KINDS
from extender.model.owner_kinds import OWNER_KINDS
from tests.fuzz import hostile, hostile_owners
from tests.groups import test_made_again

OWNED_BY_OTHERS = {"leader-worker-set"}
"""Dialects of which the gang's owner does not own the pods: StatefulSets do."""


def test_kueues_workload_of_each_owner_is_known() -> None:
    assert set(chain.from_iterable(KINDS.values())) == set(OWNER_KINDS)


def test_an_owner_that_is_made_again_is_told_apart_or_cannot_be() -> None:
    assert BY_OWNER | {JOBSET} | OWNED_BY_OTHERS == set(KINDS)
    assert BY_OWNER | {JOBSET} == set(test_made_again.PODS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.name))
def test_hostile_pods_are_of_every_dialect(dialect: Dialect) -> None:
    text = Path(hostile.__file__).read_text() + Path(hostile_owners.__file__).read_text()
    assert not dialect.keys or any(f'"{key}"' in text for key in dialect.keys)
