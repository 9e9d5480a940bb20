"""Which victims, and which seats: the pure search from a Problem to a Solution.

Rooms, each importing only from those below it (pyproject.toml):

==============  ==================================================================================
``solver``      the entry: ``solve(problem)``; against a deadline, who is asked after whom
``dispatcher``  a table: which problem goes to which solver, and why
``several``     exact, several classes and rules over several nodes: the core bounds, Python seats
``kinds``       many kinds of members taken for few: an answer and a bound
``highs``       a second opinion, where HiGHS is installed
``reference``   exact, plain Python: the specification, and what answers where nothing was compiled
``core``        exact, compiled: one class; and the parts that ``several`` asks
``seating``     do these members fit, with these units gone
``census``      from the cluster to a problem: which pods are worth looking at
``problem``     what is asked and answered; its check, its cost, the check of an answer
==============  ==================================================================================

docs/search.md has the model and the proofs, docs/search-solvers.md a map to the files.
"""
