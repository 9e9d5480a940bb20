"""The section ``fairness``: booked starts, and least run times by class."""

from __future__ import annotations

from msgspec import Struct, field


class FairnessSettings(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A turn for everybody; docs/fairness.md."""

    booking: bool = False
    """Whether a gang that has waited long enough gets a booked start. Off: whoever may make pods
    of a priority may keep room idle for a gang of that priority (docs/fairness.md)."""
    patience_seconds: float = 300.0
    """For how long a gang has to have waited, since its last member was made."""
    booked_per_domain: int = 1
    """Gangs booked at a time on nodes that more than one of them could use."""
    idle_share: float = 0.5
    """Where the end of a pod that is waited for is not sure: the most of a resource of the whole
    cluster that may stand idle for one booked gang. A gang that could need more is not booked."""
    min_runtime_seconds: dict[str, float] = field(default_factory=dict)
    """Priority class -> pods of it that started less than this ago are never victims; the
    others are ruled by plan.minRuntimeSeconds."""


def problems_of(fairness: FairnessSettings) -> list[str]:
    """Return what is wrong with the section, with the key."""
    f = fairness
    rules = (
        (f.patience_seconds >= 1, "fairness.patienceSeconds must be at least 1"),
        (f.booked_per_domain >= 1, "fairness.bookedPerDomain must be at least 1"),
        (0 <= f.idle_share <= 1, "fairness.idleShare must be 0..1"),
        *(
            (
                bool(name) and seconds >= 0,
                f"fairness.minRuntimeSeconds: {name!r} must be the name "
                "of a priority class, and its seconds not negative",
            )
            for name, seconds in f.min_runtime_seconds.items()
        ),
    )
    return [text for fine, text in rules if not fine]
