"""Become another program that dies with its parent.

``python launch.py PARENT PROGRAM ARGUMENT...`` asks the kernel for SIGKILL at the parent's death
and then executes the program, which inherits the wish. A test run that is itself killed with
SIGKILL therefore leaves no server behind. This is a file of its own, run without site packages,
because a ``preexec_fn`` in a process with threads may deadlock.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the death signal, make sure the parent is still there, execute."""
    parent, program, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # It died before the wish was made.
        sys.exit(1)
    os.execv(program, arguments)


if __name__ == "__main__":
    main()
