"""The real SkyPilot in a home of its own, with its API server on a loopback port."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from extender.sandbox.ports import Ports
from tests.controlplane.processes import Process

Obj = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180.0
SECONDS = 240.0
"""For one command: some seconds each, but most of them import half of SkyPilot."""

IMAGE = "docker:example.com/nothing:1"
CONFIG: Obj = {
    # All others would be asked for credentials, and some for a catalog from outside.
    "allowed_clouds": ["kubernetes"],
    # No controller in a pod: it would want a kubelet.
    "jobs": {"controller": {"consolidation_mode": True}},
}
CATALOGS = {
    "kubernetes/images.csv": "Tag,Region,OS,OSVersion,ImageId,CreationDate\n",
    "common/accelerators.csv": "AcceleratorName,Clouds\n",
    "common/metadata.csv": "GPU,MemoryGB,Manufacturer\n",
}
"""Catalogs that it would download. One without a checksum beside it counts as the user's own."""


class SkyError(AssertionError):
    """A command ended with another status than it should; with what it printed."""


class Sky:
    """Commands of SkyPilot for one cluster.

    Nothing is read from, or written to, the caller's home: HOME is ``home``.
    """

    def __init__(self, home: Path, programs: Path, kubectl: Path) -> None:
        self.home = home
        self._sky = programs / "sky"
        self._ports = Ports()
        port = port_with_queue(self._ports)
        self._url = f"http://127.0.0.1:{port}/api/health"
        # The rest of the environment might name clouds, proxies or another API server.
        self._environment = {
            "HOME": str(home),
            "PATH": f"{programs}:{kubectl.parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            "SKYPILOT_API_SERVER_LOCAL_PORT": str(port),
            # It starts as many workers and controllers as fit into the memory it sees.
            "SKYPILOT_POD_CPU_CORE_LIMIT": "2",
            "SKYPILOT_POD_MEMORY_GB_LIMIT": "6",
        }
        self._server: Process | None = None
        self._sweeper: subprocess.Popen[bytes] | None = None

    def start(self, kubeconfig: Path, namespace: str) -> None:
        """Write what it reads from its home, and start its API server."""
        document = json.loads(kubeconfig.read_text())
        document["contexts"][0]["context"]["namespace"] = namespace
        self._write(".kube/config", json.dumps(document))
        self._write(".sky/config.yaml", json.dumps(CONFIG))
        for name, text in CATALOGS.items():
            self._write(f".sky/catalogs/v8/{name}", text)
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        # In a session of its own, so that what ends this process does not end it.
        sweep = [sys.executable, "-m", "tests.clients.sky", str(self.home)]
        self._sweeper = subprocess.Popen(
            sweep, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
        )
        command = ["/usr/bin/env", "-i", "-C", str(self.home), *variables]
        command += [str(self._sky), "api", "start", "--foreground"]
        self._server = Process("sky", command, self.home / "server.log")
        self._server.wait_ready(self._healthy, START_SECONDS)

    def run(self, *words: str, status: int = 0, seconds: float = SECONDS) -> str:
        """What one command printed, in plain text. Raises SkyError when it ends otherwise."""
        done = subprocess.run(
            [self._sky, *words],
            cwd=self.home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )
        said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout)
        if done.returncode != status:
            raise SkyError(f"sky {' '.join(words)} ended with {done.returncode}:\n{said}")
        return said

    def task(self, name: str, pods: int, cpu: int, spec: Obj, **kubernetes: Any) -> str:
        """A file with a task of equal pods; ``spec`` goes into each pod's, as users do it."""
        document = {
            "name": name,
            "resources": {
                "infra": "kubernetes",
                "cpus": cpu,
                "memory": 1,
                "image_id": IMAGE,
            },
            "num_nodes": pods,
            "config": {"kubernetes": {"pod_config": {"spec": spec}, **kubernetes}},
            "run": "sleep 1000",
        }
        return str(self._write(f"{name}.yaml", json.dumps(document)))

    def happened(self, cluster: str) -> list[str]:
        """What SkyPilot has noted of a cluster, oldest first; its dashboard shows it."""
        with contextlib.closing(sqlite3.connect(self.home / ".sky" / "state.db")) as state:
            rows = state.execute(
                "select reason from cluster_events where name = ? order by transitioned_at",
                (cluster,),
            )
            return [str(reason) for (reason,) in rows]

    def controller_log(self, job: int) -> str:
        """What the controller of a managed job has written."""
        path = self.home / "sky_logs" / "jobs_controller" / f"{job}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self) -> None:
        """Stop the API server as its users do, then whatever else runs in this home."""
        with contextlib.suppress(SkyError, subprocess.TimeoutExpired):
            self.run("api", "stop", seconds=60)
        if self._server is not None:
            self._server.stop(grace=0)
        if self._sweeper is not None:
            self._sweeper.communicate()
        self._ports.close()

    def _write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def port_with_queue(ports: Ports) -> int:
    """Reserve a port for the API server, and the one that it derives from that for its queue."""
    while True:
        api = ports.reserve()
        # sky/server/requests/queues/mp_queue.py, get_queue_manager_port
        with contextlib.suppress(OSError):  # Taken.
            ports.reserve(50000 + (11 + api - 46580) % 10000)
            return api


def processes_of(home: Path) -> list[int]:
    """Those that were started with this home; they start others in sessions of their own."""
    mark = f"HOME={home}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            variables = (path / "environ").read_bytes().split(b"\0")
            folder = Path(os.readlink(path / "cwd"))
        except OSError:  # Gone, or somebody else's.
            continue
        # Some write their title over their environment, and none of them leaves its folder.
        ours = mark in variables or folder == home or home in folder.parents
        if ours and state not in "ZX" and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


def sweep(home: Path) -> None:
    """Kill all of them, also those that they start meanwhile."""
    while left := processes_of(home):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    # Until whoever has started this closes the pipe, or has ended in whatever way.
    sys.stdin.buffer.read()
    sweep(Path(sys.argv[1]))
