"""``run`` on machines of all sorts, and what one checkout leaves to the next."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import installation
from tools.caches import cache_folder

ROOT = Path(__file__).resolve().parents[2]
SHELL_TOOLS = (
    "sh",
    "dirname",
    "cat",
    "cksum",
    "cp",
    "mkdir",
    "mktemp",
    "chmod",
    "rm",
    "sed",
    "sort",
    "tr",
)
AT_ONCE = "-n auto --dist worksteal"
DECLARATIONS = ("pyproject.toml", "setup.py", "requirements/runtime.txt")
FAKE_PYTHON = """\
#!/bin/sh
# Stands in for python: logs its arguments, and makes a .venv that holds a copy of itself.
echo "$*" >> "{log}"
case "$*" in
*"sys.version_info"*) exit {too_old} ;;
*"import ensurepip"*) exit {no_ensurepip} ;;
"-m venv"* | "-m virtualenv"*)
    for target; do :; done
    rm -rf "$target"
    mkdir -p "$target/bin" && cp "$0" "$target/bin/python"
    printf '#!/bin/sh\\necho podgroup-extender "$@"\\n' > "$target/bin/podgroup-extender"
    chmod +x "$target/bin/podgroup-extender"
    ;;
*"pip install"*) echo "pip says: {pip_says}"; exit {pip_fails} ;;
"-V") echo "Python 3.99" ;;
esac
"""


class Checkout:
    """A directory with ``run`` and a fake Python on PATH."""

    def __init__(self, base: Path) -> None:
        self.base = base / "checkout"
        self.home = base / "home"
        self.log = base / "log"
        for each in (self.base, self.home, base / "bin"):
            each.mkdir()
        self.path = f"{base / 'bin'}:/usr/bin:/bin"
        shutil.copy(ROOT / "run", self.base / "run")
        (self.base / "requirements").mkdir()
        for name in DECLARATIONS:
            (self.base / name).write_text(f"# {name}\n")

    def python(
        self,
        *,
        too_old: int = 0,
        no_ensurepip: int = 0,
        pip_fails: int = 0,
        pip_says: str = "fine",
    ) -> None:
        """Put the fake Python on PATH under every name that ``run`` tries."""
        text = FAKE_PYTHON.format(
            log=self.log,
            too_old=too_old,
            no_ensurepip=no_ensurepip,
            pip_fails=pip_fails,
            pip_says=pip_says,
        )
        for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
            program = self.home.parent / "bin" / name
            program.write_text(text)
            program.chmod(0o755)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run ``./run`` with nothing but HOME and PATH in the environment."""
        self.log.write_text("")
        return subprocess.run(
            ["./run", *arguments],
            cwd=self.base,
            env={"HOME": str(self.home), "PATH": self.path, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def bare(self) -> str:
        """A PATH with the shell's tools and, where it was put there, the fake Python."""
        programs = self.home.parent / "bin"
        for name in SHELL_TOOLS:
            found = shutil.which(name)
            assert found is not None
            (programs / name).symlink_to(found)
        return str(programs)

    def asked(self, words: str) -> list[str]:
        """The logged Python calls that contain some words."""
        return [line for line in self.log.read_text().splitlines() if words in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.python()
    return made


def test_nothing_asked_explains_the_commands(checkout: Checkout) -> None:
    done = checkout.run()
    assert done.returncode == 2
    assert "./run COMMAND" in done.stdout
    assert "sandbox" in done.stdout


def test_unknown_command_fails_without_installing(checkout: Checkout) -> None:
    done = checkout.run("sandbax")
    assert done.returncode == 1
    assert "unknown command: sandbax" in done.stderr
    assert checkout.log.read_text() == ""


def test_first_run_installs_and_passes_the_arguments_on(checkout: Checkout) -> None:
    done = checkout.run("sandbox", "--nodes", "a b")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "podgroup-extender sandbox --nodes a b\n"
    pinned, own = checkout.asked("pip install")
    assert pinned.endswith(
        "--require-hashes --only-binary=:all: -r requirements/build.txt -r requirements/runtime.txt"
    )
    assert own.endswith("--no-deps --no-build-isolation --check-build-dependencies -e .")
    assert len(done.stderr.splitlines()) == 2  # making .venv, installing


def test_second_run_installs_nothing(checkout: Checkout) -> None:
    checkout.run("sandbox")
    done = checkout.run("sandbox")
    assert done.returncode == 0
    assert done.stderr == ""
    assert checkout.asked("pip install") == checkout.asked("-m venv") == []


@pytest.mark.parametrize("name", DECLARATIONS)
def test_changed_requirements_are_installed_again(checkout: Checkout, name: str) -> None:
    checkout.run("sandbox")
    with (checkout.base / name).open("a") as file:
        file.write("# changed\n")
    assert checkout.run("sandbox").returncode == 0
    assert len(checkout.asked("pip install")) == 2
    assert checkout.asked("-m venv") == []


def test_changed_source_of_a_compiled_module_is_compiled_again(checkout: Checkout) -> None:
    source = checkout.base / "extender" / "kernel.pyx"
    source.parent.mkdir()
    source.write_text("1")
    checkout.run("sandbox")
    assert checkout.run("sandbox").stderr == ""
    source.write_text("2")
    checkout.run("sandbox")
    assert len(checkout.asked("-e .")) == 1


def test_extras_are_installed_when_they_are_needed(checkout: Checkout) -> None:
    checkout.run("sandbox")
    done = checkout.run("test", "-k", "x")
    assert done.returncode == 0, done.stderr
    # What is compiled already is not compiled again.
    (pip,) = checkout.asked("pip install")
    assert pip.endswith("-r requirements/runtime.txt -r requirements/test.txt")
    assert checkout.asked("-m pytest") == [f"-m pytest {AT_ONCE} -m not real and not browser -k x"]
    checkout.run("sandbox")
    assert checkout.asked("pip install") == []


@pytest.mark.parametrize(
    ("command", "sets", "asked"),
    [
        ("sbom", "build runtime", "tools/sbom.py --output x"),
        ("audit", "build runtime test lint audit", "-m tools.audit --output x"),
        ("lock", "build runtime uv", "-m tools.lock --output x"),
        ("docs", "build runtime test docs", "-m tools.docs --output x"),
    ],
)
def test_what_is_installed_can_be_told_audited_and_locked(
    checkout: Checkout, command: str, sets: str, asked: str
) -> None:
    done = checkout.run(command, "--output", "x")
    assert done.returncode == 0, done.stderr
    pinned, _ = checkout.asked("pip install")
    assert pinned.endswith("".join(f" -r requirements/{each}.txt" for each in sets.split()))
    assert checkout.asked("--output x") == [asked]


def test_coverage_is_recorded_on_request(checkout: Checkout) -> None:
    checkout.run("test", COVERAGE="1")
    assert checkout.asked("-m pytest") == [
        f"-m coverage run -m pytest {AT_ONCE} -m not real and not browser"
    ]


def test_failed_installation_shows_all_and_is_tried_again(checkout: Checkout) -> None:
    checkout.python(pip_fails=7, pip_says="no such version")
    done = checkout.run("sandbox")
    assert done.returncode == 7
    assert "pip says: no such version" in done.stderr
    assert "pip install failed (exit status 7)" in done.stderr
    assert done.stdout == ""
    shutil.rmtree(checkout.base / ".venv")
    checkout.python()
    assert checkout.run("sandbox").returncode == 0


def test_old_python_is_refused_by_name(checkout: Checkout) -> None:
    checkout.python(too_old=1)
    done = checkout.run("sandbox")
    assert done.returncode == 1
    assert "no Python 3.11 or newer found" in done.stderr
    assert not (checkout.base / ".venv").exists()


@pytest.mark.parametrize("too_old", [0, 1])
def test_what_is_missing_is_told_without_installing(checkout: Checkout, too_old: int) -> None:
    checkout.python(too_old=too_old, pip_fails=1)
    done = checkout.run("doctor", "--ci")
    assert done.returncode == 0, done.stderr
    assert checkout.asked("-m tools") == ["-m tools.doctor --ci"]
    assert checkout.asked("pip install") == checkout.asked("-m venv") == []


def test_the_python_that_is_named_is_the_one_that_is_judged(checkout: Checkout) -> None:
    old = checkout.home / "old"
    old.write_text(
        f'#!/bin/sh\necho "old $*" >> {checkout.log}\ncase "$*" in *version*) exit 1;; esac\n'
    )
    old.chmod(0o755)
    assert checkout.run("doctor", PYTHON=str(old)).returncode == 0
    assert checkout.asked("-m tools") == ["old -m tools.doctor"]


def test_without_any_python_that_is_what_is_told(checkout: Checkout) -> None:
    for program in (checkout.home.parent / "bin").iterdir():
        program.unlink()
    done = checkout.run("doctor", PYTHON="/nonexistent/python", PATH=checkout.bare())
    assert done.returncode == 1
    assert "no Python" in done.stderr


def test_python_may_be_named(checkout: Checkout) -> None:
    done = checkout.run("sandbox", PYTHON="/nonexistent/python")
    assert done.returncode == 1
    assert "tried /nonexistent/python" in done.stderr


def test_python_without_ensurepip_gets_virtualenv(checkout: Checkout) -> None:
    checkout.python(no_ensurepip=1)
    done = checkout.run("sandbox")
    assert done.returncode == 0, done.stderr
    assert "no ensurepip" in done.stderr
    pip, *_ = checkout.asked("-m pip install")
    assert "--require-hashes --only-binary=:all: -r requirements/virtualenv.txt --target" in pip
    assert checkout.asked("-m venv") == []
    assert not Path(pip.split()[-1]).exists()


def test_broken_venv_is_made_anew(checkout: Checkout) -> None:
    checkout.run("sandbox")
    python = checkout.base / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python")
    done = checkout.run("sandbox")
    assert done.returncode == 0, done.stderr
    assert "it is made again" in done.stderr


def for_night(checkout: Checkout, user: int) -> None:
    """What a night needs: Go, a package manager, a user, and the image's own script."""
    programs = checkout.home.parent / "bin"
    image = checkout.base / "tools" / "image" / "build"
    wheel = checkout.base / "tools" / "install-wheel"
    image.parent.mkdir(parents=True)
    texts = {
        programs / "go": "",
        programs / "apt-get": "",
        programs / "id": f"echo {user}\n",
        image: "echo the image, built and started\n",
        wheel: "",
    }
    for path, text in texts.items():
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)


def test_the_night_is_an_hour_on_every_version_with_a_seed_of_its_own(checkout: Checkout) -> None:
    for_night(checkout, user=0)
    done = checkout.run("nightly", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "the image, built and started" in done.stdout
    fairness, *seeds, build, programs, skypilot, chaos = checkout.asked("-m tests.")
    assert re.match(r"-m tests\.simulation --seeds 200000 --first 2\d{7}000000 ", seeds[0])
    assert re.fullmatch(r"-m tests\.fairness --streams 1000 --first 2\d{7}000", fairness)
    assert programs == "-m tests.install.programs kubectl jobset kueue"
    assert skypilot == "-m tests.clients.installation"
    assert build == "-m tests.controlplane.build 1.34 1.35 1.36 1.37"
    assert chaos.startswith("-m tests.chaos --minor 1.36,1.37 --seconds 3600 --seed 2")
    assert chaos.endswith(" --seed 7")


def test_an_ordinary_users_night_is_without_the_image_and_says_so(checkout: Checkout) -> None:
    for_night(checkout, user=1000)
    done = checkout.run("nightly")
    assert done.returncode == 0, done.stderr
    assert "the image is not built: that needs root" in done.stderr
    assert "built and started" not in done.stdout


@pytest.mark.parametrize(
    ("words", "built"),
    [
        ((), ""),
        (("-k", "jobset"), ""),
        (("--kube=1.34",), " 1.34"),
        (("-x", "--kube", "1.34,1.35"), " 1.34 1.35"),
    ],
)
def test_only_the_versions_asked_for_are_built(
    words: tuple[str, ...], built: str, checkout: Checkout
) -> None:
    go = checkout.home.parent / "bin" / "go"
    go.write_text("#!/bin/sh\n")
    go.chmod(0o755)
    done = checkout.run("test-real", *words)
    assert done.returncode == 0, done.stderr
    assert checkout.asked("-m tests.") == [f"-m tests.controlplane.build{built}"]
    assert checkout.asked(f"-m real and not install and not clients {' '.join(words)}".strip())


@pytest.mark.parametrize("command", ["test-real", "test-install", "test-clients", "nightly"])
def test_real_control_plane_needs_go(command: str, checkout: Checkout) -> None:
    checkout.path = checkout.bare()
    done = checkout.run(command)
    assert done.returncode == 1
    assert "install Go" in done.stderr
    assert checkout.asked("-m pytest") == []


def test_the_folder_is_where_the_specification_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("core") == tmp_path / "podgroup-extender/core"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("core") == tmp_path / ".cache/podgroup-extender/core"


def test_checkouts_with_one_python_share_skypilot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PODGROUP_EXTENDER_CONTROLPLANE_CACHE", str(tmp_path / "controlplane"))
    made = []

    def install(folder: Path) -> None:
        folder.mkdir()
        made.append(folder)

    monkeypatch.setattr(installation, "_install", install)
    for name in ("one", "other"):
        venv = tmp_path / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        monkeypatch.setattr(sys, "executable", str(venv / "bin/python"))
        installation.ensure()
    assert len(made) == 1
