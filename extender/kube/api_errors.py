"""What can go wrong between us and the API server, as types callers choose by.

::

    ApiError (ExtenderError)        any answer other than success
    +-- Unauthorized      401       credentials missing or no longer accepted
    +-- Forbidden         403       RBAC or an admission plugin says no
    +-- NotFound          404
    +-- Conflict          409       resourceVersion or UID precondition failed, name taken
    +-- Gone              410       resourceVersion or continue token too old
    +-- Invalid           422       the object breaks a validation rule
    +-- TooManyRequests   429       back off for retry_after; for an eviction: a budget says no
    +-- Unavailable       5xx, or 0 when no answer came (refused, reset, timeout, cut short)

Source of the body's shape: metav1.Status in k8s.io/apimachinery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extender.model.errors import ExtenderError


class ApiError(ExtenderError):
    """The API server did not do what was asked.

    ``status`` is the HTTP status (0: no answer), ``retry_after`` seconds or None.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{message} ({status} {reason})" if status else f"{message} ({reason})")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = details or {}


class Unauthorized(ApiError):  # noqa: N818 - named after the API's reason, as all below
    """401."""


class Forbidden(ApiError):  # noqa: N818
    """403."""


class NotFound(ApiError):  # noqa: N818
    """404."""


class Conflict(ApiError):  # noqa: N818
    """409."""


class Gone(ApiError):  # noqa: N818
    """410: ask for the present state instead."""


class Invalid(ApiError):  # noqa: N818
    """422."""


class TooManyRequests(ApiError):  # noqa: N818
    """429."""


class Unavailable(ApiError):  # noqa: N818
    """5xx, or no (complete) answer at all (status 0)."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_class(status: int) -> type[ApiError]:
    """Return the type for an HTTP status."""
    if status >= 500 or status == 0:
        return Unavailable
    return _BY_STATUS.get(status, ApiError)


def from_status(document: Mapping[str, Any], fallback_status: int = 500) -> ApiError:
    """Build the error a metav1.Status object describes (an answer or a watch's ERROR event)."""
    code = document.get("code")
    status = code if isinstance(code, int) and code > 0 else fallback_status
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    seconds = details.get("retryAfterSeconds")
    return error_class(status)(
        status,
        str(document.get("reason") or "Unknown"),
        str(document.get("message") or "the API server gave no message"),
        float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else None,
        details,
    )


def from_answer(
    status: int, body: bytes, what: str, retry_after_header: str | None = None
) -> ApiError:
    """Build the error of an HTTP answer; ``what`` names the request, for the message.

    Proxies in between answer with HTML or nothing: then the first bytes of the body are kept.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status":
        error = from_status({**document, "code": status})
        error.args = (f"{what}: {error.args[0]}",)
    else:
        text = body[:200].decode("utf-8", "replace").strip() or "empty answer"
        error = error_class(status)(status, "Unknown", f"{what}: {text}")
    if error.retry_after is None and retry_after_header:
        # Only the seconds form: API servers do not send the date form.
        try:
            error.retry_after = max(0.0, float(retry_after_header))
        except ValueError:
            pass
    return error
