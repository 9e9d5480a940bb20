"""The pages name what is there: fields, files, tests, options, systems; prose is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import aiohttp
import kubernetes.client
import msgspec
import pytest

from extender.app.main import COMMANDS, parser_of
from extender.check.catalogue import RULES
from extender.groups.registry import DIALECTS
from extender.model.owner_kinds import OTHER_KINDS
from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, types_pb2, verifier_pb2, watch_pb2
from extender.server.diagnostics import INDEX
from extender.settings.cost_order import LEVELS, ORDERS
from extender.settings.mode import ObserveSettings
from extender.settings.settings import Settings
from tests.cli.live_bed import serving
from tests.packaging.manifests import ROOT
from tests.simulation.mutants import MUTANTS
from tools.docs import debug_page, prose, reference
from tools.docs.types_in_words import is_object

REFERENCE_ROOT = Path(__file__).parents[2]
NAME = re.compile(r"^# TYPE (podgroup_extender_\w+)", re.MULTILINE)


def page(name: str) -> str:
    return (REFERENCE_ROOT / "docs/reference" / name).read_text()


def paths(value: object, path: str = "") -> set[str]:
    """Every key of a configuration that is written out in full."""
    if not isinstance(value, dict) or not value:
        return {path}
    return set().union(*(paths(each, f"{path}.{key}".lstrip(".")) for key, each in value.items()))


def test_the_pages_are_as_the_code_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("grpc_tools") is None:  # ./run lint has it, and compares this page too
        monkeypatch.delitem(reference.PAGES, "grpc.md")
    assert reference.main(["--check"]) == 0


def test_an_old_page_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "PAGES", {"metrics.md": lambda: "new"})
    assert reference.main(["--check"]) == 1
    assert "metrics.md is old" in capsys.readouterr().out
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0


def test_every_key_is_on_the_page_with_its_meaning() -> None:
    shown = {key.path: key for key in reference.keys(Settings)}
    for path in paths(msgspec.to_builtins(Settings())):
        assert any(path == key or path.startswith(f"{key}.") for key in shown), path
    assert [key.path for key in shown.values() if not key.meaning] == []


@pytest.mark.parametrize("observing", [None, ObserveSettings()], ids=["enforce", "observe"])
async def test_every_metric_that_is_served_is_on_the_page(
    observing: ObserveSettings | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        serving(tmp_path, capsys, observing=observing) as live,
        aiohttp.ClientSession() as http,
        http.get(f"{live.url}/metrics") as answer,
    ):
        text = await answer.text()
    served = {name for name in NAME.findall(text) if not name.endswith("_created")}
    assert len(served) > 25
    text = page("metrics.md")
    assert [name for name in served if f"`{name}`" not in text] == []


def section(text: str, title: str) -> str:
    """What stands below a heading of the second or third level."""
    return re.split(rf"^###? {re.escape(title)}$", text, flags=re.M)[1].partition("\n#")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_status_of_a_command_is_on_the_page(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        parser_of((command,)).parse_args([command, "--help"])
    said = capsys.readouterr().out
    text = page("cli.md")
    own, shared = section(text, command), text.partition("## Options of several commands")[2]
    shared = "\n".join(line for line in shared.splitlines() if command in line)
    options = set(re.findall(r"^ +(?:-\w[^-]*)?(--[\w-]+)", said, re.M)) - {"--help"}
    assert [
        each
        for each in options
        if f"{each}`" not in own.replace(" ", "`") and f"{each}`" not in shared.replace(" ", "`")
    ] == []
    assert " ".join(said.partition("Exit status")[2].split()) in own


async def test_every_field_that_the_debug_api_answers_is_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, seen = page("debug.md"), 0
    async with serving(tmp_path, capsys) as live, aiohttp.ClientSession() as http:
        await live.preempt("high-0", "n0", "n1", "n2", "n3")
        for path in INDEX:
            name = path.partition("?")[0]
            async with http.get(live.url + path.replace("=NAME", "=low-0")) as answer:
                found = await answer.json()
            if answer.status != 200 or debug_page.answer_of(path) is None:
                continue
            kind = debug_page.answer_of(path)
            if not is_object(kind):
                (found,) = found[name.rpartition("/")[2]][:1] or [{}]
                kind = get_args(kind)[0]
            told = section(text, kind.__name__ if name != "/debug/limits" else name)
            assert [field for field in found if f"| `{field}` |" not in told] == []
            seen += len(found)
    assert seen > 60


def test_every_field_of_the_debug_api_has_a_meaning() -> None:
    assert re.findall(r"^\| `.*\|\s*\|$", page("debug.md"), re.M) == []


def messages() -> Iterator[tuple[str, list[str]]]:
    for file in (extender_pb2, plan_pb2, types_pb2, verifier_pb2, watch_pb2):
        for message in file.DESCRIPTOR.message_types_by_name.values():
            yield message.name, [field.name for field in message.fields]
        for service in file.DESCRIPTOR.services_by_name.values():
            yield service.name, [method.name for method in service.methods]


def test_every_call_and_field_of_the_interface_is_on_the_page() -> None:
    text = page("grpc.md")
    for name, parts in messages():
        told = section(text, name)
        assert [each for each in parts if f"| `{each}` |" not in told] == []


PAGE = Path(__file__).parents[2] / "docs" / "checked.md"
KINDS = ("PodSpec", "NodeSpec", "NodeStatus")


def rows(heading: str) -> list[tuple[str, str]]:
    """First and second column of the table under a heading."""
    part = PAGE.read_text().split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line.split("|") for line in part.splitlines() if line.startswith("|")]
    return [(line[1].strip(), line[2].strip()) for line in lines[2:]]


def fields() -> list[str]:
    """Every field that is named."""
    return [name for names, _ in rows("Fields of a pod") for name in names.split(", ")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_api_is_in_the_table_once(kind: str) -> None:
    """A new field of the API may be one that a filter reads: it must be looked at."""
    known = getattr(kubernetes.client, f"V1{kind}").attribute_map.values()
    table = [name for name in fields() if name.startswith(f"{kind}.")]
    assert sorted(table) == sorted(f"{kind}.{field}" for field in known)


def test_every_row_says_who_checks_it() -> None:
    words = {"compared", "lists", "no filter"}
    assert {word for _, word in rows("Fields of a pod")} == words
    assert {word for _, word in rows("Filters of kube-scheduler")} == words | {"none"}


TEXT = (ROOT / "CONTRIBUTING.md").read_text()
FILES = {
    str(path.relative_to(ROOT))
    for folder in ("extender", "tests", "bench", "tools", "charts", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
}
MADE_UP = ("NAME", "PLUGIN", "SUBJECT", "*")
"""What stands for a name of the reader's own."""
FILE = r"`([\w./-]+\.(?:pyx?|md|yaml))`"
BEFORE = re.compile(rf"`([A-Za-z_][\w.]*)`\s+(?:in|of)\s+{FILE}")
BESIDE = re.compile(rf"{FILE}\s*\(((?:`[\w.]+`[^`)]*)+)\)")


def named_files() -> list[str]:
    return sorted({name for name in re.findall(FILE, TEXT) if not any(m in name for m in MADE_UP)})


def found(name: str) -> list[str]:
    """The files that a name may mean: a path, or the end of one."""
    return [path for path in FILES if path == name or path.endswith(f"/{name}")]


def names_beside_a_file() -> Iterator[tuple[str, str]]:
    """(file, name) where the text says which names of a file it means."""
    for name, names in BESIDE.findall(TEXT):
        if not any(made_up in name for made_up in MADE_UP):
            inside = re.findall(r"`([\w.]+)`", names)
            yield from ((name, each) for each in inside if not each.endswith(".py"))
    yield from ((name, each) for each, name in BEFORE.findall(TEXT))


@pytest.mark.parametrize("name", named_files())
def test_a_file_is_there(name: str) -> None:
    assert found(name) or (ROOT / name).is_file()


@pytest.mark.parametrize(("name", "inside"), list(names_beside_a_file()))
def test_a_name_is_in_its_file(name: str, inside: str) -> None:
    sources = [(ROOT / path).read_text() for path in found(name)]
    words = inside.split(".")
    assert any(all(re.search(rf"\b{word}\b", text) for word in words) for text in sources)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", TEXT))))
def test_a_test_is_there(name: str) -> None:
    tests = [path for path in FILES if path.startswith("tests/") and path.endswith(".py")]
    assert any(f"def {name}(" in (ROOT / path).read_text() for path in tests)


def test_what_is_looked_for_is_found() -> None:
    assert len(named_files()) > 80
    assert len(list(names_beside_a_file())) > 40


OPERATIONS_PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
LINES = {
    setting: next(
        line for line in OPERATIONS_PAGE.splitlines() if line.startswith(f"| {setting} |")
    )
    for setting in ("plan.costOrder", "plan.costOrders")
}


@pytest.mark.parametrize("page", INDEX)
def test_every_debug_page_is_there(page: str) -> None:
    assert f"`{page.partition('?')[0]}" in OPERATIONS_PAGE


@pytest.mark.parametrize("order", ORDERS)
def test_every_cost_order_is_there(order: str) -> None:
    assert f"`{order}`" in LINES["plan.costOrder"]


@pytest.mark.parametrize("level", LEVELS)
def test_every_cost_level_is_there(level: str) -> None:
    assert f"`{level}`" in LINES["plan.costOrders"]


RELIABILITY_TEXT = (ROOT / "docs" / "reliability.md").read_text()
ROWS = re.findall(r"(?m)^\| (\d+) \| [^|]+ \| ([^|]+) \| `([a-z-]+)` \|$", RELIABILITY_TEXT)
USUAL = "tests/gang/test_transaction.py"


def test_every_case_has_a_row_and_its_mistake() -> None:
    found = {(int(number), name) for number, _, name in ROWS}
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 15))
    assert found == {(mutant.case, mutant.name) for mutant in MUTANTS if mutant.case}


def test_every_named_test_exists() -> None:
    named = [name for _, cell, _ in ROWS for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) >= 14
    for name in named:
        path, _, test = name.rpartition("::")
        text = (ROOT / (path or USUAL)).read_text()
        assert re.search(rf"(?m)^(async )?def {test}\(", text), name


SECURITY_TEXT = (ROOT / "docs" / "security.md").read_text()


def test_security_every_named_test_exists() -> None:
    named = set(re.findall(r"tests/[\w/]+(?:\.py|\.md)?", SECURITY_TEXT))
    assert len(named) > 10
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


def test_every_row_of_the_attack_is_told() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \|", SECURITY_TEXT)
    assert rows == [str(each) for each in range(1, 14)]


def test_every_test_of_a_row_names_it() -> None:
    """So that who changes one sees what it is there for."""
    missing = [
        f"{path}: row {row}"
        for row, line in re.findall(r"(?m)^\| (\d+) \|(.*)$", SECURITY_TEXT)
        for path in re.findall(r"tests/[\w/]+\.py", line)
        if not re.search(rf"docs/security\.md, rows? [\d, and]*\b{row}\b", _head(path))
    ]
    assert missing == []


def _head(path: str) -> str:
    """The docstring of a module, its lines joined."""
    text = (ROOT / path).read_text().split('"""', 2)[1]
    return " ".join(text.split())


def test_headings_that_repairs_point_to_exist() -> None:
    pointed = {
        (heading, page)
        for rule in RULES.values()
        for heading, page in re.findall(r"'([^']+)' in\s+(docs/[\w.]+)", rule.repair)
    }
    assert pointed
    for heading, page in pointed:
        assert f"\n## {heading}\n" in (ROOT / page).read_text()


PAGES = ROOT / "docs" / "systems"
SYSTEMS_ROWS = re.findall(r"(?m)^\| .* \| `([\w-]+)` \|$", (PAGES / "README.md").read_text())
"""The last column: by which name the configuration knows it."""


def test_every_dialect_has_its_line() -> None:
    assert sorted({dialect.name for dialect in DIALECTS} ^ set(SYSTEMS_ROWS)) == []


def test_every_page_is_led_to() -> None:
    text = (PAGES / "README.md").read_text()
    pages = {page.name for page in PAGES.glob("*.md")} - {"README.md"}
    assert sorted(page for page in pages if f"({page}" not in text) == []


def test_no_kind_that_is_read_is_said_not_to_be() -> None:
    """docs/migrate.md: the kind is what its line begins with."""
    text = (ROOT / "docs" / "migrate.md").read_text()
    lines = re.findall(r"(?m)^\| `?([A-Z]\w+)`? \| (.*) \|$", text)
    read = {kind.kind for kind in OTHER_KINDS.values()}
    assert "WorkloadPriorityClass" in {kind for kind, _ in lines} & read
    said = [kind for kind, here in lines if here.startswith("not read")]
    assert sorted(read & set(said) - {"Workload"}) == []  # the one of scheduling.k8s.io


LONG = " ".join(["word"] * 26)


@pytest.mark.parametrize(
    "text",
    [f"{LONG}.", f"Short. {LONG}", f"- {LONG}\n- short", f"| a | {LONG} |", f"[{LONG}](x.md)"],
)
def test_a_long_sentence_is_found(text: str) -> None:
    assert [each.split(":")[1].strip() for each in prose.problems("p.md", text)] == [
        "26 words, 25 at most"
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LONG}\n```",
        f"`{LONG}`",
        " ".join(["word"] * 25) + ".",
        "Thirteen words are here and they end with a colon as you see: "
        "and thirteen more words follow it in the same line of the text.",
        "- " + " ".join(["word"] * 20) + "\n- " + " ".join(["word"] * 20),
    ],
)
def test_what_is_no_long_sentence(text: str) -> None:
    assert not list(prose.problems("p.md", text))


@pytest.mark.parametrize("text", ["It says who goes.", "Nobody waits.", "A plan is in flight."])
def test_a_banned_phrasing_is_found(text: str) -> None:
    assert len(list(prose.problems("p.md", text))) == 1


def test_the_pages_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main() == 0, capsys.readouterr().out
