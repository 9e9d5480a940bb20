"""Build the control plane's programs once and keep them in a cache.

``python -m tests.controlplane.build [1.36 1.37]`` compiles etcd, kube-apiserver, kube-scheduler,
kube-controller-manager and kwok from their Go modules. No container image and no released binary
is downloaded. A build is kept under a key made of the module files and the build flags, so a
finished build is found again at once and a changed pin never meets an old binary.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.releases import KWOK_MODULE, OLDER, RELEASES, release
from tools.caches import cache_folder

CACHE_VARIABLE = "PODGROUP_EXTENDER_CONTROLPLANE_CACHE"

PLUGIN = Path(__file__).resolve().parents[2] / "plugin"

KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

Log = Callable[[str], None]


class BuildError(RuntimeError):
    """The programs cannot be built; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module and the programs that come out of it."""

    name: str
    path: Path
    packages: tuple[tuple[str, str], ...]
    """Pairs of program name and Go package."""
    ldflags: str
    tags: str = ""
    """Build tags, separated by commas."""
    sources: tuple[Path, ...] = ()
    """Folders with code of our own that is compiled in."""

    def key(self) -> str:
        """Name of the cache directory: the same pins and flags give the same name."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum", *(("tools.go",) if not self.sources else ())):
            digest.update((self.path / name).read_bytes())
        for file in sorted(each for folder in self.sources for each in folder.rglob("*.go")):
            if not file.name.endswith("_test.go"):
                digest.update(file.read_bytes())
        flags = (self.packages, self.ldflags, os.uname().machine)
        digest.update(repr((*flags, self.tags) if self.tags else flags).encode())
        return f"{self.name}-{digest.hexdigest()[:12]}"

    def required_go(self) -> str:
        """The ``go`` directive of the module."""
        found = re.search(r"^go (\S+)$", (self.path / "go.mod").read_text(), re.MULTILINE)
        return found.group(1) if found else "1.0"


def default_cache() -> Path:
    """Where builds are kept unless the caller says otherwise."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return cache_folder("controlplane")


def kubernetes_module(minor: str) -> Module:
    """The module of one Kubernetes minor: its three programs and the etcd it asks for."""
    chosen = release(minor)
    stamps = {
        "gitVersion": chosen.version,
        "gitMajor": minor.split(".")[0],
        "gitMinor": minor.split(".")[1],
        "gitTreeState": "clean",
    }
    # Without the stamp the programs report v0.0.0 and refuse to emulate their own version.
    ldflags = " ".join(
        ["-s", "-w"]
        + [f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items()]
        + [f"-X k8s.io/client-go/pkg/version.{key}={value}" for key, value in stamps.items()]
    )
    packages = [("etcd", "go.etcd.io/etcd/server/v3")]
    packages += [(program, f"k8s.io/kubernetes/cmd/{program}") for program in KUBERNETES_PROGRAMS]
    return Module(minor, chosen.module, tuple(packages), ldflags)


def plugin_module(minor: str) -> Module:
    """kube-scheduler with the plugin of this repository, and the verifier (docs/plugin.md)."""
    stock = kubernetes_module(minor)
    path = PLUGIN / f"v{minor.replace('.', '_')}"
    package = f"podgroup-extender.io/plugin/{path.name}"
    return Module(
        f"plugin-{minor}",
        path,
        (("kube-scheduler", package), ("verifier", f"{package}/verifier")),
        stock.ldflags,
        sources=(path, PLUGIN / "core"),
    )


def ensure_plugin(minor: str, cache: Path | None = None, log: Log | None = None) -> Path:
    """Return kube-scheduler with the plugin, building it when it is missing. Beside it stands
    ``verifier``, which asks the filters of that kube-scheduler (docs/verifier.md)."""
    module = plugin_module(minor)
    return ensure_module(module, cache or default_cache(), log or _silent) / "kube-scheduler"


def kwok_module() -> Module:
    """The module of kwok, shared by all Kubernetes minors."""
    return Module("kwok", KWOK_MODULE, (("kwok", "sigs.k8s.io/kwok/cmd/kwok"),), "-s -w")


def ensure(minor: str, cache: Path | None = None, log: Log | None = None) -> dict[str, Path]:
    """Return the path of every program of one minor, building what is missing."""
    root = cache or default_cache()
    report = log or _silent
    programs: dict[str, Path] = {}
    for module in (kubernetes_module(minor), kwok_module()):
        directory = ensure_module(module, root, report)
        programs.update({name: directory / name for name, _ in module.packages})
    return programs


def _silent(_: str) -> None:
    """Report nothing."""


def ensure_module(module: Module, root: Path, log: Log) -> Path:
    """Return the directory with the module's programs, building it when it is not there."""
    target = root / module.key()
    if target.is_dir():  # Put there by one rename, hence complete.
        log(f"{module.name}: already built in {target}")
        return target
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{module.key()}.lock", log):
        if target.is_dir():
            return target
        for left_over in root.glob(f".{module.key()}.*"):
            shutil.rmtree(left_over, ignore_errors=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{module.key()}.", dir=root))
        try:
            started = time.monotonic()
            _compile(module, staging, log)
            staging.chmod(0o755)
            staging.rename(target)
            log(f"{module.name}: built in {time.monotonic() - started:.0f} s into {target}")
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return target


def sources_of(module: Module, requirement: str) -> Path:
    """Return the folder with the sources of a module that this one requires (``example.com/name``).

    They are compared with go.sum, and downloaded when Go's own cache has none.
    """
    environment = {**os.environ, "GOWORK": "off"}
    go = _find_go(module.required_go(), environment)
    done = subprocess.run(
        [go, "mod", "download", "-json", requirement],
        cwd=module.path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"go mod download {requirement}: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"])


def _compile(module: Module, out: Path, log: Log) -> None:
    """Compile all programs of a module with one ``go build``, so that it can run in parallel."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    go = _find_go(module.required_go(), environment)
    log(f"{module.name}: building (a cold build takes minutes)")
    # `go build -o DIR/` names a program after its package, which for etcd would be "server".
    command = [go, "build", "-trimpath", "-ldflags", module.ldflags, "-o", f"{out}{os.sep}"]
    command += ["-tags", module.tags] if module.tags else []
    command += [package for _, package in module.packages]
    done = subprocess.run(
        command, cwd=module.path, env=environment, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"go build of {module.name} failed with status {done.returncode}")
    for name, package in module.packages:
        made = out / _default_program_name(package)
        if made.name != name:
            made.rename(out / name)


def _default_program_name(package: str) -> str:
    """How ``go build`` names the program of a package: a trailing version is left out."""
    parts = package.split("/")
    return parts[-2] if re.fullmatch(r"v\d+", parts[-1]) else parts[-1]


def _find_go(required: str, environment: dict[str, str]) -> str:
    """Find a Go tool chain that can build a module, or say what is missing."""
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        raise BuildError(
            f"the Go tool chain is missing: building the control plane needs go >= {required} "
            "on PATH"
        )
    asked = subprocess.run(
        [go, "env", "GOVERSION", "GOTOOLCHAIN"],
        cwd=tempfile.gettempdir(),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [*asked.stdout.splitlines(), "", ""]
    have, toolchain = lines[0].removeprefix("go"), lines[1]
    if asked.returncode != 0 or not have:
        raise BuildError(f"{go} does not answer `go env`: {asked.stderr.strip()}")
    # From 1.21 on, unless told "local", an older Go fetches the tool chain a module asks for.
    fetches = _numbers(have) >= (1, 21) and toolchain not in ("", "local", "path")
    if _numbers(have) < _numbers(required) and not fetches:
        raise BuildError(
            f"the Go tool chain is too old: {go} is {have}, building the control plane needs "
            f">= {required}"
        )
    return go


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a Go version: ``1.26rc1`` gives (1, 26)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group(0).split(".")) if found else (0,)


@contextlib.contextmanager
def _locked(path: Path, log: Log) -> Iterator[None]:
    """Hold a file lock: two builders at once would compile the same thing twice."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"waiting for another build ({path})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """Command line: build the named minors, by default RELEASES, and print where they are."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane.build", description="Build the test control planes."
    )
    parser.add_argument(
        "minors",
        nargs="*",
        metavar="MINOR",
        help=f"of {', '.join(OLDER | RELEASES)}; by default {', '.join(RELEASES)}",
    )
    parser.add_argument("--cache", type=Path, help=f"cache directory (or {CACHE_VARIABLE})")
    options = parser.parse_args(arguments)
    try:
        for minor in options.minors or list(RELEASES):
            programs = ensure(minor, options.cache, lambda line: print(line, flush=True))
            for name, path in programs.items():
                print(f"  {name:<24} {path.stat().st_size / 1e6:6.1f} MB  {path}")
    except (BuildError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing half built is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
