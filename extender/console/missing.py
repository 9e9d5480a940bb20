"""What is answered with 404."""


class Missing(Exception):  # noqa: N818 - reads as the condition it is
    """There is no such thing; its text says what was looked for."""
