"""YAML that kubectl printed: large, so it is read by libyaml, which needs to be kept from depths.

libyaml's composer calls itself for each list and mapping in another one, without a limit: 100,000
``[`` are the end of the process.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from extender.decode.json_text import TOO_DEEP
from extender.model.errors import InvalidInput

MOST_DEPTH = 500
"""Lists and mappings in one another; a pod has some fifteen."""
MOST_WORDS = 1000
"""Characters of what is wrong with a text."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEP_LINE = re.compile(rb"[ \t?:-]{%d}" % (MOST_DEPTH // 2))
"""Without brackets depth needs a line that goes in, with blanks or with ``- - -``."""


class _KubectlLoader(_Loader):  # type: ignore[misc]
    """SafeLoader that leaves times as text, as the API has them."""


_KubectlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def documents(data: bytes) -> list[Any]:
    """Return the values of every document. Raises InvalidInput."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"not UTF-8 at byte {problem.start}") from problem
    try:
        if data.count(b"[") + data.count(b"{") > MOST_DEPTH or _DEEP_LINE.search(data):
            _shallow(text)
        return list(yaml.load_all(text, Loader=_KubectlLoader))
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput(f"not valid YAML: {TOO_DEEP}") from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = (problem.problem or problem.context or "")[:MOST_WORDS]
        raise InvalidInput(f"not valid YAML{place}: {what}") from problem
    except Exception as problem:
        # For a wrong !!bool or !!timestamp PyYAML raises whatever comes of it, of many types.
        what = str(problem).partition("\n")[0]
        raise InvalidInput(f"not valid YAML: {what[:MOST_WORDS]}") from problem


def as_json(document: object) -> bytes:
    """Return a document as JSON. Raises InvalidInput for one that JSON cannot have."""
    try:
        return msgspec.json.encode(document)
    except RecursionError:  # an alias may stand for what it stands in
        raise InvalidInput(f"not readable: {TOO_DEEP}") from None
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"not readable: {problem}") from problem


def _shallow(text: str) -> None:
    """Raise InvalidInput when lists and mappings are too deep in one another."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                mark = event.start_mark
                place = f" at line {mark.line + 1}" if mark else ""
                raise InvalidInput(f"not valid YAML: {TOO_DEEP}{place}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
