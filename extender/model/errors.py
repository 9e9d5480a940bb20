"""The few errors that cross rooms; the server maps them to answers.

::

    ExtenderError
    +-- InvalidInput (ValueError)   what was sent is wrong: says what and where
    +-- NotReady                    caches not synced, stale, or not the leader
    +-- UnknownPod                  the pod asked about is not as the cluster has it
"""

from __future__ import annotations


class ExtenderError(Exception):
    """Base of every error this project raises on purpose."""


class InvalidInput(ExtenderError, ValueError):  # noqa: N818 - reads as the condition it is
    """Input from outside is malformed; the message says what and where.

    ``where`` is the path inside a document ("Pod.metadata.uid"), "" when the
    message names the place itself; the text of the error holds both.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class NotReady(ExtenderError):  # noqa: N818 - mirrors the readiness condition
    """An answer now would be a guess; the caller should come back later."""


class UnknownPod(ExtenderError):  # noqa: N818 - reads as the condition it is
    """The pod that was asked about is not one that waits for a node in the cluster as read.

    Nothing is decided on a caller's word alone. ``absent`` tells whether it is not there at all,
    which a watch that is behind may explain.
    """

    def __init__(self, message: str, *, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent
