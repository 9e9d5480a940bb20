"""The Pod inside a question."""

from __future__ import annotations

from msgspec import Raw

from extender.decode.from_json import decode_pod
from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.wire.reading import is_null


def read_pod(raw: Raw) -> Pod:
    """Decode the question's Pod. Raises InvalidInput when it is absent, null or malformed."""
    if is_null(raw):
        raise InvalidInput("is missing", "Pod")
    try:
        pod = decode_pod(raw)
    except InvalidInput as error:
        raise InvalidInput(str(error), "Pod") from None
    if not pod.uid:
        raise InvalidInput("is missing or empty", "Pod.metadata.uid")
    return pod
