"""The section ``fairness``: booked starts, and least run times by class."""

from __future__ import annotations

from msgspec import Struct, field

LONGEST_HORIZON = 7 * 24 * 3600.0
"""Whoever looks further ahead keeps room for gangs that nobody waits for any more."""


class ProtectionSettings(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Who has been evicted is not evicted again too soon; docs/fairness.md, Evicted before."""

    enabled: bool = False
    """Protect gangs that were evicted before. Off by default: a gang as urgent as the last
    preemptor may have to wait for them."""
    first_seconds: float = 300.0
    """A gang runs undisturbed for this long after its first eviction, and for twice as long after
    each further one."""
    longest_seconds: float = 3600.0
    """The longest such protection."""
    forget_seconds: float = 86_400.0
    """After this long without an eviction the earlier ones are forgotten."""
    same_namespace: bool = False
    """Count evictions for gangs of the same namespace too. A tenant that may create urgent pods can
    then protect its other gangs with them."""


class FairnessSettings(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A turn for everybody; docs/fairness.md."""

    booking: bool = False
    """A gang that has waited long enough gets a booked start. Off by default: pods of no gang then
    wait for its turn, and room may stay idle."""
    patience_seconds: float = 300.0
    """A gang is booked after it has waited this long, complete and without scheduling gates."""
    booked_per_domain: int = 1
    """Most gangs that are booked at a time on nodes that more than one of them could use."""
    booked_per_namespace: int = 1
    """Most gangs of one namespace that are booked at a time."""
    idle_share: float = 0.5
    """Most of a resource of the cluster that may stay idle for all booked gangs together. A gang
    that would need more is not booked."""
    namespace_idle_share: float = 0.5
    """The same for the gangs of one namespace."""
    horizon_seconds: float = 21_600.0
    """An end of a pod further away than this counts as unknown. No gang keeps its booked place for
    longer."""
    protection: ProtectionSettings = ProtectionSettings()
    min_runtime_seconds: dict[str, float] = field(default_factory=dict)
    """Priority class: pods of it that started less than this ago are no victims. For other pods
    plan.minRuntimeSeconds counts."""


def problems_of(fairness: FairnessSettings) -> list[str]:
    """Return what is wrong with the section, with the key."""
    f, p = fairness, fairness.protection
    rules = (
        (f.patience_seconds >= 1, "fairness.patienceSeconds must be at least 1"),
        (f.booked_per_domain >= 1, "fairness.bookedPerDomain must be at least 1"),
        (f.booked_per_namespace >= 1, "fairness.bookedPerNamespace must be at least 1"),
        (0 <= f.idle_share <= 1, "fairness.idleShare must be 0..1"),
        (0 <= f.namespace_idle_share <= 1, "fairness.namespaceIdleShare must be 0..1"),
        (
            60 <= f.horizon_seconds <= LONGEST_HORIZON,
            f"fairness.horizonSeconds must be 60..{LONGEST_HORIZON:g}",
        ),
        (p.first_seconds >= 1, "fairness.protection.firstSeconds must be at least 1"),
        (
            p.first_seconds <= p.longest_seconds <= p.forget_seconds,
            "fairness.protection.longestSeconds must not be below firstSeconds, nor forgetSeconds "
            "below it",
        ),
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
