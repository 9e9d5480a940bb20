"""``python -m tests.simulation``: play many seeds, or tell the story of one."""

from __future__ import annotations

import os
import sys

if os.environ.get("PYTHONHASHSEED") != "0":
    # Sets of strings have another order in every process otherwise.
    os.execve(
        sys.executable,
        [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
        {**os.environ, "PYTHONHASHSEED": "0"},
    )

from tests.simulation.command import main

sys.exit(main())
