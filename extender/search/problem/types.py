"""The narrow waist of the search: a Problem of plain integers in, a Solution out.

Nodes, units, classes and resources are indices; the names they stand for stay
with the caller. Shapes: N nodes, R resources, U victim units, C member classes,
L cost levels. All amounts are int64 in the resource's own unit; no scaling.

A solution is a set of chosen units and a count of members per (class, node)
such that, on every node, the members' requests fit into ``free`` plus what the
chosen units release there, at least ``need`` members are seated, and every
constraint below holds. Its cost is a vector of L integers, compared
lexicographically: the sum of the chosen units' costs, plus ``break_cost`` of
every gang evicted beyond its surplus, plus the excess over soft budgets.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

Vector = tuple[int, ...]
Seats = tuple[tuple[int, int, int], ...]
"""(class, node, members), sorted."""

MOST_MEMBERS = 1 << 20
"""No gang has more members than this."""


class MemberClass(Struct, frozen=True):
    """Interchangeable members: same request, same allowed nodes."""

    name: str
    """For explanations only, for example "worker (3 CPU)"."""
    request: Vector
    """(R,) what one member takes."""
    count: int
    """How many such members want a seat."""
    allowed: bytes
    """(N,) 1 where every rule other than room and the constraints below holds."""
    least: int = 0
    """At least this many of the class must be seated (quorum of a role)."""


class Unit(Struct, frozen=True):
    """What goes together or stays together."""

    uid: str
    """Last tie-break; unique."""
    releases: tuple[tuple[int, Vector], ...]
    """(node, (R,) amounts) given free when chosen; at most one entry a node."""
    cost: Vector
    """(L,) cost of choosing it. All zero: free to take (a pod already terminating)."""
    pods: int = 1
    gang: int = -1
    """Index into Problem.gangs for a pod of a gang evicted pod by pod, else -1."""
    budgets: tuple[tuple[int, int], ...] = ()
    """(budget index, pods it takes from that budget)."""


class ElasticGang(Struct, frozen=True):
    """A gang whose pods are single units: surplus is cheap, the quorum is not."""

    surplus: int
    """This many of its units may be chosen before the gang counts as broken."""
    break_cost: Vector
    """(L,) added once when more than surplus units are chosen."""


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget: at most ``allowed`` matching pods may go."""

    name: str
    allowed: int
    hard: bool
    """True: exceeding it is infeasible. False: the excess counts at ``level``."""
    level: int = 0


class Blocker(Struct, frozen=True):
    """A node that a class may use only once all of these units are chosen.

    Source: host ports and required anti-affinity in either direction, where the pods in the
    way are evictable, or wait for seats that may be taken over.
    """

    cls: int
    node: int
    units: tuple[int, ...]


class Cap(Struct, frozen=True):
    """At most ``limit`` members of these classes in each domain.

    Source: required anti-affinity among the members, host ports, topology spread.
    """

    classes: tuple[int, ...]
    domain: array[int]
    """(N,) domain of each node ('i'), -1 = the rule does not count there."""
    limit: int
    rule: str = ""
    """For explanations only, for example "host port 80/TCP"."""


class Spread(Struct, frozen=True):
    """In no domain with a bound member may there be too many more than in the emptiest one.

    With k[d] members of the ``counted`` classes seated in domain d, every domain d in
    which a member of a ``bound`` class sits has
    ``most[d] + k[d] - min over e of (fewest[e] + k[e]) <= max_skew``.
    Source: PodTopologySpread, DoNotSchedule.
    """

    bound: tuple[int, ...]
    """Classes that the rule holds for."""
    counted: tuple[int, ...]
    """Classes whose members it counts."""
    domain: array[int]
    """(N,) domain of each node ('i'), -1 = the rule neither counts nor holds there."""
    most: tuple[int, ...]
    """(D,) other pods counted in each domain. All domains, also those without a node here."""
    fewest: tuple[int, ...]
    """(D,) the same where they help the emptiest domain: apart from ``most`` only where
    it is open whether some of them stay."""
    max_skew: int
    from_zero: bool = False
    """True: the emptiest domain counts as 0 (fewer domains than minDomains)."""


class Problem(Struct, frozen=True):
    """One gang's question on one snapshot."""

    resources: tuple[str, ...]
    """(R,) names, for explanations."""
    nodes: tuple[str, ...]
    """(N,) names, in the deterministic order that breaks ties."""
    free: tuple[array[int], ...]
    """R columns of (N,) int64 ('q'): room now, other reservations already taken off.
    May be negative on an overcommitted node."""
    classes: tuple[MemberClass, ...]
    need: int
    """Seats wanted in all; at most the sum of the classes' counts."""
    units: tuple[Unit, ...]
    levels: tuple[str, ...]
    """(L,) names of the cost levels, most important first."""
    gangs: tuple[ElasticGang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    caps: tuple[Cap, ...] = ()
    spreads: tuple[Spread, ...] = ()
    domain: array[int] | None = None
    """(N,) topology domain ('i'); when given every seat lies in one domain (not -1)."""
    domain_required: bool = True
    """False: one domain is preferred; another answer counts 1 at ``domain_level``."""
    domain_level: int = -1
    fill: bool = False
    """True: once the units are settled, members beyond ``need`` are seated as well,
    as far as they fit without one more unit."""


def rules_of(kind: type[Problem]) -> dict[str, Any]:
    """What such a problem need not have -> its value where it has none."""
    defaults = kind.__struct_defaults__
    return dict(zip(kind.__struct_fields__[-len(defaults) :], defaults, strict=True))


RULES = rules_of(Problem)


def states_only(problem: Problem, known: frozenset[str]) -> bool:
    """Whether the problem has none of the RULES but the ``known`` ones.

    A solver lists those that it keeps: so it is not asked about one that it never heard of.
    """
    return all(name in known or getattr(problem, name) == none for name, none in RULES.items())


def restated(problem: Problem, **said: Any) -> Problem:
    """The problem with these fields, and with none of the RULES that are not among them.

    For a problem of other classes: a rule that nobody thought of is dropped, which leaves a bound
    a bound, where with the old indices of classes it would forbid what it should not.
    """
    return replace(problem, **(rules_of(type(problem)) | said))


class Limits(Struct, frozen=True):
    """How long to try. The node limit is the default budget: same input, same answer."""

    branch_nodes: int = 200_000


class Solution(Struct, frozen=True):
    """Seats and chosen units, with what is known about their cost."""

    seats: tuple[tuple[int, int, int], ...]
    """(class, node, members), sorted by class then node; members >= 1."""
    chosen: tuple[int, ...]
    """Indices of chosen units, ascending. No chosen unit can be put back."""
    cost: Vector
    bound: Vector
    """Lexicographic lower bound of every solution's cost; equal to cost when optimal."""
    optimal: bool
    branch_nodes: int = 0
    cut: str = ""
    """What ended the search before the cost was proved, in words: its time, its work, the
    flag. The cost is then that of the best answer found; "" where nothing did."""


class Infeasible(Struct, frozen=True):
    """No solution exists even with every unit chosen (proved), or none was found."""

    proved: bool
    reasons: tuple[str, ...]
    """For a person: which resource, class or rule is short, and by how much."""
    short: tuple[tuple[int, int], ...] = ()
    """(class, members that found no seat with every unit gone)."""


Solve = Callable[..., Solution | Infeasible]
"""As solver.search: a problem, its limits, deadline= and cancel=."""
