"""A second opinion from HiGHS, an optional extra: proofs for small contested problems.

Takes a problem whose every member needs a seat, and what is known of it. Gives the better answer
and the higher bound: ``rows`` writes a program of whole numbers, ``by_level`` asks for one cost
level after the other. Believed is only what whole numbers confirm.
"""

from extender.search.highs.by_level import available, improve, takes
from extender.search.highs.column_rows import Sets

__all__ = ["Sets", "available", "improve", "takes"]
