"""More kinds of members than an exact search comes to an end with.

Takes a problem and an exact solver for few classes. Gives an answer and a bound that may lie
apart: near kinds are taken for one that asks the most, or the least, of each (``alike``); or
members are seated one after the other, wherever they fit first (``first_fit``). Proves the
bound; every answer is verified on the true problem.
"""
