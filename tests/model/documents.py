"""Documents of the API, as it sends them."""

from __future__ import annotations

import json
from typing import Any


def raw(document: Any) -> bytes:
    """Return the document's JSON."""
    return json.dumps(document).encode()
