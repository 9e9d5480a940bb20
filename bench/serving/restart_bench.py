"""How long a restart takes: from the start of the process to the first good answer of /filter.

``python -m bench.serving.restart_bench --nodes 5000 --pods 150000`` starts a toy API server in a
process of its own (bench.serving.cache_server, which says where its objects come from), then the
real ``serve`` against it over loopback with a kubeconfig, and asks /filter for one pod every 20 ms
until it is answered. The stages are read from the process's own log lines and its CPU time from
the kernel; the toy needs CPU of its own for what it sends. Aim: 6 s at 150,000 pods.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from bench.serving.verbs_bench import question

AIM_SECONDS = 6.0
ASK_SECONDS = 0.02
LIMIT_SECONDS = 120.0
STAGES = {
    "starting": "interpreter, imports, credentials",
    "caches synced": "lists",
    "ready": "plan records, first look of the planner",
    "answered": "first answer",
}
"""Log line that ends a stage -> what the stage is."""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: toy
contexts: [{{name: toy, context: {{cluster: toy, user: toy, namespace: default}}}}]
clusters: [{{name: toy, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: toy, user: {{token: toy}}}}]
"""


def follow(stream: IO[str], seen: dict[str, float], address: list[str], errors: list[str]) -> None:
    """Note when each log line came, until the end."""
    for text in stream:
        try:
            line = json.loads(text)
        except ValueError:
            errors.append(text.rstrip())
            continue
        if "url" in line:
            address.append(line["url"])
        if line.get("level") in ("warning", "error"):
            errors.append(text.rstrip())
        seen.setdefault(line["event"], datetime.fromisoformat(line["timestamp"]).timestamp())


def answered(url: str, body: bytes) -> bool:
    """Return whether /filter gives a good answer now."""
    request = urllib.request.Request(
        f"{url}/filter", body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as answer:
            return not json.load(answer).get("Error")
    except (urllib.error.URLError, ConnectionError):
        return False


def used(pid: int) -> tuple[float, float]:
    """Return a process's CPU seconds so far and its largest resident memory in MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(peak) / 1024


def restart(port: int, directory: Path, config: Path) -> dict[str, float]:
    """Return seconds by stage of one start, and what it used."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(port=port))
    command = [sys.executable, "-m", "extender.app.main", "serve", "--port", "0"]
    command += ["--kubeconfig", str(kubeconfig), "--config", str(config)]
    body = question(1)
    seen: dict[str, float] = {}
    address: list[str] = []
    errors: list[str] = []
    began = time.time()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        reader = threading.Thread(target=follow, args=(process.stderr, seen, address, errors))
        reader.start()
        try:
            while not (address and answered(address[0], body)):
                if process.poll() is not None or time.time() - began > LIMIT_SECONDS:
                    raise SystemExit("\n".join(["no answer:", *errors]))
                time.sleep(ASK_SECONDS)
            seen["answered"] = time.time()
            cpu, peak = used(process.pid)
        finally:
            process.terminate()
            reader.join()
    result, last = {}, began
    for event, stage in STAGES.items():
        if event in seen:
            result[stage] = max(0.0, seen[event] - last)
            last = max(last, seen[event])
    return result | {"total": seen["answered"] - began, "cpu": cpu, "peakMiB": peak}


def main() -> None:
    """Run and print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-watch-list", action="store_true", help="use paged lists")
    options = parser.parse_args()
    toy_command = [sys.executable, "-m", "bench.serving.cache_server", "--events", "0", "--waiting"]
    toy_command += ["--nodes", str(options.nodes), "--pods", str(options.pods)]
    with (
        tempfile.TemporaryDirectory() as scratch,
        subprocess.Popen(
            toy_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as toy,
    ):
        assert toy.stdout is not None
        assert toy.stdin is not None
        config = Path(scratch, "config.yaml")
        config.write_text(f"cache: {{watchList: {str(not options.no_watch_list).lower()}}}\n")
        try:
            port = int(toy.stdout.readline())
            rounds: list[dict[str, Any]] = [
                dict(restart(port, Path(scratch), config)) for _ in range(options.rounds)
            ]
        finally:
            toy.stdin.close()
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    document = {"nodes": options.nodes, "pods": options.pods, "rounds": rounds, "median": middle}
    print(json.dumps(document, indent=1))
    parts = [f"{stage} {middle[stage]:.2f}" for stage in STAGES.values() if stage in middle]
    print(
        f"{options.pods} pods on {options.nodes} nodes, median of {options.rounds}: first answer "
        f"after {middle['total']:.2f} s (aim {AIM_SECONDS:.0f}; CPU {middle['cpu']:.2f} s, peak "
        f"{middle['peakMiB']:.0f} MiB): {', '.join(parts)}"
    )


if __name__ == "__main__":
    main()
