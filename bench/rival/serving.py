"""The extender as a process, started for one attempt and stopped after it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from extender.sandbox.ports import Ports
from extender.sandbox.process import READY_SECONDS
from extender.settings.settings import (
    ApiSettings,
    BindSettings,
    GrpcSettings,
    PlanSettings,
    SeatSettings,
    ServerSettings,
    Settings,
)


class Served(Struct, frozen=True):
    """A running extender."""

    url: str
    pid: int
    grpc: str
    """Where it answers gRPC."""


@contextlib.contextmanager
def serving(
    folder: Path,
    kubeconfig: Path,
    record_namespace: str,
    order: str = "gangs-by-priority",
    *,
    binds: bool = False,
    listens: bool = False,
    slack: float = SeatSettings().victim_slack_seconds,
) -> Iterator[Served]:
    """Run ``serve`` and tell where once it is ready, which includes that its cache is full.

    ``binds``: the bind verb is served, and bindings are not limited in number a second.
    ``listens``: gRPC is served too. ``slack``: seconds that victims may take beyond their grace.
    Its log is ``extender.log`` in ``folder``. Raises RuntimeError with the end of the
    log when it does not become ready.
    """
    ports = Ports()
    port, grpc = ports.reserve(), f"127.0.0.1:{ports.reserve()}"
    settings = Settings(
        server=ServerSettings(port=port, log_level="info"),
        plan=PlanSettings(cost_order=order),
        seats=SeatSettings(record_namespace=record_namespace, victim_slack_seconds=slack),
        bind=BindSettings(enabled=binds),
        grpc=GrpcSettings(listen=grpc if listens else ""),
        api=ApiSettings(requests_per_second=0) if binds else ApiSettings(),
    )
    config, log = folder / "extender.yaml", folder / "extender.log"
    config.write_text(json.dumps(msgspec.to_builtins(settings)))
    command = [sys.executable, "-m", "extender.app.main", "serve"]
    command += ["--config", str(config), "--kubeconfig", str(kubeconfig)]
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_ready(url, process, log)
        yield Served(url, process.pid, grpc)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        ports.close()


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with (
            contextlib.suppress(OSError, urllib.error.URLError),
            urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"the extender did not become ready; its log ends with\n{tail}")
