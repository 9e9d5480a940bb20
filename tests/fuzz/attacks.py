"""Attacks: what a tenant creates, in order."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz.hostile import (
    budgets,
    composites,
    groups,
    many_budgets,
    member_groups,
    pods,
    shielded,
    trees,
)
from tests.fuzz.hostile_owners import owned, owners

steps = st.one_of(
    pods(),
    pods(),
    pods(),
    shielded(),
    trees(),
    trees(),
    owned(pods()),
    owned(pods()),
    owners(),
    composites(),
    groups(),
    member_groups,
    budgets,
    many_budgets,
)
attacks = st.tuples(st.booleans(), st.lists(steps, min_size=1, max_size=8))
"""Whether the administrator lets the tenant opt out, and what it creates, in order."""
