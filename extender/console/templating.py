"""Templates: everything is escaped, and nothing of a tenant's can pass for something else."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from extender.console import words
from extender.model import texts
from extender.model.texts import counted, noun

FOLDER = Path(__file__).parent
KEY = re.compile(r"([\w.-]+:[\w.-]+/[\w.-]*\w)")
"""What may be a gang's key in a sentence."""


def visible(value: Any) -> Any:
    """Return a text in which every character shows; other values and our own markup as they are."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return texts.visible(value, "\N{REPLACEMENT CHARACTER}")
    return value


def environment() -> Environment:
    """Return the templates' environment. Used on one thread."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "amount": lambda value, resource: words.amount(resource, value),
        "short": words.short,
        "ticks": _ticks,
        "linked": _linked,
        "part": lambda text: quote(text, safe=""),
        "tone": words.tone,
        "level": words.level_words,
        "cost": words.cost,
        "thousands": _thousands,
        "counted": _counted,
        "noun": noun,
        "iso": _iso,
        "utc": _utc,
        "seconds": _seconds,
        "later": words.later,
    }
    made.globals |= {
        "NAMES": words.NAMES,
        "OUTCOMES": words.OUTCOMES,
        "ENDS": words.ENDS,
        "SIGNS": words.SIGNS,
        "TONES": tuple(words.SIGNS),
        "up": "",
    }
    return made


def _ticks(text: str) -> Markup:
    """Return a text of ours with what stands between backticks as code."""
    parts = visible(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 and at < len(parts) - 1 else escape(part)
        for at, part in enumerate(parts)
    )


@pass_context
def _linked(context: Context, text: str) -> Markup:
    """Return a text in which each gang that has a page leads to it."""
    known = context["picture"].keys
    return Markup("").join(
        Markup('<a href="gang?name={}">{}</a>').format(quote(part, safe=""), part)
        if part in known
        else escape(part)
        for part in KEY.split(visible(text))
    )


def _thousands(value: int) -> str:
    return f"{value:,}".replace(",", words.THIN)


def _counted(value: int, what: str, one: str = "", several: str = "") -> str:
    """Return what ``texts.counted`` does, with its thousands apart."""
    return counted(value, what, one, several).replace(str(value), _thousands(value), 1)


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _seconds(value: float) -> str:
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
