"""Render the chart as ``helm template`` does, and lay it out as ``check`` reads it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from extender.check.findings import Finding, by_severity
from extender.cli import check_command
from tests.controlplane.releases import RELEASES
from tests.packaging.manifests import NAMESPACE, ROOT

CHART = ROOT / "charts" / "podgroup-extender"
NEWEST = list(RELEASES.values())[-1]
DIGEST = "sha256:" + "0123456789abcdef" * 4

Object = dict[str, Any]

MODES = ("second-scheduler", "deployment", "static-pod")


class Helm(Struct, frozen=True):
    """The program, with a home of its own and, where it talks to a cluster, a kubeconfig."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it; the caller looks at the exit status."""
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.home)}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        return subprocess.run(
            [str(self.program), *words],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def template(self, values: Object, *words: str) -> subprocess.CompletedProcess[str]:
        """Render with these values."""
        return self.run(
            *("template", "podgroup-extender", str(CHART), "--namespace", NAMESPACE),
            *("--kube-version", NEWEST.version, "--values", "-", *words),
            stdin=json.dumps(values),
        )

    def objects(self, values: Object) -> list[Object]:
        """Every object that these values give, tests of the release included."""
        done = self.template(values)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]

    def notes(self, values: Object, scratch: Path) -> str:
        """What the release prints; `helm template` leaves it out, so a copy has it as an object."""
        chart = scratch / "chart"
        if not chart.exists():
            shutil.copytree(CHART, chart)
            shutil.move(chart / "templates/NOTES.txt", chart / "notes.txt")
            (chart / "templates/notes.yaml").write_text(
                'kind: Notes\ntext: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
            )
        done = self.run(
            *("template", "podgroup-extender", str(chart), "--namespace", NAMESPACE),
            *("--kube-version", NEWEST.version, "--values", "-"),
            *("--show-only", "templates/notes.yaml"),
            stdin=json.dumps(values),
        )
        assert done.returncode == 0, done.stderr
        return str(yaml.safe_load(done.stdout)["text"])


def named(objects: list[Object], kind: str, name: str) -> Object:
    """The one object of this kind and name."""
    (found,) = [e for e in objects if (e["kind"], e["metadata"]["name"]) == (kind, name)]
    return found


def carried(objects: list[Object], kind: str, name: str, key: str) -> str:
    """A file that a ConfigMap or Secret carries."""
    found = named(objects, kind, name)
    return str({**found.get("data", {}), **found.get("stringData", {})}[key])


def lay_out(objects: list[Object], mode: str, directory: Path) -> list[str]:
    """Write an installation as files, and return the words for ``check``."""
    rest = directory / "objects.yaml"
    rest.write_text(yaml.safe_dump_all(objects))
    # Named as where they are mounted, or check says that another file is read.
    own_name = "extender-config" if mode == "static-pod" else "config"
    files = {"config": "", "scheduler": "", "pod": ""}
    match mode:
        case "second-scheduler":
            own = ("ConfigMap", "podgroup-extender-config", "config.yaml")
            files["config"] = carried(objects, *own)
            files["scheduler"] = carried(
                objects, "ConfigMap", "podgroup-scheduler-config", "kube-scheduler-config.yaml"
            )
            files["pod"] = yaml.safe_dump(named(objects, "Deployment", "podgroup-scheduler"))
            rest.write_text(yaml.safe_dump_all(o for o in objects if o["kind"] != "Deployment"))
        case "deployment":
            own = ("ConfigMap", "podgroup-extender-config", "config.yaml")
            files["config"] = carried(objects, *own)
            files["scheduler"] = host_file(objects, "kube-scheduler-config.yaml")
        case _:
            files["config"] = host_file(objects, "extender-config.yaml")
            files["scheduler"] = host_file(objects, "kube-scheduler-config.yaml")
            files["pod"] = host_file(objects, "kube-scheduler.yaml")
    names = {"config": own_name, "scheduler": "kube-scheduler-config", "pod": "pod"}
    for key, text in files.items():
        (directory / f"{names[key]}.yaml").write_text(text)
    words = ["--config", str(directory / f"{own_name}.yaml"), "--manifest", str(rest)]
    words += ["--scheduler-config", str(directory / "kube-scheduler-config.yaml")]
    if files["pod"]:
        return [*words, "--scheduler-manifest", str(directory / "pod.yaml")]
    return [*words, "--scheduler-feature-gates", "GenericWorkload=false"]


def host_file(objects: list[Object], key: str) -> str:
    """A file for the hosts of the control plane."""
    return carried(objects, "Secret", "podgroup-extender-host-files", key)


def findings(objects: list[Object], mode: str, directory: Path) -> list[Finding]:
    """What ``check`` finds in a rendered installation; nothing is left unlooked at."""
    parser = argparse.ArgumentParser()
    check_command.add_parser(parser.add_subparsers())
    words = lay_out(objects, mode, directory)
    found, unchecked = check_command.examine(parser.parse_args(["check", *words]))
    assert unchecked == []
    return by_severity(found)
