"""``plan``: every form in which a dump may come, and what is told when part of it is missing."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from extender.app.main import main
from tests.cli.test_plan import Obj, kubectl

Capture = pytest.CaptureFixture[str]


def answer(capsys: Capture, *arguments: str) -> tuple[int, Obj, str]:
    """Status, the JSON answer and what else was said."""
    status = main(["plan", *arguments, "--gang", "high", "-o", "json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else {}, err


@pytest.fixture
def plan(tmp_path: Path, capsys: Capture) -> Obj:
    """The answer to the whole dump as one JSON file."""
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(kubectl()))
    return answer(capsys, str(path))[1]


def test_yaml_is_read_as_json_is(tmp_path: Path, capsys: Capture, plan: Obj) -> None:
    path = tmp_path / "dump"
    path.write_text(yaml.safe_dump(kubectl()))
    assert answer(capsys, str(path))[:2] == (0, plan)
    # Unquoted times, as people write them, and several documents.
    text = yaml.safe_dump_all(kubectl()["items"]).replace(
        "'2026-11-01T00:00:00Z'", "2026-11-01T00:00:00Z"
    )
    path.write_text(text)
    assert "creationTimestamp: 2026" in text
    assert answer(capsys, str(path))[:2] == (0, plan)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_files_of_powershell_are_read(
    encoding: str, tmp_path: Path, capsys: Capture, plan: Obj
) -> None:
    """Its ``>`` writes a byte order mark, and with version 5.1 UTF-16."""
    path = tmp_path / "dump.json"
    for text in (json.dumps(kubectl()), yaml.safe_dump(kubectl())):
        path.write_text(text, encoding=encoding, newline="\r\n")
        assert answer(capsys, str(path))[:2] == (0, plan)
        path = tmp_path / "dump.yaml"
    path.write_bytes(b"\xff\xfea")
    assert main(["plan", str(path), "--gang", "x"]) == 2
    assert f"error: {path}: not UTF-16 at byte 2" in capsys.readouterr().err


def test_a_variable_that_is_not_set_is_no_directory(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "", "--gang", "x"])
    assert ended.value.code == 2
    assert "DUMP: is empty" in capsys.readouterr().err


def test_a_directory_is_read_with_all_below_it(tmp_path: Path, capsys: Capture, plan: Obj) -> None:
    below = tmp_path / "dump" / "team"
    below.mkdir(parents=True)
    for kind in {item["kind"] for item in kubectl()["items"]}:
        items = [item for item in kubectl()["items"] if item["kind"] == kind]
        (below / f"{kind}.json").write_text(json.dumps({"kind": "List", "items": items}))
    (below / ".hidden.json").write_text("{")
    (below / "notes.txt").write_text("{")
    assert answer(capsys, str(tmp_path / "dump"))[:2] == (0, plan)
    # The same pods twice are the same pods.
    (tmp_path / "dump" / "again.yaml").write_text(yaml.safe_dump(kubectl()))
    assert answer(capsys, str(tmp_path / "dump"))[:2] == (0, plan)


def test_the_newer_of_two_copies_counts(tmp_path: Path, capsys: Capture) -> None:
    for name, version, cpu in (("a", 7, "4"), ("b", 5, "1")):
        dump = kubectl()
        for item in dump["items"]:
            item["metadata"]["resourceVersion"] = str(version)
            if item["kind"] == "Node":
                item["status"]["allocatable"]["cpu"] = cpu
        (tmp_path / f"{name}.json").write_text(json.dumps(dump))
    assert answer(capsys, str(tmp_path))[0] == 0


def test_standard_input_is_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, plan: Obj
) -> None:
    for text in (json.dumps(kubectl()), yaml.safe_dump(kubectl())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert answer(capsys, "-")[:2] == (0, plan)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    status, _, err = answer(capsys, "-")
    assert status == 2
    assert "standard input: is empty" in err


def test_the_answer_as_yaml(tmp_path: Path, capsys: Capture, plan: Obj) -> None:
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(kubectl()))
    assert main(["plan", str(path), "--gang", "high", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == plan


def without(*kinds: str) -> Obj:
    return {**kubectl(), "items": [i for i in kubectl()["items"] if i["kind"] not in kinds]}


@pytest.mark.parametrize(
    ("dump", "told"),
    [
        (without("PriorityClass"), "no PriorityClasses"),
        (without("PodGroup"), "8 pods of PodGroups that are not there (team/high, team/low)"),
        (kubectl(), "no PodDisruptionBudgets"),
        (kubectl(), "objects of one namespace only (team): if kubectl was asked without -A"),
        (
            {"items": kubectl()["items"][1:], "kind": "List"},
            "1 pod on nodes that are not there (n0)",
        ),
    ],
)
def test_what_a_dump_lacks_is_told(tmp_path: Path, capsys: Capture, dump: Obj, told: str) -> None:
    path = tmp_path / "part.json"
    path.write_text(json.dumps(dump))
    _, _, err = answer(capsys, str(path))
    assert f"note: the dump has {told}" in err


def test_a_gang_whose_group_is_missing_is_a_victim_as_the_note_says(
    tmp_path: Path, capsys: Capture
) -> None:
    """The note said that it is not evicted, above a plan that evicted it."""
    state = kubectl()
    state["items"] = [
        item
        for item in state["items"]
        if (item["kind"], item["metadata"]["name"]) != ("PodGroup", "low")
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(state))
    status, found, said = answer(capsys, str(path))
    assert status == 0
    victims = found["plan"]["victims"]
    assert {victim["name"] for victim in victims} == {f"low-{i}" for i in range(4)}
    assert {victim["unit"] for victim in victims} == {None}, "single ones"
    assert "(team/low): no pod is evicted for such a gang, and as victims its pods are" in said


def test_a_dump_without_nodes_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "part.json"
    path.write_text(json.dumps(without("Node")))
    status, found, err = answer(capsys, str(path))
    assert (status, found) == (2, {})
    assert "the dump has no nodes" in err
    assert "kubectl get nodes," in err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "a list is no object"),
        ("\n", "is empty"),
        ("kind: PodgroupExtenderSnapshot\nformat: 1", "not readable"),
        ("\x80", "not UTF-8"),
    ],
)
def test_malformed_yaml_names_the_file(
    tmp_path: Path, capsys: Capture, content: str, told: str
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content.encode("latin-1"))
    status, _, err = answer(capsys, str(path))
    assert status == 2
    assert "broken.yaml" in err
    assert told in err


def test_an_empty_directory_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    status, _, err = answer(capsys, str(tmp_path))
    assert status == 2
    assert "no file that ends in .json, .yaml, .yml" in err
