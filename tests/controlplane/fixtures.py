"""pytest plugin: ``control_plane`` (a session, each version) and ``cluster`` (each test).

Use it with ``pytest_plugins = ["tests.controlplane.fixtures"]`` in ``tests/conftest.py``. Versions
are chosen with ``--kube=1.36,1.37`` or the variable ``PODGROUP_EXTENDER_KUBE``; by default those of
``RELEASES``.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.controlplane.cleaning import Baseline
from tests.controlplane.cluster import Cluster
from tests.controlplane.harness import ControlPlane
from tests.controlplane.releases import OLDER, RELEASES, release
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config

VERSIONS_VARIABLE = "PODGROUP_EXTENDER_KUBE"

_numbers = itertools.count(1)
_baselines: dict[str, Baseline] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--kube``."""
    parser.addoption(
        "--kube",
        metavar="VERSIONS",
        help=f"Kubernetes versions for real control planes, of {','.join(OLDER | RELEASES)}; "
        f"by default {','.join(RELEASES)}",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for whoever runs these tests without the project's settings."""
    config.addinivalue_line("markers", "real: runs against a real Kubernetes control plane")


def selected_versions(config: pytest.Config) -> list[str]:
    """The versions asked for; an unknown one is an error, never a silent skip."""
    chosen = config.getoption("--kube", default=None) or os.environ.get(VERSIONS_VARIABLE)
    if not chosen:
        return list(RELEASES)
    try:
        return [release(each.strip()).minor for each in chosen.split(",")]
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that needs a control plane once a version."""
    if "control_plane" in metafunc.fixturenames:
        versions = selected_versions(metafunc.config)
        metafunc.parametrize("control_plane", versions, indirect=True, scope="session")


@pytest.fixture(scope="session")
def control_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A running control plane of one version; it is built first when the cache has none."""
    version = str(request.param)
    with ControlPlane(version, tmp_path_factory.mktemp(f"kube-{version}-")) as running:
        _baselines[version] = Baseline(running.client())
        yield running


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """An empty cluster for one test, cleaned afterwards whatever has happened."""
    control_plane.ensure_running(scheduler_config())
    baseline = _baselines[control_plane.version]
    namespace = f"test-{next(_numbers)}"
    client = control_plane.client(namespace)
    made = Cluster(control_plane, client, namespace)
    try:
        made.make_namespace()
        yield made
    finally:
        for watch in made.watches:
            watch.stop()
        if control_plane.scheduler_document != scheduler_config():
            # Its extender is about to go; what remains would only fail and retry.
            control_plane.stop_scheduler()
        control_plane.ensure_servers()
        baseline.clean()
        client.close()


@pytest.fixture
def rights(cluster: Cluster) -> Cluster:
    """The manifest's rules, bound to the test bed's user for the extender."""
    grant_manifest(cluster.client)
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the logs of a test that failed and say where they are."""
    report = yield
    running = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and isinstance(running, ControlPlane):
        kept = keep_logs(running, item.config.rootpath / "test-logs", item.name)
        report.sections.append(("control plane", f"logs kept in {kept}"))
    return report


def keep_logs(running: ControlPlane, root: Path, test: str) -> Path:
    """Copy every log and scheduler configuration into a directory named after the test."""
    target = root / re.sub(r"[^\w.-]+", "_", test).strip("_")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for source in (*running.logs.iterdir(), *running.workdir.glob("scheduler-*.json")):
        shutil.copy(source, target)
    return target
