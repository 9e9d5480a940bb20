"""Jobs to be replayed, as a CSV file has them.

Columns (itp-2021's, others are ignored): ``job_id``; ``submission_time``, seconds from the start
of the collection; ``duration``, seconds; ``num_gpu``, all of the job's GPUs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from msgspec import Struct

from extender.model.errors import InvalidInput

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")
MOST_JOBS = 1_000_000
MOST = 2**40
"""Of seconds and of GPUs."""


class Job(Struct, frozen=True, gc=False):
    """One job: all of its members run together, or it makes no progress."""

    name: str
    submitted: float
    """Seconds."""
    seconds: float
    """How long it runs if nothing stops it."""
    members: int
    gpus: int
    """Of each member."""
    priority: int

    @property
    def gpu_seconds(self) -> float:
        """Its work."""
        return self.seconds * self.members * self.gpus


def read(
    lines: Iterable[str], gpus_per_node: int, priorities: Mapping[int, float]
) -> tuple[Job, ...]:
    """Return the jobs by submission. A job of more GPUs than a node has is a gang of whole nodes.

    ``priorities``: priority -> share of the jobs. Which job has which follows from its name alone,
    so two replays give a job the same one. Raises InvalidInput that names the line.
    """
    rows = csv.DictReader(lines, strict=True)
    lacking = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if lacking:
        raise InvalidInput(f"line 1 names no column {', '.join(lacking)}")
    jobs: list[Job] = []
    try:
        for row in rows:
            if len(jobs) == MOST_JOBS:
                raise InvalidInput(f"more than {MOST_JOBS:,} jobs")
            jobs.append(_job(row, rows.line_num, gpus_per_node, priorities))
    except csv.Error as problem:
        raise InvalidInput(f"after line {rows.line_num}: {problem}") from problem
    if not jobs:
        raise InvalidInput("there is no job in it")
    return tuple(sorted(jobs, key=lambda job: (job.submitted, job.name)))


def _job(
    row: Mapping[str, str], line: int, gpus_per_node: int, priorities: Mapping[int, float]
) -> Job:
    submitted, seconds, gpus = (_number(row, name, line) for name in COLUMNS[1:])
    if gpus != int(gpus) or gpus < 1:
        raise InvalidInput(f"line {line}: num_gpu is {row['num_gpu']}, not a whole number above 0")
    members = -(-int(gpus) // gpus_per_node)
    name = row["job_id"]
    priority = _drawn(name, priorities)
    return Job(name, submitted, seconds, members, -(-int(gpus) // members), priority)


def _number(row: Mapping[str, str], name: str, line: int) -> float:
    text = row[name]
    try:
        found = float(text)
    except (TypeError, ValueError):
        raise InvalidInput(f"line {line}: {name} is {text!r}, not a number") from None
    if not 0 <= found <= MOST:
        raise InvalidInput(f"line {line}: {name} is {text}, not between 0 and {MOST:,}")
    return found


def _drawn(name: str, priorities: Mapping[int, float]) -> int:
    """Return the priority that a name's hash falls on."""
    at = int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) / 2**64
    at *= sum(priorities.values())
    for priority, share in sorted(priorities.items()):
        at -= share
        if at < 0:
            return priority
    return max(priorities)
