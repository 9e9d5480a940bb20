"""The specification of the search: exact, plain Python, any size of number.

Takes any well-formed problem. Gives the cheapest answer (``search``, by branch and bound inside
each ``region``) or why there is none (``shortages``). Proves it with a bound that lets every node
decide on its own (``node_bounds``, over ``knapsack``). The tests hold it to brute force, and the
compiled core to it.
"""

from extender.search.reference.search import solve

__all__ = ["solve"]
