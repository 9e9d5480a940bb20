"""What is typed: mistakes told in a line, completion, and the exit statuses of docs/cli.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from extender import __version__
from extender.app.completion import kubectl_complete
from extender.app.completion_command import SHELLS
from extender.app.main import COMMANDS, main, parser_of, plugin
from extender.check import documents
from extender.cli import dump_files
from extender.cli import exit_statuses as statuses
from extender.model.errors import InvalidInput
from extender.sandbox import scenario_file
from extender.settings.mode import ObserveSettings
from tests.cli.live_bed import Live, free_port, serving
from tests.cli.test_live import GANG

Capture = pytest.CaptureFixture[str]


def _said(capsys: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["gangs", "--server", "x"],
        ["serve", "--conf", "x"],
        ["plan", "x", "--gan", "x"],
        ["check", "--conf", "x"],
    ],
)
def test_a_beginning_of_an_option_is_none(words: list[str], capsys: Capture) -> None:
    assert "unrecognized arguments" in _said(capsys, *words)


@pytest.mark.parametrize("words", [["gangs", "-o", "xml"], ["nothing"], ["serve", "--port", "x"]])
def test_a_mistake_is_one_line(words: list[str], capsys: Capture) -> None:
    (line,) = _said(capsys, *words).splitlines()
    assert line.startswith("error: argument ")
    assert "--help)" in line


def test_every_command_has_this_parser(capsys: Capture) -> None:
    for command in COMMANDS:
        (line,) = _said(capsys, command, "--no-such-option").splitlines()
        assert line.startswith("error: ")


def test_the_version_has_a_name(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"podgroup-extender {__version__}\n"


def test_who_is_not_reached_is_told_in_words(capsys: Capture) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["gangs", "--url", url]) == 3
    assert capsys.readouterr().err == f"error: {url}: connection refused\n"


@pytest.mark.parametrize("text", [b"a: [1\n", b"a: b: c\n", b"kind: List\n\titems: []\n"])
def test_yaml_that_is_none_has_a_place_and_no_word_of_the_reader(
    text: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "dump.yaml"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=r"not valid YAML at line \d+, column \d+: ") as refused:
        dump_files.read([path])
    assert "unicode string" not in str(refused.value)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: documents.read(path),
        lambda path: dump_files.read([path]),
        lambda path: scenario_file.load(path),
    ],
    ids=["settings", "dump", "scenario"],
)
@pytest.mark.parametrize("text", [b"a: [1\n", b"a: \x01\n", b"a: !!bool x\n"])
def test_no_word_of_the_reader_of_yaml_is_told(
    read: Callable[[Path], object], text: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "some.yaml"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=r"not (valid )?YAML") as refused:
        read(path)
    assert str(path) in str(refused.value)
    assert "unicode string" not in str(refused.value)
    assert "\n" not in str(refused.value)


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


ROOT = Path(__file__).parents[2]
LIVE = ("why", "gangs", "seats", "decisions", "what-if", "report")
NAMED = {"why": ["high"], "what-if": ["--gang", "high"]}
"""What a command cannot be asked without."""
OK, NO, BAD, AWAY = statuses.OK, statuses.NO, statuses.BAD_INPUT, statuses.UNREACHED


@pytest.fixture
async def live(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Live]:
    async with serving(tmp_path, capsys) as made:
        yield made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--week", "soon"], "--week 'soon' is none of this, last, YYYY-MM-DD"),
        (["report", "--week", "2026-13-01"], "is none of this, last, YYYY-MM-DD"),
        (["what-if"], "give a manifest with -f, or the name of a gang"),
        (["what-if", "a", "--gang", "b"], "two gangs are named: 'a', and 'b' by --gang"),
        (["what-if", "-f", "/nowhere"], "/nowhere: cannot be read: No such file or directory"),
        (["what-if", "-f", __file__], "not valid YAML"),
    ],
)
def test_what_is_wrong_here_is_told_before_a_server_is_asked(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--url", "http://127.0.0.1:1"]) == BAD
    assert said in capsys.readouterr().err


def test_without_a_kubeconfig_the_other_way_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "PODGROUP_EXTENDER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["gangs"]) == BAD
    error = capsys.readouterr().err
    assert "no such file" in error
    assert "--url http://HOST:PORT" in error


async def test_what_a_server_answers(live: Live, tmp_path: Path) -> None:
    none = tmp_path / "none.yaml"
    none.write_text(GANG % ("low", "low", "3"))
    cases: list[tuple[int, list[str]]] = [
        (OK, ["why", "high"]),
        (OK, ["why", "team/low-0"]),
        (NO, ["why", "nobody"]),
        *((OK, [command]) for command in ("gangs", "seats", "decisions")),
        # Nothing is wrong with a gang that has nothing to list.
        *((OK, [command, name]) for command in ("gangs", "seats", "decisions") for name in GANGS),
        (OK, ["gangs", "low", "--waiting"]),
        (OK, ["gangs", "low", "-n", "elsewhere"]),
        (OK, ["decisions", "low", "--outcome", "refusal"]),
        *((NO, [command, "nobody"]) for command in ("gangs", "seats", "decisions")),
        (OK, ["what-if", "--gang", "high"]),
        (OK, ["what-if", "high"]),
        (NO, ["what-if", "high", "--priority", "-5"]),
        (NO, ["what-if", "--gang", "low"]),
        (NO, ["what-if", "-f", str(none)]),
        (BAD, ["what-if", "--gang", "nobody"]),
        (BAD, ["what-if"]),
        (BAD, ["what-if", "-f", "/nowhere"]),
        (BAD, ["what-if", "--gang", "high", "--seconds", "-1"]),
        (BAD, ["decisions", "--limit", "0"]),
        (BAD, ["decisions", "--outcome", "x"]),
        (NO, ["report"]),
    ]
    for expected, arguments in cases:
        status, out, err = await live.ask(*arguments)
        told = (arguments, out, err)
        assert status == expected, told
        # What is no answer says why; an answer may carry notes.
        assert out if expected == OK else out or err, told
        # An unknown name is told once.
        assert "nobody" not in arguments or not out, told
        assert expected != BAD or "error: " in err, told
    _, _, err = await live.ask("report")
    assert "mode: enforce" in err
    assert "mode: observe" in err
    assert "--from FILE" in err


GANGS = ("high", "team/low", "pod-group:team/low")


async def test_a_server_that_observes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(tmp_path, capsys, observing=ObserveSettings()) as live:
        assert (await live.ask("report"))[0] == OK
        assert (await live.ask("report", "--week", "x"))[0] == BAD
        assert (await live.ask("report", "--out", str(tmp_path / "no" / "x.md")))[0] == BAD


@pytest.mark.parametrize("command", LIVE)
def test_a_server_that_is_away(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command, *NAMED.get(command, []), "--url", f"http://127.0.0.1:{free_port()}"]
    assert main(words) == AWAY
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--url", "http://127.0.0.1:99999"],
        ["--url", "http://127.0.0.1:0"],
        ["--url", "http://127.0.0.1:x"],
        ["--url", "http://[::1"],
        ["--url", "http://[x]:1"],
        ["--url", "ftp://127.0.0.1:1"],
        ["--extender-port", "0"],
        ["--extender-port", "65536"],
        ["--nothing"],
    ],
)
@pytest.mark.parametrize("command", LIVE)
def test_bad_options(command: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ended([command, *NAMED.get(command, []), *options]) == BAD
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", " ", "team/", "pod-group:", "pod-group:team/"])
@pytest.mark.parametrize("command", ["why", "gangs", "seats", "decisions"])
def test_no_name_is_told_before_a_server_is_asked(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended([command, name, "--url", "http://127.0.0.1:1"]) == BAD
    assert f"{name!r} is not NAME, NAMESPACE/NAME or a gang's key" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    ["--url", "--kubeconfig", "--context", "--extender-namespace", "--extender-selector"],
)
@pytest.mark.parametrize("command", LIVE)
def test_a_variable_that_is_not_set_asks_no_other_server(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended([command, *NAMED.get(command, []), option, ""]) == BAD
    assert f"argument {option}: '' is no value" in capsys.readouterr().err


@pytest.mark.parametrize("namespace", ["", " ", "team/a"])
@pytest.mark.parametrize("command", ["why", "gangs", "seats", "decisions"])
def test_no_namespace_is_told_before_a_server_is_asked(
    command: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unset variable; "no gangs" would be an answer about a namespace that was not meant."""
    words = [command, *NAMED.get(command, []), "-n", namespace, "--url", "http://127.0.0.1:1"]
    assert ended(words) == BAD
    assert f"{namespace!r} is no namespace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (BAD, []),
        (BAD, ["nothing"]),
        (OK, ["--help"]),
        (BAD, ["plan", "/nowhere", "--gang", "x"]),
        (BAD, ["plan", "x", "--gang", "x", "--seconds", "nan"]),
        (BAD, ["report", "--from", "/nowhere"]),
        (BAD, ["check"]),
        (BAD, ["check", "--config", "/nowhere"]),
        (OK, ["check", "--config", "manifests/extender-config.yaml"]),
        (BAD, ["sandbox", "nowhere"]),
        (BAD, ["sandbox", "--time-scale", "0"]),
        (BAD, ["sandbox", "--time-scale", "1e300"]),
        (BAD, ["sandbox", "--time-scale", "1e-300"]),
        (BAD, ["plan", "x", "--gang", "x", "--seconds", "1e300"]),
        (BAD, ["decisions", "--limit", "9" * 5000]),
        (BAD, ["what-if", "x", "--priority", "3000000000"]),
        (BAD, ["what-if", "x", "--priority", "--5"]),
        (BAD, ["serve", "--port", "70000"]),
        (BAD, ["serve", "--port", "-1"]),
        (BAD, ["serve", "--health-port", "9" * 30]),
        (BAD, ["serve", "--port", "8888", "--health-port", "8888"]),
        (OK, ["sandbox", "--list"]),
        (BAD, ["serve", "--config", "/nowhere"]),
        (BAD, ["serve", "--kubeconfig", "/nowhere"]),
        (BAD, ["completion", "tcsh"]),
        (OK, ["completion", "bash"]),
    ],
)
def test_what_needs_no_server(
    expected: int, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert ended(words) == expected


@pytest.mark.parametrize("command", ["serve", "check", "sandbox"])
def test_a_number_without_an_end_is_refused_at_the_start(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("plan: {branchNodes: 1" + "0" * 26 + "}\napi: {requestsPerSecond: .inf}\n")
    assert ended([command, "--config", str(file)]) == BAD
    said = capsys.readouterr().err
    assert f"{file}: api.requestsPerSecond must be at most 1000000000: it is inf; " in said
    assert "plan.branchNodes must be at most 2147483647: it is 1e+26" in said


def test_an_interrupt_is_told_as_shells_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("extender.cli.gangs_command.run", interrupted)
    assert main(["gangs"]) == statuses.INTERRUPTED


def test_the_help_of_every_command_has_its_statuses() -> None:
    for name, parser in parser_of()._subparsers._group_actions[0].choices.items():  # type: ignore[union-attr]
        text = str(parser.epilog)
        assert text.startswith("Exit status: 0 "), name
        assert "; 2 bad input" in text, name
        assert (statuses.SERVER in text) is (name in LIVE), name


def test_the_table_of_the_docs_has_every_command() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    section = text.partition("## Exit statuses")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`([a-z-]+)", row.split("|")[1])]
    assert sorted(listed) == sorted(COMMANDS)


def ended(words: list[str]) -> int:
    """Run a command; return the exit status, argparse's too."""
    try:
        return main(words)
    except SystemExit as done:
        return int(str(done.code))
