"""groups.custom: gangs named and sized as the configuration says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.check import config
from extender.decode.from_json import decode_pod
from extender.decode.metadata import keep_annotations
from extender.groups.registry import DIALECTS
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.gang import UNIT_ALL, UNIT_SINGLE
from extender.model.memory_limits import LARGE
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.settings.custom_groups import CustomGroup, custom_annotations
from extender.settings.settings import GroupSettings
from tests.groups.build import pod, snapshot

KUEUE = {
    "kueue.x-k8s.io/pod-group-name": "k",
}
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "js"}


def resolver(**fields: Any) -> Resolver:
    return Resolver(GroupSettings(custom=(CustomGroup(name="ours", **fields),)))


def test_a_label_names_it_and_the_configuration_says_the_rest() -> None:
    found = resolver(label="x.example/run", size=3, unit="single", starts_whole=False)
    one = pod("a", labels={"x.example/run": "r"})
    (gang,) = found.resolve_all(_members(found, one))
    assert gang.key == GangKey("ours", "ns", "r")
    assert (gang.min_count, gang.unit, gang.starts_whole) == (3, UNIT_SINGLE, False)


def _members(found: Resolver, *pods: Pod) -> Snapshot:
    keys: dict[GangKey, list[Pod]] = {}
    for one in pods:
        key = found.member_key(one)
        assert key is not None
        keys.setdefault(key, []).append(one)
    return replace(snapshot([]), members={key: tuple(some) for key, some in keys.items()})


@pytest.mark.parametrize("place", ["label", "annotation"])
def test_the_size_may_be_on_the_pods(place: str) -> None:
    found = resolver(label="x.example/run", **{f"size_{place}": "x.example/pods"})
    fields: dict[str, Any] = {"labels": {"x.example/run": "r"}, "annotations": {}}
    fields[f"{place}s"]["x.example/pods"] = "4"
    (gang,) = found.resolve_all(_members(found, pod("a", **fields)))
    assert (gang.min_count, gang.size_known, gang.unit) == (4, True, UNIT_ALL)
    fields[f"{place}s"]["x.example/pods"] = "many"
    (gang,) = found.resolve_all(_members(found, pod("a", **fields)))
    assert f"{place} x.example/pods of pod ns/a is 'many'" in gang.problems[0]


def test_without_a_size_what_is_there_counts() -> None:
    found = resolver(label="x.example/run")
    (gang,) = found.resolve_all(_members(found, pod("a", labels={"x.example/run": "r"})))
    assert (gang.min_count, gang.size_known) == (1, False)
    assert gang.notes[0].startswith("group ns/r of ours states no size")


def test_it_goes_before_launchers_and_after_names_on_purpose() -> None:
    labels = {"x.example/run": "r", **JOBSET}
    found = resolver(label="x.example/run")
    assert found.member_key(pod("a", labels=labels)) == GangKey("ours", "ns", "r")
    both = pod("a", labels={**labels, **KUEUE})
    assert found.member_key(both) == GangKey("kueue", "ns", "k")
    assert found.conflict(both) is None
    found = resolver(label="x.example/run", explicit=True)
    assert found.conflict(both) == "pod ns/a names different groups: kueue:ns/k, ours:ns/r"


@pytest.mark.parametrize("value", ["", "a b", "x" * 254, "/"])
def test_a_value_that_is_no_name_names_no_gang(value: str) -> None:
    found = resolver(annotation="x.example/run")
    assert found.member_key(pod("a", annotations={"x.example/run": value})) is None


@pytest.mark.parametrize("long", [False, True], ids=["few annotations", "many"])
def test_its_annotations_survive_decoding(*, long: bool) -> None:
    group = CustomGroup(name="ours", annotation="y.example/run", size_annotation="y.example/pods")
    annotations = {"y.example/run": "r", "y.example/pods": "2", "z": "z" * LARGE * long}
    document = {"metadata": {"name": "a", "annotations": annotations}, "spec": {}}
    keep_annotations(custom_annotations([group]))
    kept = decode_pod(document).annotations
    assert (kept["y.example/run"], kept["y.example/pods"]) == ("r", "2")
    assert "z" not in kept


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "groups.custom[0].name: a name of letters"),
        ({"name": "a b"}, "groups.custom[0].name: a name of letters"),
        ({"name": "kueue"}, "'kueue' is a dialect already"),
        ({"label": ""}, "exactly one of label and annotation"),
        ({"annotation": "b"}, "exactly one of label and annotation"),
        ({"label": "a b"}, "groups.custom[0].label: 'a b' is no label key"),
        ({"size": 0}, "groups.custom[0].size must be 1.."),
        ({"size": 2, "size_label": "n"}, "at most one of size, sizeLabel and sizeAnnotation"),
        ({"size_annotation": "-"}, "groups.custom[0].sizeAnnotation: '-' is no label key"),
    ],
)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any], said: str) -> None:
    group = CustomGroup(**{"name": "ours", "label": "a", **fields})
    with pytest.raises(InvalidInput) as caught:
        Resolver(GroupSettings(custom=(group,)))
    assert said in str(caught.value)


def test_two_of_one_name_are_refused() -> None:
    group = CustomGroup(name="ours", label="a")
    with pytest.raises(InvalidInput, match=r"groups.custom\[1\].name: 'ours' is a dialect already"):
        Resolver(GroupSettings(custom=(group, group)))


def test_every_dialect_has_a_name_of_its_own() -> None:
    names = [dialect.name for dialect in DIALECTS]
    assert len(names) == len(set(names))


def test_the_documented_example_is_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "systems" / "custom.md"
    file = tmp_path / "extender.yaml"
    file.write_text(page.read_text().partition("```yaml\n")[2].partition("```")[0])
    settings = config.load(file).groups
    (group,) = settings.custom
    assert (group.label, group.size_annotation) == ("example.com/run", "example.com/pods")
    assert Resolver(settings).member_key(pod("a", labels={"example.com/run": "r"})) is not None
