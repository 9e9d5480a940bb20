"""Command lines of Go programs (pflag, as Kubernetes' components use it) and of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from posixpath import normpath
from typing import Any

from extender.check.workloads import items

TRUE = ("1", "t", "T", "TRUE", "true", "True")
"""What strconv.ParseBool takes for true."""


def words_of(container: dict[str, Any]) -> list[str]:
    """Command and arguments in one list; what is no text is left out."""
    found: list[str] = []
    for key in ("command", "args"):
        value = container.get(key)
        found += (
            [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
        )
    return found


def parse(words: Sequence[str]) -> dict[str, list[str]]:
    """``--name=value`` and ``--name value`` as lists of values.

    A flag without a value has "". Underscores in names are dashes (WordSepNormalizeFunc in
    k8s.io/component-base/cli/flag).
    """
    flags: dict[str, list[str]] = {}
    for position, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = words[position + 1] if position + 1 < len(words) else ""
        if not equals and not following.startswith("-"):
            value = following
        flags.setdefault(name.replace("_", "-"), []).append(value)
    return flags


def holds(flags: dict[str, list[str]], name: str, *, default: bool) -> bool:
    """Whether a truth value surely is true; the last one counts, and no value is true."""
    values = flags.get(name)
    return default if values is None else values[-1] in ("", *TRUE)


def last(flags: dict[str, list[str]], name: str, default: str = "") -> str:
    """The value that counts."""
    return flags.get(name, [default])[-1]


def mount_of(container: dict[str, Any], path: str) -> dict[str, Any] | None:
    """The container's volumeMount that a file lies under, None when it lies under none."""
    path = normpath(path)
    under = [
        mount
        for mount in items(container, "volumeMounts")
        if _under(path, normpath(str(mount.get("mountPath", ""))))
    ]
    return max(under, key=lambda mount: len(str(mount.get("mountPath"))), default=None)


def named(found: Iterable[dict[str, Any]], name: object) -> dict[str, Any]:
    """The mapping of this name, an empty one when there is none."""
    return next((each for each in found if each.get("name") == name), {})


def _under(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
