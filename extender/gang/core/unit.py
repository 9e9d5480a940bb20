"""What is known of a victim unit that is being evicted, and who is told how that goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Victim


class Fate(Enum):
    """What is known of one victim's eviction."""

    WAITING = "waiting"
    """Nothing was sent, or the pod was found unharmed after what was sent."""
    ASKED = "asked"
    """A request is on its way, or its answer was unclear: the pod may go at any moment."""
    ACCEPTED = "accepted"
    """The API server has said yes."""
    REFUSED = "refused"
    """The API server, or our own last check, keeps saying no."""


class Fates(MutableMapping[str, Fate]):
    """uid -> fate, and who has which: it is asked for at every verb while thousands go."""

    def __init__(self, fates: Mapping[str, Fate]) -> None:
        self._fates: dict[str, Fate] = {}
        self._those: dict[Fate, set[str]] = {}
        """Those that somebody has: an emptied set takes as long to look through as a full one."""
        self.update(fates)

    def __getitem__(self, uid: str) -> Fate:
        return self._fates[uid]

    def __setitem__(self, uid: str, fate: Fate) -> None:
        if uid in self._fates:
            self._lose(uid)
        self._fates[uid] = fate
        self._those.setdefault(fate, set()).add(uid)

    def __delitem__(self, uid: str) -> None:
        self._lose(uid)
        del self._fates[uid]

    def _lose(self, uid: str) -> None:
        fate = self._fates[uid]
        self._those[fate].remove(uid)
        if not self._those[fate]:
            del self._those[fate]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fates)

    def __len__(self) -> int:
        return len(self._fates)

    def those(self, fate: Fate) -> AbstractSet[str]:
        """Return the uids of those with this fate."""
        return self._those.get(fate, frozenset())


class EvictionUnit(Struct, kw_only=True):
    """A victim unit that is being evicted."""

    plan_id: str
    preemptor: GangKey
    priority: int
    """The plan's; nobody at or above it goes."""
    name: str
    """The gang that goes whole as text, or the pod's uid."""
    whole: bool
    """Its pods go together, or not at all."""
    size: int
    """How many pods it had at first."""
    beside: frozenset[str]
    """Uids of its gang's pods that had a node when it was begun and do not go with it."""
    victims: dict[str, Victim]
    """uid -> victim not yet seen gone."""
    fates: Fates
    """What is known of each of them."""
    budgeted: frozenset[str]
    message: str
    must_go: set[str] = field(default_factory=set)
    """Uids of those who go whatever becomes of the plan, or have gone: they were there when one of
    theirs went by our hand. A pod made anew since is a victim of its plan, and no more."""
    touched_at: float = 0.0
    """When one of them went first, monotonic."""
    undecided: set[str] = field(default_factory=set)
    """Uids of pods a request is under way for, whose answer will tell by whose hand they go."""
    went: dict[str, tuple[float, Victim]] = field(default_factory=dict)
    """Uids of those that were seen going before it was known by whose hand: since when, monotonic.
    """
    came: list[tuple[float, Victim]] = field(default_factory=list)
    """Who goes with the rest if it is found to have been touched by a request in doubt, not before
    it was offered its node; that monotonic time first."""
    doubtful_until: float = 0.0
    """Until when a request that was lost sight of may still arrive."""
    released: bool = False
    """Its plan is over."""
    error: str = ""
    """Why it cannot be finished now."""
    marked: set[str] = field(default_factory=set)
    """Victims that have their condition DisruptionTarget, or were to get it."""
    compared: Gang | None = None
    """The gang when its extent was last compared; another object when that changed."""
    joined: set[str] = field(default_factory=set)
    """Uids of those who came to a node after it was begun, and go with it; no plan names them."""
    queued: set[str] = field(default_factory=set)
    """Victims that wait for their turn."""
    driven: set[str] = field(default_factory=set)
    """Victims a task looks after."""

    @property
    def touched(self) -> bool:
        """Whether it has gone in part by our hand."""
        return not self.must_go.isdisjoint(self.victims)

    @property
    def waits_for_answers(self) -> bool:
        """Whether a pod of it may go, or may have gone, by a request that is under way."""
        return bool(self.undecided or self.fates.those(Fate.ASKED))

    def owes(self, now: float) -> bool:
        """Whether pods of it must go and do not yet, or may by a request that is under way.

        ``now`` is monotonic.
        """
        if self.waits_for_answers or not self.must_go.isdisjoint(self.fates.those(Fate.WAITING)):
            return True
        doubtful = now < self.doubtful_until
        return doubtful and not self.must_go.isdisjoint(self.fates.those(Fate.REFUSED))

    def in_doubt(self, now: float) -> bool:
        """Whether a pod of it may go by a request that is under way, or that was lost sight of."""
        return self.waits_for_answers or now < self.doubtful_until

    @property
    def owed(self) -> tuple[Victim, ...]:
        """Victims that cannot be forgotten: they must go, or they must if one goes that may."""
        doubt = self.doubtful_until > 0 or self.waits_for_answers
        return tuple(v for v in self.unsent if doubt or v.uid in self.must_go)

    @property
    def unsent(self) -> tuple[Victim, ...]:
        """Victims that are there and whose eviction is not accepted."""
        return tuple(v for uid, v in self.victims.items() if self.fates[uid] is not Fate.ACCEPTED)


def beside(other: Victim, pod: Pod) -> Victim:
    """Return a victim that goes with another one, for the same reasons."""
    return replace(
        other,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        priority=pod.priority,
        grace=min(pod.grace, other.grace),
    )


class EvictionListener(Protocol):
    """Who is told how evictions go."""

    def still_holds(self, unit: EvictionUnit) -> bool:
        """Whether the unit's plan holds on the newest state."""

    def eviction_sent(self, unit: EvictionUnit, victim: Victim) -> None:
        """The API server has accepted one eviction."""

    def eviction_refused(self, unit: EvictionUnit, victim: Victim, why: str) -> None:
        """One eviction is refused for good. If the pod must go, its gang is broken until then."""

    def recorded(self, unit: EvictionUnit) -> bool:
        """Whether there is a record of the unit's plan, and will be while more is owed."""

    def completing(self, unit: EvictionUnit) -> bool:
        """Whether a plan in flight counts on what is left of a unit that has gone in part."""

    def whole_again(self, unit: EvictionUnit) -> None:
        """A unit that went in part has become whole by others: its plan does not hold."""

    def unit_ended(self, unit: EvictionUnit) -> None:
        """All pods of the unit are gone, or it is let go of untouched."""
