"""Pods scheduled per second, with the extender and without it.

    python -m bench.rival.throughput --nodes 500 --pods 2000 --rounds 3
    python -m bench.rival.throughput --gangs 10

On a real control plane of the newest release. Pods are of no gang; with ``--gangs`` a share of
them is in gangs, and seats are held all the time. All pods wait before kube-scheduler
starts; the rate is taken between the first and the last binding a watch sees, so
start-up does not count. Ways take turns within a round, and the ratio is to
``none`` of the same run. Everything, kwok's status updates and the watch included,
shares this machine's cores, so a ratio says more than a rate, and the CPU time that
each process spends on a pod says more than both.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct

from bench.inputs.state import GPU
from bench.inputs.throughput_inputs import (
    GANG,
    GRACE,
    HELD_SHARE,
    HIGH,
    LOW,
    PRIORITY,
    Input,
    waiting,
)
from bench.report import write_json, write_section
from bench.rival.bed import Bed
from bench.rival.comparison import machine
from bench.rival.serving import serving
from tests.controlplane.build import BuildError, ensure_plugin
from tests.controlplane.cleaning import Baseline
from tests.controlplane.harness import ControlPlane
from tests.controlplane.releases import release
from tests.controlplane.scheduler import BINDER, plugin_config, scheduler_config
from tests.controlplane.watching import Watch

MINOR = "1.37"
OUT = Path(__file__).parent.parent / "out" / "throughput.json"

Way = Literal[
    "none",
    "extender",
    "extender that binds",
    "extender with prioritize",
    "extender for GPUs only",
    "plugin",
    "none, a tenth of the nodes",
    "extender, a tenth of the nodes",
    "none, every node",
    "extender, every node",
]
WAYS: tuple[Way, ...] = get_args(Way)
ENTRY: dict[Way, dict[str, Any]] = {
    "extender with prioritize": {"prioritizeVerb": "prioritize", "weight": 1},
    # kube-scheduler does not ask about pods that want none of these: see docs/operations.md.
    "extender for GPUs only": {"managedResources": [{"name": GPU}]},
}
"""Changes to the documented extender entry."""
PERCENTAGE: dict[Way, int] = {
    "none, a tenth of the nodes": 10,
    "extender, a tenth of the nodes": 10,
    "none, every node": 100,
    "extender, every node": 100,
}
"""percentageOfNodesToScore; kube-scheduler's own default where a way is not named."""


class Measured(Struct, frozen=True):
    """One way, measured once."""

    rate: float
    """Pods per second."""
    cpu: dict[str, float]
    """Process -> milliseconds of CPU a pod, from the first binding seen to the last."""
    kib: tuple[float, float] = (0.0, 0.0)
    """KiB a pod that kube-scheduler asked the extender with, and that it was answered."""


class Road:
    """A control plane on which pods wait to be scheduled, again and again."""

    def __init__(self, control_plane: ControlPlane, given: Input) -> None:
        """Make the nodes, which stay."""
        self.control_plane = control_plane
        self.given = given
        self.state = given.state
        control_plane.stop_scheduler()
        self.bed = Bed(control_plane, [LOW, PRIORITY, HIGH])
        self.bed.create(self.state.node_documents())
        self.bed.wait_nodes()
        self._baseline = Baseline(control_plane.client())
        self._metrics = ""
        """Where the extender of this way tells its metrics; nowhere without one."""

    def measure(self, way: Way, timeout: float) -> Measured:
        """Schedule all pods once. Raises TimeoutError."""
        try:
            with self._joined(way) as start:
                self._hold_seats(start, timeout)
                self.bed.create(self.state.group_documents(self.control_plane.release))
                self.bed.create(self.state.pod_documents())
                watch = Watch(self.bed.client)
                try:
                    return self._bound(watch, start(), timeout)
                finally:
                    watch.stop()
        finally:
            self.bed.remove_pods()
            self._baseline.clean(timeout)

    def _hold_seats(self, start: Callable[[], object], timeout: float) -> None:
        """Have pods evicted that do not go. kube-scheduler is stopped then, and seats are held."""
        if not self.given.staying:
            return
        client, names = self.bed.client, [pod.name for pod in self.given.staying]
        self.bed.create(self.given.staying_documents())
        client.wait_running(*names, timeout=timeout)
        group, *members = self.state.gang_documents(self.control_plane.release)
        client.create(group)
        self.bed.create(members)
        start()
        client.wait_for(lambda: all(map(self._leaves, names)), timeout, "room is being made")
        self.control_plane.stop_scheduler()

    def _leaves(self, name: str) -> bool:
        return "deletionTimestamp" in self.bed.client.get("Pod", name)["metadata"]

    def _bound(self, watch: Watch, pids: Mapping[str, int], timeout: float) -> Measured:
        """Wait until every pod has been seen with a node."""
        first: dict[str, float] = {}
        seen = before = 0
        began: dict[str, float] = {}
        wanted = self.given.measured
        end = time.monotonic() + timeout
        while len(first) < len(wanted):
            events = watch.events
            for event in events[seen:]:
                if event.name in wanted and event.object["spec"].get("nodeName"):
                    first.setdefault(event.name, event.at)
            seen = len(events)
            if first and not began:
                before, began = len(first), cpu_seconds(pids)
            if time.monotonic() > end:
                raise TimeoutError(f"{len(first)} pods bound in {timeout:g} s")
            time.sleep(0.1)
        spent, pods = cpu_seconds(pids), len(first) - before
        bound = sorted(first.values())
        return Measured(
            rate=(len(bound) - 1) / (bound[-1] - bound[0]),
            cpu={name: (spent[name] - began[name]) * 1000 / max(1, pods) for name in spent},
            kib=exchanged(self._metrics, len(wanted)) if self._metrics else (0.0, 0.0),
        )

    @contextlib.contextmanager
    def _joined(self, way: Way) -> Iterator[Callable[[], Mapping[str, int]]]:
        """Run the extender, unless the way is none; give what starts kube-scheduler.

        That returns process ids, and may be called again.
        """
        plane = self.control_plane
        with contextlib.ExitStack() as stack:
            config, extender = scheduler_config(), {}
            self._metrics = ""
            program = ensure_plugin(MINOR) if way == "plugin" else None
            if not way.startswith("none"):
                namespace = self.bed.client.namespace
                binds = way == "extender that binds"
                served = stack.enter_context(
                    serving(
                        plane.workdir,
                        plane.extender_kubeconfig,
                        namespace,
                        binds=binds,
                        listens=way == "plugin",
                        slack=GRACE,
                    )
                )
                self._metrics = f"{served.url}/metrics"
                config = scheduler_config(served.url, **ENTRY.get(way, {}))
                if way == "plugin":
                    config = plugin_config(served.grpc)
                if binds:
                    config["extenders"].append({"urlPrefix": served.url, **BINDER})
                extender = {"extender": served.pid}
            if way in PERCENTAGE:
                config["percentageOfNodesToScore"] = PERCENTAGE[way]
            stack.callback(plane.stop_scheduler)

            def start() -> Mapping[str, int]:
                plane.restart_scheduler(config, gates=(), program=program)
                return {**plane.pids, **extender, "benchmark": os.getpid()}

            yield start


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU time that each process has spent so far, user and system (Linux)."""
    tick = os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    for name, pid in pids.items():
        # The command, in parentheses, may hold blanks; user and system ticks are 12 fields on.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[name] = (int(fields[11]) + int(fields[12])) / tick
    return found


def exchanged(url: str, pods: int) -> tuple[float, float]:
    """KiB a pod of all calls' bodies, asked and answered, as the extender counts them."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    sums = dict.fromkeys(("in", "out"), 0.0)
    for line in lines:
        if line.startswith("podgroup_extender_body_bytes_total{"):
            labels, _, value = line.rpartition(" ")
            sums["in" if 'direction="in"' in labels else "out"] += float(value)
    return sums["in"] / pods / 1024, sums["out"] / pods / 1024


def run(options: argparse.Namespace, control_plane: ControlPlane) -> dict[str, Any]:
    """Measure all ways in turns and return the document to print."""
    road = Road(control_plane, waiting(options.nodes, options.pods, options.gangs / 100))
    ways: tuple[Way, ...] = tuple(way for way in WAYS if way in options.ways)
    found: dict[Way, list[Measured]] = {way: [] for way in ways}
    try:
        for number in range(options.rounds):
            # Who comes first changes, so that a slow drift of the machine hits all alike.
            turn = number % len(ways)
            for way in (*ways[turn:], *ways[:turn]):
                found[way].append(one := road.measure(way, options.timeout))
                print(f"round {number + 1}: {way}: {one.rate:.0f} pods/s", file=sys.stderr)
    finally:
        road.bed.close()
    middle = {way: statistics.median(one.rate for one in ones) for way, ones in found.items()}
    return {
        "command": f"python -m bench.rival.throughput --nodes {options.nodes} "
        f"--pods {options.pods} --rounds {options.rounds}"
        + (f" --gangs {options.gangs:g}" if options.gangs else "")
        + ("" if ways == WAYS else "".join(f" --way '{way}'" for way in ways)),
        "machine": machine(),
        "load before": options.load,
        "gangs": options.gangs,
        "kubernetes": release(MINOR).version,
        "pods per second": {way: [round(one.rate, 1) for one in found[way]] for way in ways},
        "median": {way: round(middle[way], 1) for way in ways},
        "share of none": {way: round(middle[way] / middle["none"], 3) for way in ways},
        "KiB a pod": {
            way: [round(statistics.median(one.kib[i] for one in ones), 1) for i in (0, 1)]
            for way, ones in found.items()
        },
        "CPU ms a pod": {
            way: {
                name: round(statistics.median(one.cpu[name] for one in ones), 2)
                for name in ones[0].cpu
            }
            for way, ones in found.items()
        },
    }


def table(done: dict[str, Any]) -> str:
    """The document as Markdown."""
    held = [
        f"{done['gangs']:g} % of the pods are in gangs of {GANG}. Beside {HELD_SHARE} nodes each",
        "is one with a seat that is held all the time, and with room for other pods.",
        "",
    ]
    held = held if done["gangs"] else []
    lines = [
        f"- Machine: {done['machine']}; load before the run {done['load before']}",
        f"- Kubernetes {done['kubernetes']}, kwok instead of kubelets, gates of kube-scheduler off",
        f"- Command: `{done['command']}`",
        "",
        *held,
        "Pods per second between the first and the last binding that a watch sees. `none` is a",
        "stock kube-scheduler with its default sampling of nodes, and so is each way that names no",
        "nodes; `a tenth of the nodes` is percentageOfNodesToScore: 10 (a hundred nodes at least),",
        "`every node` 100. All ways share this machine's cores with API server, etcd and kwok.",
        "",
        "| way | each round | median | share of none |",
        "| --- | --- | ---: | ---: |",
    ]
    for way in done["median"]:
        rounds = ", ".join(f"{rate:.0f}" for rate in done["pods per second"][way])
        share = done["share of none"][way]
        lines.append(f"| {way} | {rounds} | {done['median'][way]:.0f} | {share:.2f} |")
    measured = done["CPU ms a pod"].values()
    names = list(dict.fromkeys(name for cpu in measured for name in cpu))
    lines += [
        "",
        "Milliseconds of CPU a pod in that time, medians; `benchmark` is the watch that counts.",
        "The last column is what the calls carried: KiB a pod, asked and answered.",
        "",
        "| way | " + " | ".join(names) + " | all | calls |",
        "| --- |" + " ---: |" * (len(names) + 2),
    ]
    for way in done["median"]:
        spent = done["CPU ms a pod"][way]
        cells = [f"{spent[name]:.2f}" if name in spent else "" for name in names]
        asked, answered = done["KiB a pod"][way]
        calls = f"{asked:.1f} + {answered:.1f}" if asked else ""
        cells += [f"{sum(spent.values()):.2f}", calls]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print one JSON document; 2 for bad input."""
    parser = argparse.ArgumentParser(description="Schedule plain pods, with and without.")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument(
        "--gangs", type=float, default=0.0, metavar="PERCENT", help="of the pods are in gangs"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--way", dest="ways", action="append", choices=WAYS, help="measure it (default: all)"
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one way")
    parser.add_argument("--out", type=Path, default=OUT, help="where the JSON goes")
    parser.add_argument("--report", type=Path, help="put the tables into this page as well")
    parser.add_argument("--section", default="throughput", help="where on the page")
    options = parser.parse_args(arguments)
    options.ways = options.ways or WAYS
    if "none" not in options.ways:
        print("error: shares are of none: measure it too", file=sys.stderr)
        return 2
    if options.nodes < 1 or options.rounds < 1 or not 2 <= options.pods <= options.nodes * 100:
        print("error: at least one node and round, 2 to 100 pods a node", file=sys.stderr)
        return 2
    if not 0 <= options.gangs <= 100:
        print("error: 0 to 100 percent of the pods are in gangs", file=sys.stderr)
        return 2
    options.load = round(os.getloadavg()[0], 1)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="podgroup-bench-") as folder,
            ControlPlane(MINOR, Path(folder)) as control_plane,
        ):
            done = run(options, control_plane)
    except (BuildError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    write_json(done, options.out)
    if options.report is not None:
        write_section(options.section, table(done), options.report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
