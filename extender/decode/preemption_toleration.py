"""By whom and for how long a PriorityClass lets its pods not be preempted.

Source: PreemptionToleration of scheduler-plugins (its proposal 205, pkg/preemptiontoleration):
annotations of the PriorityClass, so the administrator's word. A number that cannot be read is no
toleration at all, there as here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
FROM = _PREFIX + "minimum-preemptable-priority"
SECONDS = _PREFIX + "toleration-seconds"
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


def toleration_of(value: int, annotations: Mapping[str, str]) -> tuple[int | None, int]:
    """Return (the least priority that preempts anyway, for how many seconds the others do not).

    ``value``: the class's own. (None, 0): whoever is above the class preempts, at once. Below 0
    seconds: for ever.
    """
    least = _number(annotations.get(FROM, str(value + 1)))
    seconds = _number(annotations.get(SECONDS, "0"))
    if least is None or not seconds or least <= value + 1:
        return None, 0
    return least, seconds


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
