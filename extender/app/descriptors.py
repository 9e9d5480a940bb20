"""As many open files as are allowed: each bind that is held over HTTP is a connection."""

from __future__ import annotations

import resource

OTHERS = 2048
"""Connections of other callers and to the API server, files, and what libraries open."""


def allow(held: int) -> None:
    """Raise the soft limit as far as ``held`` connections need and the hard limit lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = held + OTHERS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
