"""What the search answers: seats and victims with proof, or a refusal with the reason."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import Annotated

from msgspec import Meta, Struct

from extender.model.objects import GangKey, Requests


class Seat(Struct, frozen=True, gc=False):
    """One member's planned place."""

    uid: str
    namespace: str
    name: str
    node: str


class Hold(Struct, frozen=True, gc=False):
    """One seat that is promised and not yet taken."""

    gang: GangKey
    priority: int
    uid: str
    node: str
    requests: Requests
    firm: bool = False
    """The gang is being seated: no other plan may take the seat over."""


LeavingPod = tuple[str, Requests]
"""(uid, what of its room): a pod whose room, once it is gone, seats on its node count on."""


class Victim(Struct, frozen=True, gc=False):
    """One pod to evict, and why."""

    uid: str
    namespace: str
    name: str
    node: str
    priority: int
    gang: str = ""
    """The victim's gang key as text, "" for a single pod."""
    grace: int = 30
    """Its grace period in seconds."""
    reason: str = ""
    """Why this pod, for example "its room on n0 is needed and its gang is evicted as a whole"."""
    unit: str = ""
    """What is evicted together with it: the key of a gang that is evicted as a whole, else ""."""
    owner: str | None = None
    """KIND/NAME of what makes another pod in its place, "" for nothing, None where not known."""
    lost: Annotated[int, Meta(ge=0)] = 0
    """GPU-seconds of work that are lost with it, when the plan is made; a restart is none."""


class Cost(Struct, frozen=True, gc=False):
    """One level of the cost vector, most important first in a Plan."""

    level: str
    """For example "pdb-violations", "gangs@1000", "pods@1000", "work"."""
    value: int
    """What the plan costs at this level."""
    bound: int
    """A value no plan can get below, given the levels above it."""


class Proof(StrEnum):
    """What is known of a plan's cost."""

    OPTIMAL = "optimal"
    """Every level equals its bound."""
    BOUNDED = "bounded"
    """None gets below the bounds, and they leave a gap."""
    NONE = ""
    """There is no plan that it could be of."""


class Plan(Struct, frozen=True, gc=False):
    """Seats plus victims, of provably least cost or with the gap stated."""

    gang: GangKey
    priority: int
    seats: tuple[Seat, ...]
    victims: tuple[Victim, ...]
    """By descending priority, then uid."""
    waits_for: tuple[Victim, ...] = ()
    """Pods already terminating whose room the seats need."""
    costs: tuple[Cost, ...] = ()
    proof: Proof = Proof.BOUNDED
    explanation: tuple[str, ...] = ()
    generation: int = 0
    """The snapshot generation it was made on."""
    takes_over: tuple[GangKey, ...] = ()
    """Less urgent gangs whose reserved seats this plan uses."""
    spared: str = ""
    """What a cheaper plan would need, in words; the explanation says it too."""

    @property
    def longest_grace(self) -> int:
        """How long, in seconds, who has to go may take before the seats are free."""
        return max((each.grace for each in (*self.victims, *self.waits_for)), default=0)


class Way(Struct, frozen=True, gc=False):
    """What would change a refusal, as far as one search can tell."""

    text: str
    """In words."""
    priority: int | None = None
    """Ask again with this priority."""
    min_count: int | None = None
    """Ask again with this quorum."""


class Code(StrEnum):
    """Why there is no plan, as programs read it."""

    INCOMPLETE = "incomplete"
    INFEASIBLE = "infeasible"
    CONFLICT = "conflict"
    NOT_NEEDED = "not-needed"
    # What is told without asking the planner:
    STALE = "stale"
    CHANGED = "changed"
    SETTLING = "settling"
    PENALTY = "penalty"
    UNSEEN = "unseen"
    API = "api"
    NOT_ENFORCED = "not-enforced"
    SUSPENDED = "suspended"
    TURN = "turn"
    BUDGET = "budget"
    BOOKED = "booked"
    SCALE_UP = "scale-up"


class Refusal(Struct, frozen=True, gc=False):
    """Why a gang cannot be helped now. Nothing is evicted."""

    gang: GangKey
    code: Code
    message: str
    details: tuple[str, ...] = ()
    generation: int = 0
    ways: tuple[Way, ...] = ()
    """Each by itself would change it, or may; told only where a search says no."""
    until: float = inf
    """When time alone may change it, in seconds since the epoch: somebody may be evicted then."""
