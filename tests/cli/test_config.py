"""Settings from YAML: every mistake says which file, which key and what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extender.check import config
from extender.model.errors import InvalidInput
from extender.settings.settings import Settings


def test_nothing_given_means_defaults() -> None:
    assert config.load(None) == Settings()
    assert config.parse("") == Settings()
    assert config.parse("# only a comment\n") == Settings()


def test_keys_are_camel_case_and_the_rest_keeps_its_default() -> None:
    settings = config.parse(
        "schedulerNames: [a, b]\nplan: {seconds: 1, pdbPolicy: prefer}\n"
        "groups: {unit: {jobset: single}}\n"
    )
    assert settings.scheduler_names == ("a", "b")
    assert settings.plan.seconds == 1.0
    assert settings.plan.pdb_policy == "prefer"
    assert settings.groups.unit == {"jobset": "single"}
    assert settings.server == Settings().server


def test_configmap_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "cm.yaml"
    path.write_text(
        "kind: Service\n---\nkind: ConfigMap\nmetadata: {name: c}\n"
        "data:\n  config.yaml: |\n    server: {port: 9}\n  note.txt: 'not: [yaml'\n"
    )
    assert config.load(path).server.port == 9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: {prot: 1}", "f: server: unknown key 'prot'; did you mean port?"),
        ("severs: {}", "f: unknown key 'severs'; did you mean server?"),
        ("zzz: 1", "f: unknown key 'zzz'; known keys: schedulerNames, server, api, cache"),
        ("server: {port: high}", "f: server.port: Expected `int`, got `str`"),
        ("server: {port: 70000}", "f: server.port must be 0..65535"),
        ("server: {port: 1.5}", "f: server.port: Expected `int`, got `float`"),
        ("plan: {pdbPolicy: maybe}", "f: plan.pdbPolicy: 'maybe' is none of prefer, respect"),
        ("mode: observ", "f: mode: 'observ' is none of enforce, observe"),
        ("groups: {unit: {jobset: x}}", "f: groups.unit[...]: 'x' is none of all, single"),
        ("plan: {seconds: .nan}", "f: plan.seconds must be a number: it is nan"),
        ("groups: {dialects: [1]}", "f: groups.dialects[0]: Expected `str`, got `int`"),
        ("groups: {dialects: [jobste]}", "f: groups.dialects: 'jobste' is no dialect"),
        ("groups: {unit: {pod-group: all}}", "f: groups.unit: pod-group groups state their own"),
        ("plan:", "f: plan: Expected `object`, got `null`"),
        ("- 1", "f: Expected `object`, got `array`"),
        ("a: 1\na: 2", "f:2:1: not valid YAML: key 'a' is given twice"),
        ("a: [1", "f:1:6: not valid YAML: expected ',' or ']'"),
        ("? [1]\n: 2", "f:1:3: not valid YAML: a list or mapping cannot be a key"),
        ("!!python/object:os.system {}", "f:1:1: not valid YAML: could not determine a constr"),
        ("server: {}\n---\nplan: {}", "f: 2 documents with settings; one is expected"),
        ("kind: Pod", "f: has no settings, only Pod"),
        ("kind: ConfigMap\ndata: [1]", "f: ConfigMap: data must be a mapping"),
        (
            "kind: ConfigMap\nmetadata: {name: c}\ndata: {a.yaml: 'server: {prot: 1}'}",
            "f (ConfigMap c, a.yaml): server: unknown key 'prot'",
        ),
    ],
)
def test_mistakes_are_named(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        config.parse(text, "f")
    assert str(problem.value).startswith(expected)


def test_unreadable_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.yaml: cannot be read: No such file"):
        config.load(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff\xfe")
    with pytest.raises(InvalidInput, match=r"binary\.yaml: not UTF-8 at byte 3"):
        config.load(binary)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (5 * 1024 * 1024))
    with pytest.raises(InvalidInput, match=r"huge\.yaml: more than 4194304 bytes"):
        config.load(huge)
    deep = tmp_path / "deep.yaml"
    deep.write_text("[" * 100_000)
    with pytest.raises(InvalidInput, match=r"deep\.yaml"):
        config.load(deep)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("leadership: {name: ../x}", "leadership.name must be a name"),
        ("leadership: {namespace: a/../b}", "leadership.namespace must be a name"),
        ('seats: {recordNamespace: "x?y"}', "seats.recordNamespace must be a name"),
        ("status: {namespace: A}", "status.namespace must be"),
        ('plan: {protectedNamespaces: ["kube-*"]}', "there are no patterns"),
        ('plan: {protectedNamespaces: [""]}', "there are no patterns"),
    ],
)
def test_a_name_that_no_object_can_have_is_refused(text: str, wrong: str) -> None:
    """It would stand in a path of the API server, or protect nothing."""
    with pytest.raises(InvalidInput, match=re.escape(wrong)):
        config.parse(text)
