"""Helm, promtool, kind, kubectl and the managers of JobSet and Kueue, built from pinned Go modules
into the control plane's cache.

``python -m tests.install.programs`` builds those named, by default all but Kueue's, which is long
to build, and prints where they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.controlplane.build import BuildError, Log, Module, default_cache, ensure_module

HERE = Path(__file__).resolve().parent

HELM = Module("helm", HERE / "helm", (("helm", "helm.sh/helm/v3/cmd/helm"),), "-s -w")

# Service discovery of clouds is most of it, and nothing that checks rules.
PROMTOOL = Module(
    "promtool",
    HERE / "promtool",
    (("promtool", "github.com/prometheus/prometheus/cmd/promtool"),),
    "-s -w",
    "remove_all_sd",
)

KIND = Module("kind", HERE / "kind", (("kind", "sigs.k8s.io/kind"),), "-s -w")

# Its commands are a library; the program around them is five lines of our own.
KUBECTL = Module(
    "kubectl",
    HERE / "kubectl",
    (("kubectl", "podgroup-extender.test/install/kubectl"),),
    "-s -w",
    sources=(HERE / "kubectl",),
)

JOBSET = Module("jobset", HERE / "jobset", (("jobset", "sigs.k8s.io/jobset"),), "-s -w")

KUEUE = Module("kueue", HERE / "kueue", (("kueue", "sigs.k8s.io/kueue/cmd/kueue"),), "-s -w")


def ensure(module: Module, cache: Path | None = None, log: Log | None = None) -> Path:
    """Return the path of a module's one program, building it when the cache has none."""
    ((name, _),) = module.packages
    return ensure_module(module, cache or default_cache(), log or (lambda _: None)) / name


def main() -> int:
    """Build those that are named."""
    usual = (HELM, PROMTOOL, KIND, KUBECTL, JOBSET)
    named = [module for module in (*usual, KUEUE) if module.name in sys.argv[1:]]
    try:
        for module in named if sys.argv[1:] else usual:
            print(ensure(module, log=lambda line: print(line, flush=True)))
    except BuildError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
