"""Gangs of several classes, and rules over several nodes: the core bounds, Python seats.

Takes what the core does not answer alone. Gives the optimum, or answer and bound: ``mixed`` is
branch and bound as in the reference with the core's bounds, from each class by itself and all
of them at once (``class_bounds``, ``parts``, ``reductions``) and from each domain by itself
(``by_domain``). Answers come class by class (``class_seating``), from seats for a class of one
member (``leaders``) and from changed problems (``repairs``).
``packed_room`` has the core decide whether the members fit. ``leading_class`` tries first whether
one class decides for all. Proves nothing that the core and the reference's room did not.
"""
