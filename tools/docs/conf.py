"""Sphinx configuration of the site: the Markdown files as they lie in the repository.

The source directory is the repository's root, so that the links between README, docs and the
files they speak of are the same on the site as where the repository is browsed. The tables of
contents are added while reading: written into the files they would be noise everywhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

project = "podgroup-extender"
author = "the podgroup-extender authors"
project_copyright = author
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**.md",
    "bench/**.md",
    "proto/*.md",
    "charts/*/README.md",
    "tests/controlplane/*.md",
    "tests/security/*.md",
]
myst_heading_anchors = 6
nitpicky = True

# Nothing is loaded from elsewhere, and no page says when it was made: equal files, equal pages.
html_theme = "alabaster"
html_theme_options = {
    "description": "All-or-nothing gang preemption beside an unmodified kube-scheduler",
    "page_width": "75rem",
    "body_max_width": "60rem",
    "fixed_sidebar": True,
}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_show_sourcelink = False
html_copy_source = False
# README is the first page, and index.html where people begin.
html_additional_pages = {"index": "first.html"}
templates_path = ["templates"]

# Page -> what its table of contents has: captions with pages, in the order of a first visit.
CONTENTS: dict[str, dict[str, list[str]]] = {
    "README": {
        "Use": [
            "docs/concepts",
            "docs/observe",
            "docs/install",
            "docs/systems/README",
            "docs/migrate",
            "docs/preempted",
        ],
        "Operate": [
            "docs/operations",
            "docs/reference/configuration",
            "docs/reference/metrics",
            "docs/reference/cli",
            "docs/reference/debug",
            "docs/reference/grpc",
            "docs/runbooks",
            "docs/console",
            "docs/cli",
            "docs/grpc",
            "docs/security",
            "docs/tenants",
        ],
        "Understand": [
            "docs/search",
            "docs/checked",
            "docs/actuation",
            "docs/reservations",
            "docs/nominations",
            "docs/barrier",
            "docs/plugin",
            "docs/verifier",
            "docs/fairness",
            "docs/benchmarks/README",
        ],
        "Change": [
            "CONTRIBUTING",
            "docs/architecture",
            "docs/walkthrough",
            "docs/choices",
            "docs/search-solvers",
            "docs/search-core",
            "docs/reliability",
            "docs/mutation",
            "docs/measurements",
            "docs/trials",
            "docs/dependencies",
            "docs/releasing",
            "CHANGELOG",
            "SECURITY",
            "CODE_OF_CONDUCT",
        ],
    },
    "docs/runbooks": {"": ["runbooks/*"]},
    "docs/systems/README": {"": ["*"]},
    "docs/measurements": {
        "": [
            "docs/benchmarks/search",
            "docs/benchmarks/against-kubernetes",
            "docs/benchmarks/lost-work",
            "docs/benchmarks/month",
            "docs/benchmarks/throughput",
            "docs/benchmarks/extender",
        ]
    },
    "CONTRIBUTING": {
        "": [
            "bench/README",
            "bench/inputs/data/README",
            "tests/controlplane/README",
            "tests/security/README",
            "proto/README",
            "charts/podgroup-extender/README",
        ]
    },
}


def with_contents(app: Any, name: str, source: list[str]) -> None:
    """Append a page's tables of contents to what Sphinx read of it."""
    for caption, entries in CONTENTS.get(name, {}).items():
        options = [":hidden:"]
        if caption:
            options.append(f":caption: {caption}")
        listed = entries
        if any("*" in entry for entry in entries):
            options.append(":glob:")
        else:  # From the root, wherever the page lies.
            listed = [f"/{entry}" for entry in entries]
        source[0] += "\n\n" + "\n".join(["```{toctree}", *options, "", *listed, "```"]) + "\n"


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", with_contents)
    return {"parallel_read_safe": True}
