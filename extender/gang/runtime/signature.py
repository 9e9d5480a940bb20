"""Who wrote a plan record: a signature that only who has our key can make.

A record is permission to go on evicting after a restart, and whoever may write ConfigMaps in its
namespace can write one. Names, labels, owners and field managers are the writer's to choose, so
none of them says who it was. A key does, and a file is enough for it: mounted from a Secret of
our own namespace it needs no right to read Secrets through the API. Without a key the namespace's
RBAC is what keeps strangers' records out.

What is signed is the record's name (gang and plan id), its epoch and all of its parts, so that
nothing of it can be changed or moved to another plan.

A key is replaced by putting the new one before the old one: the first signs, each is believed. A
unit that has gone in part must be finished, whichever of them has signed its record.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from extender.model.errors import InvalidInput
from extender.model.texts import counted

LEAST_KEY_BYTES = 32
"""As many as the digest has: RFC 2104 discourages fewer."""

MOST_KEY_BYTES = 64 * 1024
"""Of a whole file: more is no key."""


class Signer:
    """Signs and verifies; without a key every signature is "" and nothing is verified."""

    def __init__(self, key: bytes = b"") -> None:
        """``key``: one, or one a line (see ``keys_of``)."""
        self._keys = keys_of(key)

    @property
    def signs(self) -> bool:
        """Whether there is a key."""
        return bool(self._keys)

    def sign(self, name: str, epoch: int, digest: bytes) -> str:
        """Return the signature of the record ``name`` whose parts have this ``digest``."""
        return _sign(self._keys[0], name, epoch, digest) if self._keys else ""

    def problem(self, name: str, epoch: int, digest: bytes, signature: str) -> str:
        """Return why the record is not surely ours, "" when it is, or when nobody can tell."""
        if not self._keys:
            return ""
        if not signature:
            return "it is not signed"
        for key in self._keys:
            expected = _sign(key, name, epoch, digest)
            if hmac.compare_digest(expected.encode(), signature.encode()):
                return ""
        return "its signature is not made with our key"


def _sign(key: bytes, name: str, epoch: int, digest: bytes) -> str:
    text = f"{name}\n{epoch}\n".encode() + digest
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def keys_of(text: bytes) -> list[bytes]:
    """Return the keys in a file's text: its lines, where each could be a key; else all of it."""
    lines = [line for line in (each.strip() for each in text.split(b"\n")) if line]
    if all(len(line) >= LEAST_KEY_BYTES for line in lines):
        return lines
    return [text]


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return what stands for a record's parts in its signature."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def read_key(path: str) -> bytes:
    """Return the key or keys in a file, b"" for no file at all. Raises InvalidInput."""
    if not path:
        return b""
    try:
        with Path(path).open("rb") as file:
            key = file.read(MOST_KEY_BYTES + 1).strip()
    except OSError as error:
        raise InvalidInput(f"seats.recordKeyFile: {error}") from error
    if len(key) > MOST_KEY_BYTES:
        raise InvalidInput(f"seats.recordKeyFile: {path} holds more than {MOST_KEY_BYTES} bytes")
    if len(key) < LEAST_KEY_BYTES:
        raise InvalidInput(
            f"seats.recordKeyFile: {path} holds {counted(len(key), 'byte')}, "
            f"a key has {LEAST_KEY_BYTES} at least"
        )
    return key
