"""Prometheus' own checks of the rules, of every query of the dashboard, and of what fires when."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.install.charts import CHART, Helm, named
from tests.install.test_monitoring import BASE
from tests.packaging.manifests import ROOT
from tools import dashboard

RULES = CHART / "files" / "rules.yaml"
OBSERVE_RULES = CHART / "files" / "rules-observe.yaml"
CASES = ROOT / "tests" / "install" / "rules_test.yaml"
OBSERVE_CASES = ROOT / "tests" / "install" / "rules_observe_test.yaml"
FILES = [(RULES, CASES, 15), (OBSERVE_RULES, OBSERVE_CASES, 7)]


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
    text = OBSERVE_RULES.read_text().replace(BASE, "https://wiki/runbooks")
    assert chosen == yaml.safe_load(text)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rules))
    ask(promtool, "check", "rules", "--lint-fatal", str(file))
    carried = named(objects, "ConfigMap", "podgroup-extender-dashboard")["data"]
    assert json.loads(carried["podgroup-extender.json"]) == dashboard.dashboard()
