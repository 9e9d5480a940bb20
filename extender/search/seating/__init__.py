"""Do these members fit, with these units gone?

Takes a problem, a set of nodes and chosen units. Gives the members that fit (``room``), from
the vectors of members that each node can seat at once (``patterns``) and how these add up under
rules over several nodes (``fold``), spread rules read as bands (``spread``). Exact, or raises
TooWide where there are more ways than are looked at. ``within_budgets`` gives some answer where
hard budgets are scarce, and proves nothing.
"""
