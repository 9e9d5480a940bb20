"""The tables of contents of the site, without Sphinx (``./run docs`` builds it)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tools.docs import conf, links


def test_every_page_that_a_table_of_contents_names_is_there() -> None:
    for page, contents in conf.CONTENTS.items():
        assert (links.ROOT / f"{page}.md").is_file()
        for entry in (each for entries in contents.values() for each in entries):
            base = (links.ROOT / page).parent if "*" in entry else links.ROOT
            assert list(base.glob(f"{entry}.md")), entry


def test_contents_are_added_where_they_are_read_and_nowhere_else() -> None:
    source = ["# Top\n"]
    conf.with_contents(None, "docs/search", source)
    assert source == ["# Top\n"]
    conf.with_contents(None, "README", source)
    assert "\n/docs/migrate\n" in source[0]
    assert "toctree" not in (links.ROOT / "README.md").read_text()


def test_the_list_of_runbooks_has_every_alert_with_cause_and_severity() -> None:
    rules = Path(links.ROOT / "charts/podgroup-extender/files/rules.yaml").read_text()
    alerts = [
        (rule["alert"], rule["labels"]["severity"])
        for group in yaml.safe_load(rules)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    text = (links.ROOT / "docs" / "runbooks.md").read_text()
    rows = re.findall(r"\| \[(\w+)\]\(runbooks/\1\.md\) \| [^|]{20,} \| (\w+) \|", text)
    assert sorted(rows) == sorted(alerts)
