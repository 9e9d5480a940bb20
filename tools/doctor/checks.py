"""Judge what was found: each thing that ./run and .ci/run need, why, and how to get it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tools.doctor.machine import GO, Machine

OLDEST_PYTHON = (3, 11)
OLDEST_GO = (1, 26)
"""The ``go`` line of tests/controlplane/*/go.mod; a test compares them."""
GIB = 1 << 30
CHECKOUT_BYTES = GIB
"""With all sets of requirements .venv took 475 MiB; pip unpacks beside it."""
CACHES_BYTES = 10 * GIB
"""Go's build cache took 6.7 GiB and the two control planes 0.7 GiB."""

OTHERS = (
    (
        ("zsh", "fish"),
        "zsh fish",
        "the tests of completion in these shells: they are left out",
    ),
    (
        ("socat", "nc", "rsync", "ssh"),
        "socat netcat-openbsd rsync openssh-client",
        "./run test-clients: SkyPilot calls them",
    ),
)
"""Programs that .ci/run needs, Debian's packages with them, and what does not work without."""


class Finding(NamedTuple):
    """One thing that is there or is missing."""

    thing: str
    fine: bool
    needed: bool
    """Without it neither ./run sandbox nor ./run test work. Otherwise .ci/run needs it."""
    lost: str = ""
    """What does not work without it."""
    repair: str = ""


def findings(machine: Machine) -> Iterator[Finding]:
    """Return one finding for each thing, those that are needed first."""
    yield _python(machine)
    yield _venv(machine)
    yield _registry(machine)
    yield _disk(machine)
    yield _compiler(machine)
    yield _programs(machine)
    yield _browser(machine)
    for names, packages, lost in OTHERS:
        yield _others(machine, names, packages, lost)
    yield _go(machine)
    yield _caches(machine)


def _python(machine: Machine) -> Finding:
    version = ".".join(map(str, machine.python))
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if machine.python >= OLDEST_PYTHON:
        return Finding(f"Python {version} ({machine.python_path})", fine=True, needed=True)
    return Finding(
        f"Python {oldest} or newer: this is {version} ({machine.python_path})",
        fine=False,
        needed=True,
        lost="nothing of this project runs",
        repair=f"install Python {oldest} or newer, or name one: "
        "PYTHON=/path/to/python ./run doctor",
    )


def _venv(machine: Machine) -> Finding:
    if machine.makes_venvs:
        return Finding("venv and ensurepip, which make .venv", fine=True, needed=True)
    if machine.has_pip:
        return Finding(
            "pip, which makes .venv in place of the missing ensurepip", fine=True, needed=True
        )
    return Finding(
        "ensurepip (or pip): this Python cannot make .venv",
        fine=False,
        needed=True,
        lost="./run cannot install anything",
        repair="on Debian and Ubuntu install the package python3-venv; else set PYTHON to another "
        "Python",
    )


def _registry(machine: Machine) -> Finding:
    fault = machine.registry_fault
    if fault == "":
        return Finding("a package registry that answers pip", fine=True, needed=True)
    if machine.installed:
        why = "not reached now, and not needed: .venv is installed"
        return Finding(f"package registry: {why}", fine=True, needed=True)
    if fault is None:
        return Finding(
            "package registry: not asked, there is no pip to ask with", fine=True, needed=True
        )
    return Finding(
        f"a package registry that answers pip: {fault}",
        fine=False,
        needed=True,
        lost="./run cannot install anything",
        repair="let this machine reach the registry, or tell pip of a proxy or a mirror "
        "(pip config, PIP_INDEX_URL, HTTPS_PROXY)",
    )


def _disk(machine: Machine) -> Finding:
    return _space(
        "in this checkout",
        machine.checkout_free,
        CHECKOUT_BYTES,
        needed=True,
        what="installing into .venv",
    )


def _compiler(machine: Machine) -> Finding:
    if not machine.compiler_fault:
        return Finding("a C++ compiler with Python's headers", fine=True, needed=False)
    return Finding(
        f"a C++ compiler with Python's headers: {machine.compiler_fault}",
        fine=False,
        needed=False,
        lost="the search runs in plain Python (right, but many times slower), and its compiled "
        "part cannot be tested",
        repair="install a C++ compiler and Python's headers (Debian: g++ and python3-dev)",
    )


def _programs(machine: Machine) -> Finding:
    missing = [name for name, there in (("git", machine.git), ("bash", machine.bash)) if not there]
    if not missing:
        return Finding("git and bash", fine=True, needed=False)
    return Finding(
        " and ".join(missing),
        fine=False,
        needed=False,
        lost="git: commits and their hooks; bash: .ci/run",
        repair="install " + " and ".join(missing),
    )


def _browser(machine: Machine) -> Finding:
    if machine.browser:
        return Finding("a Chromium", fine=True, needed=False)
    return Finding(
        "a Chromium (chromium, chromium-browser or google-chrome)",
        fine=False,
        needed=False,
        lost="./run test-browser, which looks at the console's pages",
        repair="install it (Debian: chromium and fonts-dejavu-core), or name one with CHROMIUM",
    )


def _others(machine: Machine, names: tuple[str, ...], packages: str, lost: str) -> Finding:
    missing = [name for name in names if name in machine.lacking]
    if not missing:
        return Finding(_listed(names), fine=True, needed=False)
    return Finding(
        _listed(missing),
        fine=False,
        needed=False,
        lost=lost,
        repair=f"install {_listed(missing)} (Debian: apt-get install {packages})",
    )


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _go(machine: Machine) -> Finding:
    oldest = ".".join(map(str, OLDEST_GO))
    if machine.system != "linux":
        return Finding(
            "Linux, which the real control plane runs on",
            fine=False,
            needed=False,
            lost="./run test-real and ./run nightly",
            repair="use a Linux machine for these two",
        )
    if machine.go is not None and machine.go >= OLDEST_GO:
        thing = f"Go {'.'.join(map(str, machine.go))}"
        if not machine.go_on_path:
            thing += f" in {GO}, where .ci/run looks; ./run test-real wants that on PATH"
        return Finding(thing, fine=True, needed=False)
    found = "" if machine.go is None else f": this is {'.'.join(map(str, machine.go))}"
    return Finding(
        f"Go {oldest} or newer{found}",
        fine=False,
        needed=False,
        lost="./run test-real and ./run nightly, which build etcd and Kubernetes from source",
        repair="install Go from https://go.dev/dl/ and put it on PATH",
    )


def _caches(machine: Machine) -> Finding:
    if machine.control_plane_built:
        return Finding("a control plane that was built before", fine=True, needed=False)
    what = "building the control plane for ./run test-real"
    return _space("for Go's caches", machine.caches_free, CACHES_BYTES, needed=False, what=what)


def _space(where: str, free: int, wanted: int, *, needed: bool, what: str) -> Finding:
    if free >= wanted:
        return Finding(f"{free / GIB:.1f} GiB free {where}", fine=True, needed=needed)
    return Finding(
        f"disk: {free / GIB:.1f} GiB free {where}, about {wanted / GIB:.0f} GiB are needed",
        fine=False,
        needed=needed,
        lost=what,
        repair="make room there",
    )
