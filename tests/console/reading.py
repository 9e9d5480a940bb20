"""Reads a page as a browser's parser does, and says what it would run or load."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Read(HTMLParser):
    """``text`` is what a person sees; ``suspicious`` what no page of ours may have."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.suspicious: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.titles = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        source = re.sub(r"^(\.\./)*", "", given.get("src") or "")
        if tag in ("iframe", "object", "embed", "base", "style", "frame", "applet"):
            self.suspicious.append(tag)
        if tag == "script" and not source.startswith("static/"):
            self.suspicious.append(f"script {source}")
        if tag == "img" and not source.startswith("static/"):
            self.suspicious.append(f"img {source}")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.suspicious.append(f"{tag} {name}={value}")
            if name in ("href", "action", "src", "formaction"):
                self.links.append(value or "")
                if ":" in (value or "").partition("?")[0] or (value or "").startswith("//"):
                    self.suspicious.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split()).replace(" :", ":").replace(" ,", ",")
