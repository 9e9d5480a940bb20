"""A second opinion from HiGHS, an optional extra: proofs for small contested problems.

Takes a problem whose every member needs a seat, and what is known of it. Gives the better answer
and the higher bound: ``rows`` writes a program of whole numbers, ``by_level`` asks for one cost
level after the other. Believed is only what whole numbers confirm.
"""

from extender.search.highs.by_level import available, improve, takes

__all__ = ["available", "improve", "takes"]
