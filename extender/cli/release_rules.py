"""Rules on what the kube-scheduler of a manifest's image knows: its release is read off the tag."""

from __future__ import annotations

import re
from collections.abc import Iterator

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.cli.kubescheduler import CommandLine

Minor = tuple[int, int]

KNOWN_GATES: dict[str, tuple[Minor, Minor | None]] = {
    "GenericWorkload": ((1, 35), None),
    "GangScheduling": ((1, 35), (1, 36)),
    "WorkloadAwarePreemption": ((1, 36), (1, 36)),
}
"""Gate -> the first and the last minor that know it (None: still there in 1.37).

Source: pkg/features/kube_features.go of v1.34.4, v1.35.4, v1.36.3 and v1.37.0.
"""

_TAG = re.compile(r":v?(\d+)\.(\d+)\.[^:/@]*(?:@[^/]*)?$")


def unknown_gate_findings(line: CommandLine) -> Iterator[Finding]:
    """Gates, on or off, that this kube-scheduler refuses to start with."""
    image = line.container.get("image")
    release = minor_of(image) if isinstance(image, str) else None
    if release is None:
        return
    for gate in line.gates:
        if gate not in KNOWN_GATES:
            continue
        first, last = KNOWN_GATES[gate]
        if release < first or (last is not None and release > last):
            problem = f"is unknown to kube-scheduler {release[0]}.{release[1]}"
            yield broken("gate-unknown", f"{line.source}: --feature-gates: {gate}", problem)


def minor_of(image: str) -> Minor | None:
    """The minor that an image's tag names; None where it names none."""
    found = _TAG.search(image)
    return (int(found[1]), int(found[2])) if found else None
