"""Errors of the API server as metav1.Status, with the reasons and codes clients rely on.

Source: k8s.io/apimachinery/pkg/api/errors/errors.go.
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
"""An API object as JSON."""


class StatusError(Exception):
    """An answer other than success; ``code`` is the HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Obj | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after

    @property
    def document(self) -> Obj:
        """The metav1.Status to send."""
        details = dict(self.details)
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }


def not_found(plural: str, name: str) -> StatusError:
    """404 for one object."""
    return StatusError(
        404, "NotFound", f'{plural} "{name}" not found', details={"name": name, "kind": plural}
    )


def already_exists(plural: str, name: str) -> StatusError:
    """409 for a create under a name in use."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{plural} "{name}" already exists',
        details={"name": name, "kind": plural},
    )


def conflict(plural: str, name: str, why: str) -> StatusError:
    """409 for a stale resourceVersion or a failed precondition."""
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {plural} "{name}": {why}',
        details={"name": name, "kind": plural},
    )


def invalid(plural: str, name: str, why: str) -> StatusError:
    """422 for an object that breaks a rule."""
    return StatusError(
        422,
        "Invalid",
        f'{plural} "{name}" is invalid: {why}',
        details={"name": name, "kind": plural},
    )


def bad_request(why: str) -> StatusError:
    """400 for a request that cannot be read."""
    return StatusError(400, "BadRequest", why)


def forbidden(plural: str, name: str, why: str) -> StatusError:
    """403 for an admission refusal."""
    return StatusError(
        403,
        "Forbidden",
        f'{plural} "{name}" is forbidden: {why}',
        details={"name": name, "kind": plural},
    )


def expired(why: str) -> StatusError:
    """410 for a version or continue token that is compacted."""
    return StatusError(410, "Expired", why)
