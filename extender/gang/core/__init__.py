"""What becomes of a plan: preemptions, victim groups, reservations, records and recovery.

It is to become a pure core: files here still ask clocks and start tasks.
"""
