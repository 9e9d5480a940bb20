"""Headers of every answer: what a browser may do with it, which is little."""

from __future__ import annotations

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types console"
)
"""Nothing from elsewhere, nothing inline (not even a style attribute), in nobody's frame."""

ALWAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NOT_KEPT = (b"cache-control", b"no-store")
FOR_EVER = (b"cache-control", b"private, max-age=31536000, immutable")
"""For files whose address names their content."""

HTML = b"text/html; charset=utf-8"
EVENTS = b"text/event-stream; charset=utf-8"
