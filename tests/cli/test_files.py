"""Files of people and of strangers: what is wrong is told with its place; none takes long.

See docs/security.md, row 12.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from extender.app.main import main
from extender.check import documents
from extender.check.documents import MOST_DEPTH, parse
from extender.cli import dump_files, kubectl_yaml
from extender.decode.json_text import TOO_DEEP, decoded
from extender.model.errors import InvalidInput
from extender.observe.file import LedgerFile
from extender.observe.sums import Ledger
from extender.sandbox.process import write_kubeconfig


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !!bool perhaps", "1:4: not valid YAML: is no bool"),
        ('a: !!int ""', "1:4: not valid YAML: is no int"),
        ('a: !!int "-"', "1:4: not valid YAML: is no int"),
        ('a: !!float ""', "1:4: not valid YAML: is no float"),
        ("a: !!timestamp soon", "1:4: not valid YAML: is no timestamp"),
        ("a: 2001-02-30", "1:4: not valid YAML: is no timestamp"),
        ("!!map a", "1:1: not valid YAML: is no mapping"),
        ("a: " + "9" * 5000, "1:4: not valid YAML: int of more than 128 characters"),
        ("a: 0x" + "f" * 5000, "1:4: not valid YAML: int of more than 128 characters"),
        ("a: 1" + ":1" * 100_000, "1:4: not valid YAML: int of more than 128 characters"),
        ("a: 1" + ":1" * 5000 + ".5", "1:4: not valid YAML: float of more than 128 characters"),
    ],
)
@pytest.mark.parametrize("aliases", [True, False])
def test_values_that_are_none_are_bad_input(text: str, why: str, *, aliases: bool) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text, "given", aliases=aliases)
    assert str(caught.value).startswith(f"given:{why}")


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * 1000 + "1]",
        "- 1\n" * 1001,
        "---\n" * 1001,
        "{" + ",".join(f"a{i}: " for i in range(501)) + "}",
    ],
    ids=["flow", "block", "documents", "mapping"],
)
def test_strangers_get_no_more_values_than_are_read_in_time(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MOST_VALUES", 1000)
    with pytest.raises(InvalidInput, match="more than 1000 values"):
        parse(text, "given", aliases=False)
    parse(text, "given")  # one's own files may have as many as they like


@pytest.mark.parametrize(
    "text", ["!" + "a" * 100_000 + " b", ("? " + "k" * 100_000 + "\n: 1\n") * 2]
)
def test_what_is_wrong_is_told_in_few_words(text: str) -> None:
    """It is shown on a page, in a log and in a gRPC status."""
    with pytest.raises(InvalidInput) as problem:
        parse(text, "f", aliases=False)
    assert len(str(problem.value)) < 400


def test_strangers_get_no_depth() -> None:
    with pytest.raises(InvalidInput, match=r"given:1:65: .*in one another"):
        parse("[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1), "given", aliases=False)
    assert parse("[" * MOST_DEPTH + "]" * MOST_DEPTH, "given", aliases=False)


def test_what_people_write_stays_as_it_was() -> None:
    text = "a: 1\nb: 0x10\nc: 1.5\nd: yes\ne: 2001-02-03\nf: {g: [1, 2]}\n"
    for aliases in (True, False):
        (found,) = parse(text, "given", aliases=aliases)
        assert (found.value["a"], found.value["b"], found.value["c"]) == (1, 16, 1.5)
        assert found.value["d"] is True
        assert str(found.value["e"]) == "2001-02-03"
        assert found.value["f"] == {"g": [1, 2]}


ENDLESS = "/dev/zero"
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from extender.app.main import main
sys.exit(main(sys.argv[1:]))
"""
"""Reading for ever ends after 30 s of processor time, by a signal, or where 3 GiB are taken."""


def ended(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, *words]
    with open(ENDLESS, encoding="utf-8") as given:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, stdin=given
        )


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--config", ENDLESS],
        ["check", "--config", ENDLESS],
        ["check", "--manifest", ENDLESS],
        ["check", "--scheduler-config", ENDLESS],
        ["plan", "x", "--gang", "g", "--config", ENDLESS],
        ["gangs", "--url", "http://127.0.0.1:1", "--token-file", ENDLESS],
        ["serve", "--kubeconfig", ENDLESS],
        ["sandbox", ENDLESS],
        ["report", "--from", ENDLESS],
        ["what-if", "-f", "-"],
    ],
    ids=" ".join,
)
def test_a_file_of_the_command_line(words: list[str]) -> None:
    found = ended(*words)
    assert found.returncode == 2, found.stderr
    assert found.stderr.startswith("error: "), found.stderr
    assert len(found.stderr) < 1000


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("seats: {recordKeyFile: /dev/zero}", "seats.recordKeyFile: /dev/zero holds more than"),
        (
            "{server: {tlsCertFile: /dev/zero, tlsKeyFile: /dev/zero, port: 0}}",
            "/dev/zero",
        ),
        ("tracing: {endpoint: 'https://x', headersFile: /dev/zero}", "headersFile"),
    ],
)
def test_a_file_that_the_configuration_names(key: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(key)
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    found = ended("serve", "--config", str(config), "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert found.returncode == 2, found.stderr
    assert said in found.stderr


@pytest.mark.parametrize("path", [ENDLESS, "-"])
def test_a_dump(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_files, "MOST_BYTES", 1000)
    with open(ENDLESS, encoding="utf-8") as given:
        monkeypatch.setattr(sys, "stdin", given)
        with pytest.raises(InvalidInput, match="has more than 1000 bytes"):
            dump_files.read([Path(path)])


def test_what_is_no_regular_file_is_no_ledger_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InvalidInput, match="is no regular file"):
        LedgerFile(str(path), Ledger(1, 1), time.time).read()
    assert list(tmp_path.iterdir()) == [path]


DEEP = 100_000
SNAPSHOT = "kind: PodgroupExtenderSnapshot\n"
POD = '{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x", "uid": "u"}, "spec": %s}'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"kind":' + "[" * DEEP, f"not readable: {TOO_DEEP}"),
        # Passed over: Python 3.14 has the stack for it, and says that the end is missing.
        ("a.json", '{"kind":"List","items":[' * DEEP, "not readable: "),
        ("a.json", '{"kind":"List","items":[' * 50 + "]}" * 50, f"document: {TOO_DEEP}"),
        ("a.json", POD % ("[" * DEEP), "not readable: "),
        ("a.yaml", "[" * DEEP, f"not valid YAML: {TOO_DEEP} at line 1"),
        ("a.yaml", "a: " + "{a: " * DEEP, f"not valid YAML: {TOO_DEEP} at line 1"),
        ("a.yaml", "[#]\n" * DEEP, f"not valid YAML: {TOO_DEEP} at line 501"),
        ("a.yaml", "- " * DEEP, f"not valid YAML: {TOO_DEEP} at line 1"),
        ("a.yaml", "? " * DEEP, f"not valid YAML: {TOO_DEEP} at line 1"),
        ("a.yaml", "kind: List\nitems: &a [*a]", f"document: {TOO_DEEP}"),
        ("a.yaml", SNAPSHOT + "items: &a [*a]", f"not readable: {TOO_DEEP}"),
        ("a.yaml", SNAPSHOT + "null: 3", "not readable: Only dicts with str-like"),
        ("a.yaml", "kind: List\nnull: 3", "document: not a JSON object: Only dicts with str-like"),
        ("a.yaml", "a: !!bool perhaps", "not valid YAML: 'perhaps'"),
        ("a.yaml", "a: !!timestamp soon", "not valid YAML: "),
        ("a.yaml", 'a: !!int ""', "not valid YAML: "),
    ],
)
def test_plan(
    name: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert main(["plan", str(path), "--gang", "x"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: {said}")


@pytest.mark.parametrize(
    "data", [b'{"kind":' + b"[" * DEEP, b'{"weeks":' + b"[" * DEEP, b'{"format": "\xff"}', b"[1"]
)
def test_report(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert main(["report", "--from", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: is no report of observe mode: ")


@pytest.mark.parametrize("data", [b"[" * DEEP, b'"\xff"', b"[", b'{"a": 1e999}', b""])
def test_json_that_is_none_is_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decoded(data, object)


def test_what_kubectl_prints_is_read_whatever_its_brackets() -> None:
    text = "a: {}\n" * 1 + "".join(f"b{i}: [{{}}, []]\n" for i in range(1000))
    (found,) = kubectl_yaml.documents(text.encode())
    assert found["b999"] == [{}, []]
    deep = "[" * 150 + "]" * 150
    assert str(kubectl_yaml.documents(deep.encode())[0]) == deep
