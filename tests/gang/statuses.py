"""A gang's status of what little is known."""

from __future__ import annotations

from collections.abc import Sequence

from extender.gang.tell.gang_status import Facts, GangStatus, GangStatuses
from extender.gang.tell.leaving import Obj


def status(
    gang: Obj,
    plans: Sequence[Obj] = (),
    decisions: Sequence[Obj] = (),
    now: float | None = None,
) -> GangStatus:
    return GangStatuses(Facts((), plans, (), decisions, now=now)).of(gang)
