"""``python -m tools.docs.links``: links of the Markdown files, inside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs import links


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def told(root: Path) -> list[str]:
    return [str(finding) for finding in links.findings(root, sorted(root.rglob("*.md")))]


def test_links_that_lead_somewhere_are_not_told(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("mode: observe\n")
    written(
        tmp_path,
        README="# Top\n\n[a](docs/a.md#two-words-and-code) [b](x.yaml) [c](#top) [d](docs)\n",
        docs__a="# A\n\n## Two words, and `code`\n\n[u](../README.md 'x')\n\n![x](../x.yaml)\n",
    )
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("docs/b.md", "README.md:3: docs/b.md: no such file"),
        ("docs/a.md#nowhere", "README.md:3: docs/a.md#nowhere: no such heading"),
        ("#nowhere", "README.md:3: #nowhere: no such heading"),
        ("../README.md", "README.md:3: ../README.md: outside the repository"),
        ("/docs/a.md", "README.md:3: /docs/a.md: write it relative to the file"),
        ("ftp://example.com/x", "README.md:3: ftp://example.com/x: neither a file here nor http"),
    ],
)
def test_a_link_that_leads_nowhere_is_told_with_its_place(
    tmp_path: Path, link: str, why: str
) -> None:
    written(tmp_path, README=f"# Top\n\n[a]({link})\n", docs__a="# A\n")
    assert told(tmp_path) == [why]


def test_a_reference_without_a_definition_is_told(tmp_path: Path) -> None:
    written(tmp_path, README="# Top\n\n[a][known] [b][unknown]\n\n[known]: README.md\n")
    assert told(tmp_path) == ["README.md:3: [b][unknown]: no such reference"]


def test_what_looks_like_a_link_in_code_is_none(tmp_path: Path) -> None:
    written(tmp_path, README="# Top\n\n`[a](gone.md)`\n\n```\n[a](gone.md) [x][y]\n```\n")
    assert told(tmp_path) == []


def test_headings_that_repeat_get_a_number(tmp_path: Path) -> None:
    """As the forges do: a second `Limits` is #limits-1."""
    written(tmp_path, README="# T\n\n## Limits\n\n## Limits\n\n[a](#limits-1) [b](#limits-2)\n")
    assert told(tmp_path) == ["README.md:7: #limits-2: no such heading"]


def test_external_links_are_listed_once_and_never_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "ROOT", tmp_path)
    monkeypatch.setattr("socket.socket", None)
    text = "# T\n\n[a](https://example.com/x) <https://example.com/x> [b](mailto:a@example.com)\n"
    written(tmp_path, README=text, docs__a=text)
    assert links.main(["--external"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "https://example.com/x  README.md:3",
        "mailto:a@example.com  README.md:3",
    ]


def test_the_repository_has_no_link_that_leads_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert links.main([]) == 0, capsys.readouterr().out
