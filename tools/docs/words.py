"""Count the words of the documentation, group by group: ``python -m tools.docs.words``.

The groups are those of the site's table of contents (``conf.py``). `BUDGET` holds for the groups in
`BOUND` together, README included. Generated pages and those of the group Change have no limit.
``./run lint`` runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.docs.conf import CONTENTS
from tools.docs.links import ROOT

BUDGET = 45_000
"""Words of the groups in `BOUND`."""
FIRST = "README"
"""The page that has the groups; it is counted with the first of them."""
LONGEST = {FIRST: 1_200}
"""Words of a page."""
BOUND = ("Use", "Operate", "Understand")
GENERATED = "docs/reference/"


def below(page: str, root: Path = ROOT) -> Iterator[str]:
    """Yield a page, and those of its own table of contents."""
    yield page
    for entries in CONTENTS.get(page, {}).values() if page != FIRST else ():
        for entry in entries:
            names = [entry]
            if "*" in entry:
                found = sorted((root / page).parent.glob(f"{entry}.md"))
                names = [str(path.relative_to(root).with_suffix("")) for path in found]
            yield from (name for name in names if name != page)


def grouped(root: Path = ROOT) -> dict[str, list[str]]:
    """Group -> its pages."""
    groups = {
        group: [each for page in pages for each in below(page, root)]
        for group, pages in CONTENTS[FIRST].items()
    }
    groups[BOUND[0]].insert(0, FIRST)
    return groups


def counted(groups: Mapping[str, list[str]], root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Group -> page -> words, as ``wc -w`` counts them, longest first."""
    return {
        group: dict(
            sorted(
                ((page, len((root / f"{page}.md").read_text().split())) for page in pages),
                key=lambda each: -each[1],
            )
        )
        for group, pages in groups.items()
    }


def problems(words: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield what is too long, in words."""
    bound = sum(
        count
        for group in BOUND
        for page, count in words[group].items()
        if not page.startswith(GENERATED)
    )
    if bound > BUDGET:
        yield f"{bound:,} words in {', '.join(BOUND)}; {BUDGET:,} at most"
    for pages in words.values():
        for page, count in pages.items():
            if count > LONGEST.get(page, count):
                yield f"{page}.md: {count:,} words; {LONGEST[page]:,} at most"


def main(arguments: list[str]) -> int:
    """Exit status 1 when there are too many words; ``--pages`` prints those of each page."""
    words = counted(grouped())
    for group, pages in words.items():
        made = sum(count for page, count in pages.items() if page.startswith(GENERATED))
        total = sum(pages.values()) - made
        print(f"words: {total:>6,} {group}" + (f" (and {made:,} generated)" if made else ""))
        if "--pages" in arguments:
            for page, count in pages.items():
                print(f"         {count:>6,} {page}")
    wrong = list(problems(words))
    for each in wrong:
        print(each)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
