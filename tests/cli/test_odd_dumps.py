"""``plan`` and ``report`` on files without an end or without sense: bad input, and which."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.app.main import main
from extender.cli import kubectl_yaml
from extender.decode.json_text import TOO_DEEP, decoded
from extender.model.errors import InvalidInput

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
