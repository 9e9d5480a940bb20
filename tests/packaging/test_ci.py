""".ci/run with commands that only say that they were called: all is asked, no failure is lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

RUN = """\
#!/bin/sh
echo "$*" >> called
if [ -e hangs ]; then
    case "$*" in *tests.simulation*) sleep 300 & echo $! > hanging; wait ;; esac
fi
case "$*" in $FAILS) while [ -e hangs ] && [ ! -s hanging ]; do sleep 0.05; done ;; esac
case "$*" in $FAILS) echo "this one fails"; exit 3 ;; esac
echo "ran: $*"
"""
PYTHON = """\
#!/bin/sh
echo "python $*" >> called
case "python $*" in $FAILS) exit 3 ;; esac
if [ -e slow ]; then sleep 300 & echo $! > hanging; wait; fi
"""
WHEEL = """\
#!/bin/sh
mkdir -p "$1/bin"
printf '#!/bin/sh\\necho "$*" >> "%s/called"\\n' "$PWD" > "$1/bin/podgroup-extender"
chmod +x "$1/bin/podgroup-extender"
"""


class Ci:
    """A directory with .ci/run and stand-ins for what it calls."""

    def __init__(self, base: Path) -> None:
        self.base = base
        for path, text in {
            "run": RUN,
            ".venv/bin/python": PYTHON,
            "tools/install-wheel": WHEEL,
        }.items():
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(text)
            (base / path).chmod(0o755)
        shutil.copytree(ROOT / ".ci", base / ".ci")
        self.called = base / "called"

    def run(
        self, *sections: str, fails: str = "nothing", path: str = ""
    ) -> subprocess.CompletedProcess[str]:
        self.called.write_text("")
        # Programs that the sections would otherwise install.
        programs = self.base / "programs"
        programs.mkdir(exist_ok=True)
        for name in ("chromium", "zsh", "fish", "socat", "nc", "rsync", "ssh", "go"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        return subprocess.run(
            ["bash", ".ci/run", *sections],
            cwd=self.base,
            env={"PATH": path or f"{programs}:{os.environ['PATH']}", "FAILS": fails},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


SECTIONS = sorted(
    set(re.findall(r"^section_(\w+)\(", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    - {"everything"}
)


def test_the_workflow_calls_every_section() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
    section = workflow["jobs"]["section"]
    assert section["strategy"]["matrix"]["section"] == SECTIONS
    assert section["steps"][-1]["run"] == ".ci/run ${{ matrix.section }}"
    # A tag of somebody else's action can be moved.
    for step in section["steps"]:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", "a@" + "0" * 40))


def calls_of(ci: Ci, *sections: str) -> set[str]:
    done = ci.run(*sections)
    assert done.returncode == 0, done.stdout + done.stderr
    found = ci.called.read_text().splitlines()
    return {re.sub(r"/\S*/(?=sbom)", "", each) for each in found}


def test_all_of_it_is_every_section_and_what_they_printed_is_shown(ci: Ci) -> None:
    everything = calls_of(ci)
    one_by_one = calls_of(ci, *SECTIONS)
    seeds = re.compile(r" --jobs \d$")
    assert {seeds.sub("", each) for each in one_by_one} <= {
        seeds.sub("", each) for each in everything
    }
    shown = ci.run().stdout
    for call in ("test-real tests/chaos", "lint", "test-browser", "plugin", "test-checked"):
        assert f"ran: {call}" in shown
    assert re.search(r"^all passed in \d+ s$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    "fails",
    [
        "setup",
        "test --durations=*",
        "test-real --version",
        "python -m tests.install.programs",
        "lint",
        "docs",
        "audit",
        "python -m bench.serving.load *",
        "python -m tests.fuzz.wire *",
        "python -m tests.fairness *",
        "test-checked",
        "python -m tests.simulation *",
        "test-real tests/chaos",
        "test-install *",
        "test-clients *",
        "test-browser",
        "test-real --ignore=tests/chaos *",
        "test-real --kube=1.34 *",
        "python -m tests.controlplane.build 1.34",
    ],
)
def test_whatever_fails_fails_all_of_it(ci: Ci, fails: str) -> None:
    done = ci.run(fails=fails)
    assert done.returncode not in (0, 2), done.stdout
    assert "all passed" not in done.stdout


def test_all_of_it_has_streams_of_arrivals(ci: Ci) -> None:
    """Beyond those of the tests, which have the first thirty."""
    (call,) = [each for each in calls_of(ci) if "tests.fairness" in each]
    assert call == "python -m tests.fairness --streams 120 --first 30"


def test_a_lane_that_fails_keeps_no_other_from_being_told(ci: Ci) -> None:
    done = ci.run(fails="test-real tests/chaos")
    assert "this one fails" in done.stdout
    assert "=== chaos: FAILED (3) ===" in done.stdout
    assert "ran: test-checked" in done.stdout


def test_no_advisories_to_be_had_are_no_failure(ci: Ci) -> None:
    (ci.base / "run").write_text(RUN.replace("exit 3", "exit 75"))
    assert ci.run(fails="audit").returncode == 0


def test_the_oldest_is_not_waited_for_and_that_is_said(ci: Ci) -> None:
    """On a new machine its control plane is not built yet when all the rest has been played."""
    (ci.base / "slow").touch()
    done = ci.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT PLAYED: Kubernetes 1.34" in done.stdout
    assert "test-real --kube=1.34 " not in ci.called.read_text()

    assert_gone(ci)


def test_nothing_outlives_a_failure(ci: Ci) -> None:
    (ci.base / "hangs").touch()
    done = ci.run(fails="test-real --version")
    assert done.returncode == 3
    assert_gone(ci)


def assert_gone(ci: Ci) -> None:
    process = int((ci.base / "hanging").read_text())
    for _ in range(100):
        state = Path(f"/proc/{process}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("a process is still there")


BARE = ("bash", "sh", "cat", "dirname", "git", "mktemp", "nproc", "rm", "sed", "sort", "tee", "tr")


def bare(ci: Ci, user: int, *more: str) -> str:
    """A PATH of little else than what .ci/run itself calls, for this user."""
    folder = ci.base / "bare"
    folder.mkdir()
    for name in BARE:
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    stand_ins = {"id": f"echo {user}", **dict.fromkeys(more, 'echo "$0 $*" >>called')}
    for name, text in stand_ins.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_who_may_not_install_is_told_what_is_missing(ci: Ci) -> None:
    done = ci.run("tests", "browser", "clients", path=bare(ci, 1000, "apt-get", "nc"))
    assert done.returncode == 0, done.stdout + done.stderr
    why = "only root may install it"
    said = [
        f"MISSING: zsh fish: {why} (Debian: zsh fish)",
        f"MISSING: chromium: {why} (Debian: chromium fonts-dejavu-core)",
        f"MISSING: socat rsync ssh: {why} (Debian: socat netcat-openbsd rsync openssh-client)",
    ]
    body, _, end = done.stdout.partition("not everything was tested:\n")
    assert [line for line in body.splitlines() if "MISSING" in line] == said
    assert end.splitlines()[:3] == sorted(said)
    assert "apt-get" not in ci.called.read_text()


def test_without_apt_that_is_the_reason(ci: Ci) -> None:
    done = ci.run("browser", path=bare(ci, 0))
    assert "MISSING: chromium: there is no apt-get here" in done.stdout


def test_root_gets_what_is_missing_and_no_more(ci: Ci) -> None:
    done = ci.run("tests", "clients", path=bare(ci, 0, "apt-get", "zsh", "fish", "nc"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MISSING" not in done.stdout
    assert "not everything" not in done.stdout
    installed = re.findall(r"apt-get install .*", ci.called.read_text())
    assert len(installed) == 1
    assert installed[0].endswith("socat netcat-openbsd rsync openssh-client")


def test_an_unknown_section_is_refused_before_anything_runs(ci: Ci) -> None:
    done = ci.run("lint", "linnt")
    assert done.returncode == 2
    assert "no section linnt" in done.stderr
    assert ci.called.read_text() == ""
