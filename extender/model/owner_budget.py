"""How many pods of its gang an owner can do without at a time, as Volcano's annotations say.

Source: extractBudget of volcano-sh/volcano pkg/scheduler/api/job_info.go, getMaxPodEvictNum of its
plugin tdm, which alone reads it, and validateIntPercentageStr of its webhook. Whether it counts is
not the owner's to say: model.policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from extender.model.names import quoted

MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
BUDGET_KEYS = (MIN_AVAILABLE, MAX_UNAVAILABLE)
"""The first that is there counts."""
MOST_DIGITS = 10


class OwnerBudget(Struct, frozen=True):
    """Of how many pods of a gang its owner says that they must not go."""

    key: str
    """One of BUDGET_KEYS."""
    text: str
    """The value as it is written, in at most MOST_DIGITS + 1 letters."""

    def __str__(self) -> str:
        """Return it as an annotation is written."""
        return f"{self.key}={self.text}"

    def allowed(self, members: int, bound: int) -> int:
        """Return how many of the ``bound`` of its ``members`` may go; shares are rounded up."""
        number = int(self.text.rstrip("%"))
        if self.text.endswith("%"):
            number = -(-number * members // 100)
        left = bound - number if self.key == MIN_AVAILABLE else number - (members - bound)
        return min(bound, max(0, left))


def budget_of(annotations: Mapping[str, str]) -> tuple[OwnerBudget | None, str]:
    """Return the budget that annotations state, and what is wrong with it in words.

    What is no number of at least 1 and no share from 1% to 99% is none: Volcano's webhook
    refuses it.
    """
    for key in BUDGET_KEYS:
        text = annotations.get(key)
        if text is None:
            continue
        digits = text.removesuffix("%")
        whole = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
        if whole and int(digits) > 0 and (digits == text or int(digits) < 100):
            return OwnerBudget(key, text), ""
        return None, (
            f"annotation {key} is {quoted(text)} and does not count: it must be a whole number of "
            "at least 1, or a share from 1% to 99%"
        )
    return None, ""
