"""What is missing on this machine, in plain words: ``./run doctor [--ci]``.

Standard library only, and written so that a Python which is too old for the program (3.7) still
reads it.
``machine`` looks, ``checks`` judges.
"""
