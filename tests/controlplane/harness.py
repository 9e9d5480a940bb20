"""A real Kubernetes control plane in a directory: start it, change its scheduler, stop it."""

from __future__ import annotations

import json
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from extender.sandbox.ports import Ports
from tests.controlplane import commands
from tests.controlplane.build import ensure
from tests.controlplane.client import Client
from tests.controlplane.commands import Layout
from tests.controlplane.credentials import Users, write_kubeconfig, write_service_account_key
from tests.controlplane.processes import Process
from tests.controlplane.releases import release
from tests.controlplane.scheduler import Object, scheduler_config, write_scheduler_config

START_TIMEOUT = 180.0


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager, kwok and kube-scheduler on loopback ports.

    Use it as a context manager or call ``start`` and ``stop``. Its processes die with this one,
    however this one dies. ``scheduler_gates`` switches kube-scheduler's own pod group gates on
    (``release.wap_gates``); without them members are scheduled as plain pods.
    """

    def __init__(
        self,
        version: str,
        workdir: Path,
        *,
        scheduler: Object | None = None,
        scheduler_gates: Sequence[str] = (),
        apiserver_flags: Sequence[str] = (),
        cache: Path | None = None,
    ) -> None:
        """Prepare a control plane of a minor version; nothing is built or started yet."""
        self.release = release(version)
        self.workdir = workdir.resolve()
        self.users = Users()
        self.processes: dict[str, Process] = {}
        self.started_in: dict[str, float] = {}
        """Seconds each server took to become ready at the last start."""
        self.scheduler_document = scheduler if scheduler is not None else scheduler_config()
        self.scheduler_gates = tuple(scheduler_gates)
        self.scheduler_program: Path | None = None
        """A kube-scheduler other than the stock one."""
        self._apiserver_flags = tuple(apiserver_flags)
        self._cache = cache
        self._ports = Ports()
        self._layout: Layout | None = None
        self._programs: dict[str, Path] = {}
        self._scheduler_starts = 0

    @property
    def layout(self) -> Layout:
        """Paths and ports; known once started."""
        if self._layout is None:
            raise RuntimeError("the control plane has not been started")
        return self._layout

    @property
    def version(self) -> str:
        """The minor version, e.g. ``1.37``."""
        return self.release.minor

    @property
    def server_url(self) -> str:
        """The API server's address."""
        return self.layout.server_url

    @property
    def ca_file(self) -> Path:
        """What a client has to trust."""
        return self.layout.ca_file

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.users.admin.token

    @property
    def extender_token(self) -> str:
        """The bearer token of the user ``extender``, who has no rights until a test binds some."""
        return self.users.extender.token

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig("admin")

    @property
    def extender_kubeconfig(self) -> Path:
        """The kubeconfig of the user ``extender``."""
        return self.layout.kubeconfig("extender")

    @property
    def logs(self) -> Path:
        """The directory with one log file a server."""
        return self.workdir / "logs"

    @property
    def pids(self) -> dict[str, int]:
        """The process id of every server that runs."""
        return {name: each.pid for name, each in self.processes.items() if each.running}

    def client(self, namespace: str = "default", token: str | None = None) -> Client:
        """A JSON client, as the administrator unless another token is given."""
        return Client(self.server_url, token or self.token, self.ca_file, namespace)

    def start(self) -> Self:
        """Build what is missing and start everything; on a failure nothing is left running."""
        if self.processes:
            raise RuntimeError("the control plane is already running")
        self._programs = ensure(self.release.minor, self._cache)
        try:
            self._prepare()
            self._start_servers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything and wait for it. The state is thrown away, so nobody is asked nicely."""
        for process in reversed(self.processes.values()):
            process.stop(grace=0)
        self.processes.clear()
        self._ports.close()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *exc: object) -> None:
        """Stop."""
        self.stop()

    def restart_scheduler(
        self,
        config: Object | None = None,
        *,
        gates: Sequence[str] | None = None,
        program: Path | None = None,
    ) -> None:
        """Start kube-scheduler anew with a configuration (default: the last one) and gates.

        With a configuration, ``program`` takes the place of the stock kube-scheduler.
        """
        self.stop_scheduler()
        if config is not None:
            self.scheduler_document = config
            self.scheduler_program = program
        if gates is not None:
            self.scheduler_gates = tuple(gates)
        self._start_scheduler()

    def stop_scheduler(self) -> None:
        """Stop kube-scheduler, so that pods stay as they are."""
        if process := self.processes.pop("kube-scheduler", None):
            process.stop()

    def restart(self, name: str) -> None:
        """Kill one server and start it with the same command line, e.g. ``kube-apiserver``."""
        self.processes[name].stop(grace=0)
        self._run(name, self.processes[name].command, self._readiness(name))

    def ensure_servers(self) -> None:
        """Bring back what a test has stopped or killed, except kube-scheduler."""
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kwok"):
            self.processes[name].signal(signal.SIGCONT)
            if not self.processes[name].running:
                self.restart(name)

    def ensure_running(self, config: Object, gates: Sequence[str] = ()) -> None:
        """Bring everything back, the scheduler with this configuration and these gates."""
        self.ensure_servers()
        present = self.processes.get("kube-scheduler")
        as_wanted = (self.scheduler_document, self.scheduler_gates) == (config, tuple(gates))
        if present is None or not present.running or not as_wanted:
            self.restart_scheduler(config, gates=gates)

    def removals(self, since: float = 0.0) -> list[Object]:
        """Audit records of every request that deleted or evicted pods, oldest first.

        A record names the user, the verb, the pod and, in ``requestObject``, the preconditions.
        ``since`` leaves out records before a wall clock time.
        """
        path = self.layout.audit_log
        lines = path.read_text().splitlines() if path.exists() else []
        records: list[Object] = [json.loads(line) for line in lines]
        oldest = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since)) if since else ""
        return [record for record in records if record["requestReceivedTimestamp"] >= oldest]

    def _prepare(self) -> None:
        """Reserve ports and write every file the servers read."""
        for name in ("logs", "certs"):
            (self.workdir / name).mkdir(parents=True, exist_ok=True)
        ports = [self._ports.reserve() for _ in range(6)]
        layout = self._layout = Layout(self.workdir, *ports)
        self.users.write(layout.tokens)
        write_service_account_key(layout.service_account_key)
        commands.write_audit_policy(layout)
        for name in ("admin", "manager", "scheduler", "kwok", "extender"):
            user = getattr(self.users, name)
            write_kubeconfig(layout.kubeconfig(name), layout.server_url, layout.ca_file, user)

    def _start_servers(self) -> None:
        """Start the servers, those that only need the API server side by side."""
        layout, programs = self.layout, self._programs
        self._run("etcd", commands.etcd(programs["etcd"], layout), self._readiness("etcd"))
        self._run(
            "kube-apiserver",
            commands.apiserver(
                programs["kube-apiserver"], layout, self.release, self._apiserver_flags
            ),
            self._readiness("kube-apiserver"),
        )
        rest = {
            "kube-controller-manager": commands.manager(
                programs["kube-controller-manager"], layout, self.release
            ),
            "kwok": commands.kwok(programs["kwok"], layout),
            "kube-scheduler": self._scheduler_command(),
        }
        started = time.monotonic()
        for name, command in rest.items():
            self.processes[name] = Process(name, command, layout.log(name))
        for name in rest:
            self.processes[name].wait_ready(self._readiness(name), START_TIMEOUT)
            self.started_in[name] = time.monotonic() - started
        with self.client() as client:
            client.wait_for(
                lambda: client.get_or_none("ServiceAccount", "default"),
                what="service account of the namespace default",
            )

    def _start_scheduler(self) -> None:
        """Start kube-scheduler alone."""
        self._run("kube-scheduler", self._scheduler_command(), self._readiness("kube-scheduler"))

    def _scheduler_command(self) -> list[str]:
        """Write the next scheduler configuration and return the command line that reads it."""
        self._scheduler_starts += 1
        config = write_scheduler_config(
            self.workdir / f"scheduler-{self._scheduler_starts}.json",
            self.scheduler_document,
            self.layout.kubeconfig("scheduler"),
        )
        program = self.scheduler_program or self._programs["kube-scheduler"]
        return commands.scheduler(program, self.layout, config, self.scheduler_gates)

    def _run(self, name: str, command: list[str], ready: Callable[[], bool]) -> None:
        """Start one server and wait until it is ready."""
        started = time.monotonic()
        self.processes[name] = Process(name, command, self.layout.log(name))
        self.processes[name].wait_ready(ready, START_TIMEOUT)
        self.started_in[name] = time.monotonic() - started

    def _readiness(self, name: str) -> Callable[[], bool]:
        """How to ask a server whether it is ready."""
        layout = self.layout
        urls = {
            "etcd": f"http://127.0.0.1:{layout.etcd_port}/readyz",
            "kube-apiserver": f"{layout.server_url}/readyz",
            "kube-controller-manager": f"https://127.0.0.1:{layout.manager_port}/healthz",
            "kube-scheduler": f"https://127.0.0.1:{layout.scheduler_port}/readyz",
            "kwok": f"http://127.0.0.1:{layout.kwok_port}/readyz",
        }
        # Some serve with a certificate made in memory, and this is only about being there.
        trusting = ssl._create_unverified_context()

        def ready() -> bool:
            try:
                with urllib.request.urlopen(urls[name], timeout=2, context=trusting) as answer:
                    return bool(answer.status == 200)
            except (OSError, urllib.error.URLError):
                return False

        return ready
