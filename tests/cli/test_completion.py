"""Completion scripts, and what kubectl asks of a plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from extender.app.completion import kubectl_complete
from extender.app.completion_command import SHELLS
from extender.app.main import COMMANDS, main, plugin

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_every_command_and_is_valid(
    shell: str, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*COMMANDS, "--extender-namespace" if shell != "fish" else "extender-namespace"):
        assert word in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        subprocess.run([shell, "-n", str(path)], check=True, timeout=120)


BASH = """
COMP_WORDS=(podgroup-extender %s); COMP_CWORD=%d; COMPREPLY=()
$(complete -p podgroup-extender | sed 's/.*-F \\([^ ]*\\).*/\\1/') podgroup-extender
printf "%%s\\n" "${COMPREPLY[@]}"
"""

LINES = [
    ("dec", ["decisions"]),
    ("sandbox tou", ["tour"]),
    ("sandbox my", ["my-own.yaml"]),
]
"""The end of a command line, and what it becomes."""


@pytest.mark.parametrize(("line", "found"), LINES)
def test_bash_completes(line: str, found: list[str], tmp_path: Path, capsys: Capture) -> None:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    main(["completion", "bash"])
    path = tmp_path / "script"
    path.write_text(capsys.readouterr().out + BASH % (line, len(line.split())))
    (tmp_path / "my-own.yaml").touch()
    told = subprocess.run(
        ["bash", str(path)], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert told.stdout.split() == found, told.stderr


FISH = """
source %s
complete -C "podgroup-extender dec"
complete -C "podgroup-extender gangs -o w"
complete -C "podgroup-extender sandbox tou"
complete -C "podgroup-extender sandbox my"
"""

ZSH = r"""
zmodload zsh/zpty
zpty shell "env TERM=vt100 zsh -f -i"
zpty -w shell 'fpath=(%s $fpath); autoload -U compinit; compinit -u -D; print re""ady'
zpty -r -m shell said '*ready*'
zpty -w -n shell $'podgroup-extender dec\t'
zpty -r -m shell said '*decisions*' && print decisions
zpty -w -n shell $'\x15podgroup-extender sandbox tou\t'
zpty -r -m shell said '*sandbox tour*' && print tour
zpty -w -n shell $'\x15podgroup-extender sandbox my\t'
zpty -r -m shell said '*my-own.yaml*' && print my-own.yaml
zpty -d shell
"""


@pytest.mark.parametrize(
    ("shell", "play", "found"),
    [
        ("fish", FISH, ["decisions", "wide", "tour", "my-own.yaml"]),
        ("zsh", ZSH, ["decisions", "tour", "my-own.yaml"]),
    ],
)
def test_the_real_shell_completes(
    shell: str, play: str, found: list[str], tmp_path: Path, capsys: Capture
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    main(["completion", shell])
    # In zsh as docs/cli.md says: a file of this name in a directory of fpath.
    script, driver = tmp_path / "_podgroup-extender", tmp_path / "driver"
    script.write_text(capsys.readouterr().out)
    driver.write_text(play % (tmp_path if shell == "zsh" else script))
    (tmp_path / "my-own.yaml").touch()
    command = ["fish", "--no-config"] if shell == "fish" else ["zsh", "-f"]
    done = subprocess.run(
        [*command, str(driver)],
        capture_output=True,
        text=True,
        timeout=120,
        env=bare(tmp_path),
        cwd=tmp_path,
    )
    assert [line.split("\t")[0] for line in done.stdout.split("\n") if line] == found, done


def bare(home: Path) -> dict[str, str]:
    """Return an environment without the configuration of whoever runs the tests."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def test_a_plain_install_completes() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert any(each.startswith("shtab") for each in project["dependencies"])


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (["w"], ["what-if", "why"], 4),
        (["why", "x", "--ou"], ["--output"], 4),
        (["gangs", "-o", ""], ["table", "wide", "json", "yaml"], 4),
        (["what-if", "-f", ""], [], 0),
        (["completion", "z"], ["zsh"], 4),
        (["sandbox", "tou"], ["tour"], 0),
        (["sandbox", "my"], [], 0),
        (["why", "hi"], [], 0),
        (["gangs", "--waiting", "--names"], ["--namespace"], 4),
        ([], sorted(COMMANDS), 4),
    ],
)
def test_kubectl_is_answered_as_cobra_would(
    words: list[str], found: list[str], directive: int, capsys: Capture
) -> None:
    assert kubectl_complete(words or [""]) == 0
    assert capsys.readouterr().out.splitlines() == [*found, f":{directive}"]


def test_the_plugin_is_the_same_program(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        plugin(["gangs", "--help"])
    assert ended.value.code == 0
    assert "usage: kubectl gang gangs" in capsys.readouterr().out
