"""Do the links of the Markdown files lead somewhere? ``python -m tools.docs.links``.

Looked at are files, directories and headings of this repository, by the rules of those who render
Markdown where it is browsed (headings become anchors in lower case, with hyphens). Addresses
elsewhere are listed with ``--external`` and never fetched: a check must not hang on others' sites.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]

# Where nothing of ours is written.
FOREIGN = {".venv", "build", "dist", "node_modules", ".git", ".pytest_cache", ".hypothesis"}

ELSEWHERE = {"http", "https", "mailto"}

# A reference that has no definition stays text in Markdown, and nobody notices.
UNDEFINED = re.compile(r"\[[^\]\[]+\]\[[^\]\[]*\]")


class Finding(Struct, frozen=True):
    """A link that leads nowhere: where it is, what it says, why."""

    page: str
    line: int
    link: str
    why: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.link}: {self.why}"


class Link(Struct, frozen=True):
    """A link or picture of a page; `undefined` is a reference without a definition."""

    line: int
    target: str
    undefined: bool = False


def pages(root: Path) -> list[Path]:
    """Every Markdown file of the repository."""
    return sorted(
        path for path in root.rglob("*.md") if not FOREIGN & set(path.relative_to(root).parts)
    )


@cache
def tokens(page: Path) -> list[Token]:
    """A page as CommonMark with tables reads it."""
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def slug(text: str) -> str:
    """A heading's anchor."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings; one that repeats gets -1, -2 and so on."""
    found: list[str] = []
    parsed = tokens(page)
    for opening, inline in pairwise(parsed):
        if opening.type == "heading_open":
            said = "".join(
                child.content for child in inline.children or () if child.type != "image"
            )
            found.append(slug(said))
    numbered = [
        name if not (before := found[:at].count(name)) else f"{name}-{before}"
        for at, name in enumerate(found)
    ]
    return frozenset(numbered)


def links(page: Path) -> Iterator[Link]:
    """Each link and picture of a page, and each reference that has no definition."""
    for token in tokens(page):
        if token.type != "inline":
            continue
        line = (token.map or [0])[0] + 1
        for child in token.children or ():
            if child.type in ("softbreak", "hardbreak"):
                line += 1
            elif child.type == "text":
                for match in UNDEFINED.findall(child.content):
                    yield Link(line, match, undefined=True)
            elif target := child.attrGet("href") or child.attrGet("src"):
                yield Link(line, unquote(str(target)))


def wrong(root: Path, page: Path, target: str) -> str | None:
    """Why a link of this page leads nowhere; None when it does."""
    parts = urlsplit(target)
    if parts.scheme in ELSEWHERE:
        return None
    if parts.scheme or parts.netloc:
        return "neither a file here nor http"
    if target.startswith("/"):
        return "write it relative to the file"
    file = (page.parent / parts.path).resolve() if parts.path else page
    if not file.is_relative_to(root):
        return "outside the repository"
    if not file.exists():
        return "no such file"
    if parts.fragment and (file.suffix != ".md" or parts.fragment not in anchors(file)):
        return "no such heading"
    return None


def findings(root: Path, looked_at: Sequence[Path]) -> list[Finding]:
    """What is wrong with the links of these pages."""
    found: list[Finding] = []
    for page in looked_at:
        name = str(page.relative_to(root))
        for link in links(page):
            if link.undefined:
                found.append(Finding(name, link.line, link.target, "no such reference"))
            elif why := wrong(root, page, link.target):
                found.append(Finding(name, link.line, link.target, why))
    return found


def external(root: Path, looked_at: Sequence[Path]) -> dict[str, str]:
    """Each address elsewhere, with the first place that names it."""
    found: dict[str, str] = {}
    for page in looked_at:
        for link in links(page):
            if not link.undefined and urlsplit(link.target).scheme in ELSEWHERE:
                found.setdefault(link.target, f"{page.relative_to(root)}:{link.line}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 when a link leads nowhere."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--external", action="store_true", help="list addresses elsewhere instead")
    given = parser.parse_args(arguments)
    looked_at = pages(ROOT)
    if given.external:
        for target, place in sorted(external(ROOT, looked_at).items()):
            print(f"{target}  {place}")
        return 0
    found = findings(ROOT, looked_at)
    for finding in found:
        print(finding)
    if not found:
        print(f"links: {len(looked_at)} pages, every link inside the repository leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
