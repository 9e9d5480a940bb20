"""What is asked of a search, what it answers, and what both are held to.

Takes nothing from the other rooms. Gives the types (``types``), the check of a problem
(``validate``), the one definition of cost (``cost``), the check of an answer that shares no
code with any solver (``verify``), the one way in which a search ends early (``stop``), where
all seats may lie (``seat_regions``) and a refusal in words (``unanswered``). Proves, of every
answer that ``verify`` accepts, that its members fit with its units gone.
"""

from extender.search.problem.types import (
    MOST_MEMBERS,
    Blocker,
    Budget,
    Cap,
    ElasticGang,
    Infeasible,
    Limits,
    MemberClass,
    Problem,
    Solution,
    Spread,
    Unit,
    Vector,
)

__all__ = [
    "MOST_MEMBERS",
    "Blocker",
    "Budget",
    "Cap",
    "ElasticGang",
    "Infeasible",
    "Limits",
    "MemberClass",
    "Problem",
    "Solution",
    "Spread",
    "Unit",
    "Vector",
]
