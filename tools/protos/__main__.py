"""Generate the code, or check it; see the package."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.protos import generate
from tools.protos.compatibility import breaking
from tools.protos.style import faults

COMMAND = "python -m tools.protos"


def main(arguments: list[str]) -> int:
    """Run from the command line; exit status 1 when something is not as it should be."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.protos [--check]", file=sys.stderr)
        return 2
    compiled = generate.descriptors()
    wrong = faults(compiled)
    stored = generate.stored()
    if stored is not None:
        wrong += [f"breaks callers: {each}" for each in breaking(stored, compiled)]
    if arguments:
        with tempfile.TemporaryDirectory() as folder:
            generate.write(Path(folder))
            wrong += generate.differences(Path(folder), generate.PACKAGE)
        if stored is None or stored != generate.plain(compiled):
            wrong.append(
                f"{generate.STORED.name} is not what proto/ says: run python -m {__package__}"
            )
    elif not wrong:
        generate.write(generate.PACKAGE)
        generate.store(compiled)
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
