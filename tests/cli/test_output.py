"""Plain in a pipe, drawn on a terminal, and the same facts in both."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import pytest
import yaml
from msgspec import to_builtins

from extender.app.main import main
from extender.cli import decisions_command, plan_text
from extender.cli.live_command import age
from extender.cli.output import Table, encoded, error, plain, progress, show
from extender.console.plan_parts import plan_parts
from extender.gang.plan.explain import proof_line
from extender.gang.tell.decisions import Verb, of_plan
from extender.model.objects import GangKey
from extender.model.plan import Cost, Plan, Proof

TABLE = Table(("NAME", "WHY"), (("a", "short"), ("longer", "x" * 200)), title="Gangs")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_columns_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show(["line", TABLE], {}, "table")
    assert capsys.readouterr().out.splitlines() == [
        "line",
        "Gangs",
        "NAME    WHY",
        "a       short",
        "longer  " + "x" * 200,
    ]
    assert list(plain(Table(("A",), ()))) == ["A"]


def test_a_reason_is_cut_to_a_line_and_a_name_never(capsys: pytest.CaptureFixture[str]) -> None:
    why = "infeasible: " + "not enough of everything, " * 20
    table = Table(("NAME", "WHY"), (("n" * 200, why), ("b", "short")), prose=True)
    show([table], {}, "table")
    _, long, short = capsys.readouterr().out.splitlines()
    assert long.startswith("n" * 200 + "  infeasible: not enough of everything, not")
    assert long.endswith("...")
    assert len(long) <= 202 + 80
    assert short.split() == ["b", "short"]
    show([table], {}, "wide")
    assert why.strip() in capsys.readouterr().out


def test_a_narrow_terminal_has_room_for_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    row = (*("x" * 30 for _ in range(4)), "the reason in some words of its own")
    show([Table(("A", "B", "C", "D", "WHY"), (row,), prose=True)], {}, "table")
    assert "the reason in some" in screen.getvalue()


def test_a_reason_is_cut_to_what_a_terminal_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for rich in (True, False):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "stdout", screen := Terminal())
        if not rich:
            monkeypatch.setitem(sys.modules, "rich.console", None)
        show([Table(("A", "WHY"), (("x" * 40, "some words " * 9),), prose=True)], {}, "table")
        shown = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
        (row,) = (line for line in shown.splitlines() if "some words" in line)
        assert 60 < len(row.rstrip()) <= 80


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (2e5, "2d"),
    ],
)
def test_an_age_has_two_of_its_unit_at_least(seconds: float, told: str) -> None:
    assert age(seconds) == told


def test_a_gang_reads_the_same_wherever_it_is_named() -> None:
    key = GangKey("pod-group", "team", "high")
    low = {"key": "pod-group:team/low", "dialect": "pod-group", "namespace": "team", "name": "low"}
    high = low | {"key": "pod-group:team/high", "name": "high"}
    victims = [
        {"name": "a", "gang": "pod-group:team/low", "unit": "pod-group:team/low"},
        {"name": "b", "gang": "", "unit": ""},
    ]
    document = {"plan": {"gang": key, "takes_over": [key], "victims": victims}}
    assert json.loads(encoded(document, "json")) == {
        "plan": {
            "gang": high,
            "takesOver": [high],
            "victims": [
                {"name": "a", "gang": low, "unit": low},
                {"name": "b", "gang": None, "unit": None},
            ],
        }
    }


def test_a_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    show(["[bold]no markup[/bold]", TABLE], {}, "table")
    text = screen.getvalue()
    assert "\x1b[" in text
    assert "[bold]no markup[/bold]" in text
    assert text.count("x") >= 200


def test_without_rich_a_terminal_gets_what_a_pipe_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    show([TABLE], {}, "table")
    assert "\x1b[" not in screen.getvalue()
    assert "longer  " in screen.getvalue()


def test_progress_is_on_standard_error_of_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("working") as update:
        update("more")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with progress("working"):
        pass
    assert "working" in screen.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_no_text_moves_the_cursor(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    monkeypatch.setattr(sys, "stdout", screen := Terminal() if terminal else io.StringIO())
    nasty = "a\x1b[2J\x07b\nc\x9b1m\u202ed\u200b\ufeff"
    show([nasty, Table(("X",), ((nasty,),))], {}, "table")
    assert screen.getvalue().count("a?[2J?b c?1m?d??") == 2


def test_no_error_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    error("a\x1b[2J\nb\u202e")
    assert capsys.readouterr().err == "error: a?[2J b?\n"


@pytest.mark.parametrize(
    "nasty",
    [
        "a\x9b2Jb\u202ec",
        "\u061c",
        "a: \u200b#'\"\\",
        "a\u2028\x85\ufeff\x7f\x1b\n\tb\r",
        "\u202e " * 90,
        "tag \U000e0041, soft\u00adhyphen, \u115f filler, \ufe0f\U000e0101 selectors \U0001f600",
    ],
)
def test_what_programs_read_moves_no_cursor_and_reads_the_same(nasty: str) -> None:
    document = {"rows": [{"name": nasty, nasty: [nasty, "plain", "ö 漢字 🙂", "1", "yes", ""]}]}
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        text = encoded(document, output)
        assert read(text) == document
        assert not {char for char in text if char != "\n" and not char.isprintable()}
        assert "ö 漢字 🙂" in text


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "-"],
        ["plan", "-", "--gang", "x"],
        ["what-if", "-f", "\x1b[2J"],
        ["check", "--config", "\x1b[2J"],
        ["report", "--from", "\x1b[2J"],
        ["sandbox", "\x1b[2J"],
        ["serve", "--config", "\x1b[2J"],
        ["why", "\x1b[2J", "--url", "http://\x1b[2J"],
    ],
)
def test_no_command_s_error_moves_the_cursor(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = b'kind: "a\\x1b[2J"\nspec: {"a\\x1b[2J": 1, "a\\x1b[2J": 2}\n? [\x1b]'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pods)))
    assert main(words) in (2, 3)
    said = capsys.readouterr().err
    assert said
    assert "\x1b" not in said


def test_documents_keep_their_order() -> None:
    assert encoded({"b": 1, "a": ("x",)}, "yaml") == "b: 1\na:\n- x"
    assert encoded({"b": 1, "a": ()}, "json").split() == ["{", '"b":', "1,", '"a":', "[]", "}"]


def test_a_reader_that_has_enough_makes_no_traceback() -> None:
    command = f"{sys.executable} -m extender.app.main completion bash | head -1"
    found = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=240, check=False
    )
    assert "Traceback" not in found.stderr
    assert found.stdout.count("\n") == 1


GANG = GangKey("pod-group", "team", "new")
COSTS = (Cost("work@1", 1_000_080, 1_000_000), Cost("gangs@1", 1, 1))
PLAN = Plan(gang=GANG, priority=9, seats=(), victims=(), costs=COSTS, proof=Proof.BOUNDED)


def test_the_explanation() -> None:
    assert proof_line(PLAN) == (
        "not proved least: work@1 costs 277.80 GPU-hours, and at least 277.78 GPU-hours is certain"
    )


def test_the_plan_on_a_shell() -> None:
    assert plan_text.told(PLAN)[-2:] == [
        "  work@1: 277.80 GPU-hours, 277.78 GPU-hours",
        "  gangs@1: 1, 1",
    ]


def test_a_decision_on_a_shell() -> None:
    made = of_plan(PLAN, time=0.0, verb=Verb.PREEMPT, seconds=0.1)
    assert decisions_command.told(to_builtins(made))[-2:] == [
        "  cost work@1: 277.80 GPU-hours (at least 277.78 GPU-hours)",
        "  cost gangs@1: 1 (at least 1)",
    ]


def test_a_page() -> None:
    assert plan_parts((), (), (), COSTS, "").cheaper == (
        "a cheaper plan would have to get below 277.80 GPU-hours at “work lost of priority 1”; "
        "that none gets below 277.78 GPU-hours is proved"
    )
