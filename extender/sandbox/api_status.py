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


def _about(code: int, reason: str, message: str, plural: str, name: str) -> StatusError:
    return StatusError(code, reason, message, details={"name": name, "kind": plural})


def not_found(plural: str, name: str) -> StatusError:
    """404 for one object."""
    return _about(404, "NotFound", f'{plural} "{name}" not found', plural, name)


def already_exists(plural: str, name: str) -> StatusError:
    """409 for a create under a name in use."""
    return _about(409, "AlreadyExists", f'{plural} "{name}" already exists', plural, name)


def conflict(plural: str, name: str, why: str) -> StatusError:
    """409 for a stale resourceVersion or a failed precondition."""
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return _about(409, "Conflict", message, plural, name)


def invalid(plural: str, name: str, why: str) -> StatusError:
    """422 for an object that breaks a rule."""
    return _about(422, "Invalid", f'{plural} "{name}" is invalid: {why}', plural, name)


def bad_request(why: str) -> StatusError:
    """400 for a request that cannot be read."""
    return StatusError(400, "BadRequest", why)


def forbidden(plural: str, name: str, why: str) -> StatusError:
    """403 for an admission refusal."""
    return _about(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}', plural, name)


def expired(why: str) -> StatusError:
    """410 for a version or continue token that is compacted."""
    return StatusError(410, "Expired", why)
