"""Make the site: ``./run docs [DIRECTORY]`` (without one, in a directory that goes again).

Warnings are errors: a link or anchor that leads nowhere, a page that no table of contents has, a
heading out of its place. So is a setting or a metric that the search of the site does not find.
The links of all Markdown files are looked at first, those included that are no part of the site.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from tools.docs import links, search_index

CONFIGURATION = Path(__file__).parent


def build(target: Path, doctrees: Path) -> int:
    """Sphinx's exit status; `target` has the pages afterwards."""
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-n", "-b", "html"]
    command += ["-c", str(CONFIGURATION), "-d", str(doctrees), str(links.ROOT), str(target)]
    return subprocess.run(command).returncode


def main(arguments: list[str]) -> int:
    """Exit status 1 when anything is wrong with the pages."""
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        print("usage: ./run docs [DIRECTORY]", file=sys.stderr)
        return 2
    if status := links.main([]):
        return status
    with tempfile.TemporaryDirectory(prefix="podgroup-extender-docs.") as scratch:
        target = Path(arguments[0]) if arguments else Path(scratch) / "site"
        if status := build(target, Path(scratch) / "doctrees"):
            return 1
        index = search_index.read((target / "searchindex.js").read_text())
        stem = import_module("sphinx.search.en").SearchEnglish({}).stem
        if lacking := list(search_index.unfound(index, search_index.names(), stem)):
            print(f"docs: the search does not find {', '.join(lacking)}")
            return 1
        count = len(list(target.rglob("*.html")))
        print(f"docs: {count} pages" + (f" in {target}" if arguments else ", all links hold"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
