"""What a branch has decided about a unit, a gang or a budget; and shared sizes."""

cdef enum:
    OPEN = 0
    IN = 1                    # chosen; broken; paid for as exceeded
    OUT = 2                   # kept; intact; not to be exceeded
    WIDEST = 7                # couplers in one table
    WEIGHT_BITS = 20          # a unit's price is shared out in parts of 1 / 2**20
    COVER_BRANCHES = 3000     # branches of one covering knapsack
