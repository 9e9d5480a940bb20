"""What one object may cost in memory: a few times its JSON, however it is written.

Decoded, a short text costs fifty bytes and more: 150,000 labels of two letters are 1.5 MiB of
JSON and 30 MiB of records. Such a part of an object is not read; what is done instead stands with
each part. No object that somebody needs is written so: a part of a few hundred entries is always
read, and a larger one whenever its texts are long enough.
"""

from __future__ import annotations

import msgspec

ALWAYS_READ = 32 * 1024
"""Estimated bytes in memory up to which a part is read whatever its JSON has."""
MOST_TIMES = 2
"""Above that: how many times its JSON it may take."""
TEXT_BYTES = 64
"""What each text costs besides its letters, with its place in what holds it."""
LARGE = 4096
"""Bytes of JSON from which on a part is not remembered: nobody else has the same."""
MOST_NAME = 320
"""Letters of the longest name that means anything (a label key has 317)."""
OVERSIZE = "oversize"
"""Among PodShape.unmodelled: constraints that were too many to be read."""
TOO_MANY = "podgroup-extender.io/too-many-resources"
"""Stands for the resources of a pod beyond MOST_RESOURCES; no node has it."""
MOST_RESOURCES = 128
MOST_PARTS = 256
"""Parts of one owner or one gang; an object that names more is not read."""


def estimate(data: bytes) -> int:
    """Return about how many bytes this JSON takes once it is decoded."""
    return len(data) + TEXT_BYTES * (data.count(b'"') // 2)


def weigh(parts: object) -> int:
    """Return about how many bytes records take; not cheap, for what is kept only."""
    return estimate(msgspec.json.encode(parts))


def dense(data: bytes) -> bool:
    """Whether this JSON would take more memory, decoded, than its size lets it."""
    if len(data) <= ALWAYS_READ // (1 + TEXT_BYTES // 2):
        return False  # nothing so short can
    size = estimate(data)
    return size > ALWAYS_READ and size > MOST_TIMES * len(data)


def named(text: str) -> str:
    """Return a name, cut where no name goes on; what is longer stays too long."""
    return text if len(text) <= MOST_NAME else text[: MOST_NAME + 1]
