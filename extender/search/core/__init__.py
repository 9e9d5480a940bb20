"""The exact core: modules written in Cython, built where a compiler is at hand.

``one_class`` is the door for Python: it takes gangs of one class, gives the optimum, or answer and
bound, and proves it by branch and bound over the parts (docs/search-core.md).
``several`` asks ``branch_and_bound``, ``multi_class_bound`` and ``packing`` itself.
"""
