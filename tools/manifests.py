"""Write manifests/ from the chart, or compare: ``python -m tools.manifests [--check]``.

The chart is the one source. It can say all that the plain manifests say, and not the other way
round; and what Kustomize reads should be files that can be read, with their comments, and applied
without Helm. So the files are kept in the repository, and the checks render them again and compare.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "podgroup-extender"
MANIFESTS = ROOT / "manifests"
NAMESPACE = "podgroup-extender"

HEADER = (
    "# Rendered from charts/podgroup-extender by `python -m tools.manifests`: change it there.\n"
)

COMMON = {
    "namespace.create": "true",
    # Kustomize names generated ConfigMaps by their content, which rolls pods out as well.
    "rollOnConfigChange": "false",
}


class Part(Struct, frozen=True):
    """A file of manifests/: templates of one rendering, or a file that one of them carries."""

    file: str
    values: dict[str, str]
    templates: tuple[str, ...]
    carried: str = ""
    """A key of the only object's data; its text is the file."""


SECOND = {"mode": "second-scheduler"}
DEPLOYMENT = {"mode": "deployment", "service.address": "10.96.0.88"}
STATIC = {"mode": "static-pod"}
BARRIER = {**SECOND, "bindBarrier.enabled": "true"}

PARTS = (
    Part("namespace.yaml", SECOND, ("namespace",)),
    Part("rbac.yaml", SECOND, ("rbac",)),
    Part("rbac-other-groups.yaml", {**SECOND, "rbac.otherGroups": "true"}, ("rbac-other-groups",)),
    Part("extender-config.yaml", SECOND, ("extender-config",)),
    Part("kube-scheduler-config.yaml", SECOND, ("scheduler-config",), "kube-scheduler-config.yaml"),
    Part("sidecar.yaml", SECOND, ("second-scheduler", "second-scheduler-rbac")),
    Part("deployment.yaml", DEPLOYMENT, ("extender-config", "deployment", "deployment-rbac")),
    Part(
        "kube-scheduler-config-split.yaml",
        DEPLOYMENT,
        ("host-files",),
        "kube-scheduler-config.yaml",
    ),
    *(
        Part(f"static-pod/{name}", STATIC, ("host-files",), name)
        for name in ("extender-config.yaml", "kube-scheduler-config.yaml", "kube-scheduler.yaml")
    ),
    Part("barrier/extender-config.yaml", BARRIER, ("extender-config",)),
    Part(
        "barrier/kube-scheduler-config.yaml",
        BARRIER,
        ("scheduler-config",),
        "kube-scheduler-config.yaml",
    ),
    Part("barrier/rbac.yaml", BARRIER, ("rbac-bind",)),
)


def render(helm: Path, kube_version: str, values: dict[str, str], directory: Path) -> Path:
    """Render the chart into a directory; the returned one has a file for each template.

    Raises CalledProcessError when the chart refuses the values.
    """
    words = [f"{key}={value}" for key, value in {**COMMON, **values}.items()]
    command = [str(helm), "template", "podgroup-extender", str(CHART), "--namespace", NAMESPACE]
    command += ["--kube-version", kube_version, "--output-dir", str(directory)]
    command += [word for each in words for word in ("--set", each)]
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(directory),
        "TMPDIR": tempfile.gettempdir(),
    }
    subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return directory / "podgroup-extender" / "templates"


def text(part: Part, rendered: Path) -> str:
    """The file's text."""
    documents = [d for name in part.templates for d in _documents(rendered / f"{name}.yaml")]
    if not part.carried:
        return HEADER + "---\n".join(documents)
    (document,) = documents
    value = yaml.safe_load(document)
    carried = {**(value.get("data") or {}), **(value.get("stringData") or {})}
    return HEADER + str(carried[part.carried]).rstrip() + "\n"


def _documents(path: Path) -> Iterator[str]:
    """Documents of one rendered template, without Helm's own lines."""
    for document in re.split(r"^---\n", path.read_text(), flags=re.MULTILINE):
        found = re.sub(r"^# Source: .*\n", "", document).strip()
        if found:
            yield found + "\n"


def files(helm: Path, kube_version: str) -> dict[str, str]:
    """Every rendered file: path below manifests/ -> text."""
    result: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        done: dict[str, Path] = {}
        for part in PARTS:
            key = repr(sorted(part.values.items()))
            if key not in done:
                directory = Path(scratch) / str(len(done))
                directory.mkdir()
                done[key] = render(helm, kube_version, part.values, directory)
            result[part.file] = text(part, done[key])
    return result


def kube_version() -> str:
    """The version of kube-scheduler that kustomization.yaml names."""
    (document,) = yaml.safe_load_all((MANIFESTS / "kustomization.yaml").read_text())
    (tag,) = [e["newTag"] for e in document["images"] if e["name"].endswith("/kube-scheduler")]
    return str(tag)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m tools.manifests", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--helm", type=Path, help="the helm to use; default: the one on PATH")
    options = parser.parse_args(arguments)
    found = options.helm or shutil.which("helm")
    if found is None:
        print("error: no helm on PATH; name one with --helm", file=sys.stderr)
        return 2
    try:
        wanted = files(Path(found), kube_version())
    except subprocess.CalledProcessError as problem:
        print(f"error: helm template failed: {problem.stderr.strip()}", file=sys.stderr)
        return 2
    stale = [
        name
        for name, content in wanted.items()
        if not (MANIFESTS / name).is_file() or (MANIFESTS / name).read_text() != content
    ]
    for name in stale:
        if options.check:
            print(f"manifests/{name} is not what the chart gives: run python -m tools.manifests")
        else:
            (MANIFESTS / name).write_text(wanted[name])
            print(f"written: manifests/{name}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
