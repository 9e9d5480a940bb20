"""Count in the full traces what the mix draws from, and write it beside this file.

    python -m bench.inputs.data.derive --traces DIR

DIR holds openb-2023/ and itp-2021/ as bench/inputs/data/README.md describes them. Only
counts leave this program: how often a node shape, a pod shape, a job size
occurs, and quantiles of how long jobs ran.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
QUANTILES = 20
"""Durations are kept as their 0/20, 1/20, ... 20/20 quantiles."""

SOURCES: dict[str, dict[str, str]] = {
    "openb-2023": {
        "repository": "github.com/hkust-adsl/kubernetes-scheduler-simulator",
        "commit": "8f3d6417353c5083c6d56617f255fadd8dc306bc",
        "files": "data/csv/openb_node_list_all_node.csv, data/csv/openb_pod_list_default.csv",
        "licence": "Apache-2.0",
        "cite": "Beware of Fragmentation, USENIX ATC 2023",
    },
    "itp-2021": {
        "repository": "github.com/microsoft/elasticflow-traces",
        "commit": "277ed24d0e908c31a1c98145819e2e3853d8ac00",
        "files": "data/raw-traces.tar.gz",
        "licence": "MIT",
        "cite": "ElasticFlow, ASPLOS 2023",
    },
}


def openb(folder: Path) -> dict[str, Any]:
    """Return counts of node shapes and of pod shapes.

    ``nodes``: [milli-CPU, MiB, GPUs, model, count]; ``pods``: [milli-CPU, MiB, GPUs,
    count]. A pod that asks for a fraction of a GPU counts as asking for one,
    since plain Kubernetes cannot say less.
    """
    nodes = Counter(
        (int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(folder / "openb_node_list_all_node.csv")
    )
    pods = Counter(
        (int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]))
        for row in _rows(folder / "openb_pod_list_default.csv")
    )
    return {"source": SOURCES["openb-2023"], "nodes": _listed(nodes), "pods": _listed(pods)}


def itp(folder: Path) -> dict[str, Any]:
    """Return, by number of GPUs, how many jobs there were and how long they ran.

    ``jobs``: [GPUs, count, [quantiles of the duration in seconds]].
    """
    durations: dict[int, list[int]] = {}
    paths = sorted(folder.glob("cluster*.csv"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no cluster*.csv")
    for path in paths:
        for row in _rows(path):
            durations.setdefault(int(row["num_gpu"]), []).append(int(row["duration"]))
    jobs = [[gpus, len(ran), _quantiles(sorted(ran))] for gpus, ran in sorted(durations.items())]
    return {"source": SOURCES["itp-2021"], "jobs": jobs}


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def _listed(counts: Counter[Any]) -> list[list[Any]]:
    """Most frequent first, then by shape, so that the same trace gives the same bytes."""
    return [
        [*shape, count]
        for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _quantiles(values: Sequence[int]) -> list[int]:
    return [values[i * (len(values) - 1) // QUANTILES] for i in range(QUANTILES + 1)]


def write(name: str, document: Mapping[str, Any], folder: Path = HERE) -> Path:
    """Write one distribution, one row a line; return its path."""
    path = folder / f"{name}.json"
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            body = ",\n  ".join(json.dumps(row) for row in value)
            parts.append(f'"{key}": [\n  {body}\n]')
        else:
            parts.append(f'"{key}": {json.dumps(value, indent=1)}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    return path


def main(arguments: Iterable[str] | None = None) -> int:
    """Derive both distributions; 2 when the traces are not where they should be."""
    parser = argparse.ArgumentParser(description="Count what the mix draws from.")
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        write("openb-2023", openb(options.traces / "openb-2023"))
        write("itp-2021", itp(options.traces / "itp-2021"))
    except (OSError, KeyError, ValueError) as problem:
        print(f"error: the traces in {options.traces} cannot be read: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
