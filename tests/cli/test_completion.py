"""Completion scripts, and what kubectl asks of a plugin."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extender.cli.completion import SHELLS, kubectl_complete
from extender.cli.main import COMMANDS, main, plugin

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


def test_bash_completes_a_command(tmp_path: Path, capsys: Capture) -> None:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    main(["completion", "bash"])
    path = tmp_path / "script"
    path.write_text(
        capsys.readouterr().out
        + "\nCOMP_WORDS=(podgroup-extender dec); COMP_CWORD=1; COMPREPLY=()\n"
        + "$(complete -p podgroup-extender | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
        + ' podgroup-extender dec ""\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    found = subprocess.run(["bash", str(path)], capture_output=True, text=True, timeout=120)
    assert found.stdout.split() == ["decisions"], found.stderr


def test_without_shtab_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "podgroup-extender[shell]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (["w"], ["what-if", "why"], 4),
        (["why", "x", "--ou"], ["--output"], 4),
        (["gangs", "-o", ""], ["table", "json", "yaml"], 4),
        (["what-if", "-f", ""], [], 0),
        (["completion", "z"], ["zsh"], 4),
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
