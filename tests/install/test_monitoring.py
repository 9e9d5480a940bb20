"""Rules and dashboard: metrics that there are, Prometheus' own checks, a page for each alert."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.app import observing as observing_command
from extender.app import serve_command
from extender.server.metrics import Metrics
from extender.settings.mode import ObserveSettings
from tests.cli.live_bed import serving
from tests.install.charts import CHART, Helm, named
from tests.packaging.manifests import ROOT
from tools import dashboard

RULES: list[dict[str, Any]] = yaml.safe_load((CHART / "files/rules.yaml").read_text())["groups"][0][
    "rules"
]
OBSERVE_RULES: list[dict[str, Any]] = yaml.safe_load(
    (CHART / "files/rules-observe.yaml").read_text()
)["groups"][0]["rules"]
RUNBOOKS = ROOT / "docs" / "runbooks"
BASE = "https://example.com/podgroup-extender/docs/runbooks"
QUERIES = {rule["alert"]: rule["expr"] for rule in RULES} | {
    f"{panel.title}: {query}": query
    for _, row in dashboard.ROWS
    for panel in row
    for query, _ in panel.queries
}
PANELS = {
    title: {f"{panel.title}: {query}": query for panel in row for query, _ in panel.queries}
    for title, row in dashboard.ROWS
}


@pytest.fixture
async def exposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, set[str]]:
    """Series of a running ``serve`` -> labels, those without a sample yet as well."""
    return await shown(tmp_path, monkeypatch, capsys, None)


@pytest.fixture
async def observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, set[str]]:
    """The same in observe mode."""
    kept = ObserveSettings(file=str(tmp_path / "observe.json"))
    return await shown(tmp_path, monkeypatch, capsys, kept)


async def shown(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    observing: ObserveSettings | None,
) -> dict[str, set[str]]:
    made: list[Metrics] = []

    class Kept(Metrics):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(serve_command, "Metrics", Kept)
    monkeypatch.setattr(observing_command, "Metrics", Kept)
    async with serving(folder, capsys, observing=observing):
        (metrics,) = made
        metrics.certificate("server", lambda: 0.0)  # Only with TLS, which this server has not.
        return {
            name: labels
            for collector in list(metrics.registry._collector_to_names)
            for name, labels in series(collector)
        }


def series(collector: Any) -> list[tuple[str, set[str]]]:
    """Names of one collector's samples, with its labels."""
    families = collector.describe() if hasattr(collector, "describe") else collector.collect()
    # A family says its labels, but for metrics made with labels, where only the metric does.
    own = set(getattr(collector, "_labelnames", ()))
    found: list[tuple[str, set[str]]] = []
    for family in families:
        labels = own | set(getattr(family, "_labelnames", ()))
        labels |= {label for sample in family.samples for label in sample.labels}
        endings = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
        }.get(family.type, ("",))
        found += [(family.name + ending, labels | {"le"}) for ending in endings]
    return found


def asked(query: str) -> set[str]:
    """Metrics that a query names."""
    return set(re.findall(r"\b(?:podgroup_extender|process|python)_\w+", query))


def labels_of(query: str) -> set[str]:
    """Labels that a query selects or sums by."""
    matched = {
        label
        for inside in re.findall(r"\{([^}]*)\}", query)
        for label in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", inside)
    }
    summed = {
        label.strip()
        for inside in re.findall(r"by \(([^)]*)\)", query)
        for label in inside.split(",")
    }
    return matched | summed


WITH_TRACING = {"podgroup_extender_trace_spans_total"}
"""Scraped in tests/cli/test_traces.py."""


async def test_metrics_and_labels_exist(exposed: dict[str, set[str]]) -> None:
    assert "podgroup_extender_leader" in exposed
    for name, query in QUERIES.items():
        if name in PANELS[dashboard.OBSERVING]:
            continue
        assert asked(query), name
        assert asked(query) <= set(exposed), name
        known = set().union(*(exposed[metric] for metric in asked(query)))
        assert labels_of(query) <= known, name


ONLY_ACTING = {"podgroup_extender_api_writes_waiting"}
"""In a row that is not about acting otherwise: who observes writes nothing."""
NEVER_THERE = {
    # Counters that every process has, and that only who acts counts up.
    "podgroup_extender_evictions_total",
    "podgroup_extender_lost_gpu_seconds_total",
}


async def test_an_observer_makes_what_its_rules_and_panels_ask_for(
    observed: dict[str, set[str]],
) -> None:
    assert "podgroup_extender_leader" not in observed
    made = set(observed) - NEVER_THERE
    rules = {rule["alert"]: rule["expr"] for rule in OBSERVE_RULES}
    for name, query in rules.items():
        assert asked(query) <= made, name
        known = set().union(*(observed[metric] for metric in asked(query)))
        assert labels_of(query) <= known, name
    for title, queries in PANELS.items():
        for name, query in queries.items():
            missing = asked(query) - made - ONLY_ACTING
            if title not in dashboard.ACTING:
                assert not missing, name
    # The rows that are said to be empty are; so no rule that only they could answer is lost.
    about_acting = {
        m for title in dashboard.ACTING for q in PANELS[title].values() for m in asked(q)
    }
    assert about_acting & made == {"podgroup_extender_gang_decisions_total"}
    for rule in RULES:
        lost = asked(rule["expr"]) - made
        assert bool(lost) != (rule["alert"] in rules), rule["alert"]


def test_rules_of_both_modes_ask_the_same() -> None:
    acting = {rule["alert"]: rule for rule in RULES}
    for rule in OBSERVE_RULES:
        if rule["alert"] in acting:
            other = acting[rule["alert"]]
            assert (rule["expr"], rule["for"]) == (other["expr"], other["for"])
        # Nothing is held or evicted, and kube-scheduler goes on without an answer.
        assert rule["labels"]["severity"] == "warning"
        assert rule["annotations"]["runbook_url"] == f"{BASE}/{rule['alert']}.md"


async def test_metrics_that_pages_name_exist(exposed: dict[str, set[str]]) -> None:
    known = set(exposed) | {each.removesuffix("_bucket") for each in exposed} | WITH_TRACING
    for page in (*RUNBOOKS.glob("*.md"), ROOT / "docs" / "operations.md"):
        missing = asked(page.read_text()) - known - {"podgroup_extender_"}
        assert not missing, page.name


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    alerts = {rule["alert"] for rule in (*RULES, *OBSERVE_RULES)}
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == alerts
    for rule in (*RULES, *OBSERVE_RULES):
        assert rule["annotations"]["runbook_url"] == f"{BASE}/{rule['alert']}.md"
        assert rule["labels"]["severity"] in ("critical", "warning")
        text = (RUNBOOKS / f"{rule['alert']}.md").read_text()
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert headings == [
            rule["alert"],
            "What it means",
            "What to look at",
            "What to do",
        ]


@pytest.mark.parametrize("file", ["rules.yaml", "rules-observe.yaml"])
def test_the_pages_command_writes_where_the_runbooks_are(file: str, tmp_path: Path) -> None:
    """As docs/install.md has it, for who takes the file as it is."""
    command = re.search(r"(?m)^sed -i .*rules\.yaml$", (ROOT / "docs/install.md").read_text())
    assert command is not None
    (tmp_path / "rules.yaml").write_text((CHART / "files" / file).read_text())
    subprocess.run(["bash", "-c", command[0]], cwd=tmp_path, check=True, timeout=30)
    text = (tmp_path / "rules.yaml").read_text()
    assert "example.com" not in text
    assert "https://YOUR-WIKI/runbooks/PodgroupExtenderWatchDown.md" in text


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in RUNBOOKS.glob("*.md"):
        for file, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", page.read_text()):
            target = (page.parent / file).resolve()
            assert target.exists(), (page.name, file)
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
            assert not anchor or anchor in anchors, (page.name, anchor)


def test_dashboard_is_what_the_code_gives() -> None:
    assert dashboard.main(["--check"]) == 0
    document = json.loads(dashboard.FILE.read_text())
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= dashboard.WIDTH
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_a_changed_dashboard_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dashboard.json").write_text("{}")
    monkeypatch.setattr(dashboard, "FILE", tmp_path / "dashboard.json")
    assert dashboard.main(["--check"]) == 1


PROMTOOL_RULES = CHART / "files" / "rules.yaml"
PROMTOOL_OBSERVE_RULES = CHART / "files" / "rules-observe.yaml"
CASES = ROOT / "tests" / "install" / "rules_test.yaml"
OBSERVE_CASES = ROOT / "tests" / "install" / "rules_observe_test.yaml"
FILES = [(PROMTOOL_RULES, CASES, 15), (PROMTOOL_OBSERVE_RULES, OBSERVE_CASES, 7)]


def ask(promtool: Path, *words: str) -> str:
    """Run promtool; everything it says when that fails."""
    done = subprocess.run(
        [str(promtool), *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("rules", "cases", "count"), FILES)
def test_rules_are_well_formed(promtool: Path, rules: Path, cases: Path, count: int) -> None:
    assert f"{count} rules found" in ask(promtool, "check", "rules", "--lint-fatal", str(rules))


@pytest.mark.parametrize(("rules", "cases", "count"), FILES)
def test_alerts_fire_on_what_they_are_for(
    promtool: Path, tmp_path: Path, rules: Path, cases: Path, count: int
) -> None:
    filled = tmp_path / "cases.yaml"
    filled.write_text(cases.read_text().replace("[RULES]", f"[{rules}]"))
    ask(promtool, "test", "rules", str(filled))
    alerts = {rule["alert"] for rule in yaml.safe_load(rules.read_text())["groups"][0]["rules"]}
    assert len(alerts) == count
    text = cases.read_text()
    # Each is seen to be silent and to fire.
    for alert in alerts:
        assert f"alertname: {alert}}}" in text
        assert f'alertname="{alert}"' in text


def test_queries_of_the_dashboard_can_be_read(promtool: Path, tmp_path: Path) -> None:
    queries = [q for _, row in dashboard.ROWS for panel in row for q, _ in panel.queries]
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    ask(promtool, "check", "rules", str(file))


def test_chart_carries_the_same_rules_and_dashboard(
    promtool: Path, helm_program: Path, tmp_path: Path
) -> None:
    """In the operator's object, with the pages where an installation keeps them."""
    helm = Helm(helm_program, tmp_path)
    monitoring = {
        "rules": {"enabled": True, "runbooks": "https://wiki/runbooks"},
        "dashboard": {"enabled": True},
    }
    objects = helm.objects({"monitoring": monitoring})
    rules = named(objects, "PrometheusRule", "podgroup-extender")["spec"]
    urls = {r["annotations"]["runbook_url"].rpartition("/")[0] for r in rules["groups"][0]["rules"]}
    assert urls == {"https://wiki/runbooks"}
    observing = helm.objects({"monitoring": monitoring, "config": {"mode": "observe"}})
    chosen = named(observing, "PrometheusRule", "podgroup-extender")["spec"]
    text = PROMTOOL_OBSERVE_RULES.read_text().replace(BASE, "https://wiki/runbooks")
    assert chosen == yaml.safe_load(text)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rules))
    ask(promtool, "check", "rules", "--lint-fatal", str(file))
    carried = named(objects, "ConfigMap", "podgroup-extender-dashboard")["data"]
    assert json.loads(carried["podgroup-extender.json"]) == dashboard.dashboard()
