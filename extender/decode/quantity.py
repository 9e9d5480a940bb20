"""Kubernetes quantities ("500m", "1Ki", "1e3") as exact integers.

Source of the grammar: k8s.io/apimachinery/pkg/api/resource/quantity.go. Values
are rounded up (away from zero), as Quantity.Value and Quantity.MilliValue do.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from extender.model.errors import InvalidInput
from extender.model.texts import counted

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))"
    r"(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]|)"
)
_FACTOR: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{s: Fraction(1000**i) for i, s in enumerate("kMGTPE", start=1)},
    **{s + "i": Fraction(1024**i) for i, s in enumerate("KMGTPE", start=1)},
}
INT64_MAX = 2**63 - 1
MOST_LETTERS = 256
"""Of a quantity; the API server writes 20, and Python reads no number of thousands of digits."""


@lru_cache(maxsize=65536)
def parse_quantity(text: str, scale: int = 1) -> int:
    """Return ``text`` times ``scale``, rounded away from zero, capped at int64.

    ``scale`` is 1000 for CPU (milli-cores) and 1 for everything else. Raises
    InvalidInput naming the text when it is no quantity. The memo is bounded:
    a cluster has few distinct strings, an attacker may have many.
    """
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= MOST_LETTERS else None
    if match is None:
        raise InvalidInput(f"quantity {text[:64]!r} is not a Kubernetes quantity")
    suffix = match["suffix"]
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix[1] != "i":
        exponent = int(suffix[1:])
        if abs(exponent) > 64:
            raise InvalidInput(f"quantity {text[:64]!r} has an exponent out of range")
        factor = Fraction(10) ** exponent
    else:
        factor = _FACTOR[suffix]
    value = Fraction(match["number"]) * factor * scale
    rounded = (
        -((-value.numerator) // value.denominator)
        if value >= 0
        else (value.numerator // value.denominator)
    )
    return max(-INT64_MAX, min(INT64_MAX, rounded))


def parse_resource(name: str, value: str | int | float) -> int:
    """Return a resource amount in its unit: milli-cores for "cpu", else base units."""
    return parse_quantity(str(value), 1000 if name == "cpu" else 1)


def format_resource(name: str, amount: int) -> str:
    """Return ``amount`` as a person reads it: "3 CPU", "16Gi memory", "4 nvidia.com/gpu"."""
    if name == "cpu":
        text = f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
        return f"{text} CPU"
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{suffix} {name}"
        return f"{counted(amount, 'byte')} {name}"
    return f"{amount} {name}"
