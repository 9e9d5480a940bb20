"""Which pods each dialect claims, by which keys, and what it says about the gang."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.check import config
from extender.decode.from_json import decode_pod
from extender.decode.metadata import keep_annotations
from extender.groups.custom import CustomDialect
from extender.groups.dialect import Dialect
from extender.groups.jobset import JobSetDialect
from extender.groups.makers import BY_OWNER, JOBSET
from extender.groups.markers import all_keys, gang_keys
from extender.groups.registry import DIALECTS
from extender.groups.resolver import Resolver
from extender.groups.workload_priority import KINDS
from extender.model.errors import InvalidInput
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.memory_limits import LARGE
from extender.model.objects import GangKey, GroupObject, Owner, Pod
from extender.model.owner_kinds import OWNER_KINDS
from extender.model.snapshot import Snapshot
from extender.settings.custom_groups import CustomGroup, custom_annotations
from extender.settings.settings import GroupSettings
from tests.fuzz import hostile
from tests.groups import recorded, test_owners_that_end
from tests.groups.build import core, pod, snapshot
from tests.groups.owner_gangs import RESOLVER, made

JOB = Owner(kind="Job", name="train", uid="j1")
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_LABELS = {"batch.kubernetes.io/job-name": "train", "job-name": "train"}
OLD_NAME = "pod-group.scheduling.sigs.k8s.io/name"
OLD_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
CRD = "scheduling.x-k8s.io/pod-group"
DIALECT_JOBSET = "jobset.sigs.k8s.io/jobset-name"
SKY = "skypilot-cluster-name"


def key(dialect: str, name: str) -> GangKey:
    return GangKey(dialect, "ns", name)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(pod("a"), None, id="no gang"),
        pytest.param(pod("a", group="g"), key("pod-group", "g"), id="schedulingGroup"),
        pytest.param(pod("a", labels={CRD: "g"}), key("scheduling-plugins", "g"), id="crd"),
        pytest.param(pod("a", labels={CRD: ""}), None, id="crd empty"),
        pytest.param(
            pod("a", labels={OLD_NAME: "g", OLD_MIN: "2"}),
            key("scheduling-plugins-label", "g"),
            id="old pair",
        ),
        pytest.param(pod("a", labels={OLD_MIN: "2"}), None, id="old pair without a name"),
        pytest.param(
            pod(
                "a",
                labels={DIALECT_JOBSET: "js", **JOB_LABELS},
                annotations={INDEX: "0"},
                owner=JOB,
            ),
            key("jobset", "js"),
            id="jobset beats the job that it owns",
        ),
        pytest.param(
            pod("a", labels=JOB_LABELS, annotations={INDEX: "0"}, owner=JOB),
            key("indexed-job", "train"),
            id="indexed job by annotation",
        ),
        pytest.param(
            pod("a", labels={**JOB_LABELS, INDEX: "0"}, owner=JOB),
            key("indexed-job", "train"),
            id="indexed job by label",
        ),
        pytest.param(pod("a", labels=JOB_LABELS, owner=JOB), None, id="job, not indexed"),
        pytest.param(
            pod("a", annotations={INDEX: "0"}, owner=Owner(kind="Set", name="train", uid="s")),
            None,
            id="index, but owned by something else",
        ),
        pytest.param(pod("a", annotations={INDEX: "0"}), None, id="index, but bare"),
        pytest.param(pod("a", labels={SKY: "c"}), key("skypilot", "c"), id="skypilot"),
        pytest.param(
            pod("a", labels={SKY: "c", DIALECT_JOBSET: "js"}),
            key("jobset", "js"),
            id="jobset > skypilot",
        ),
        pytest.param(
            pod("a", labels={SKY: "c"}, annotations={INDEX: "1"}, owner=JOB),
            key("indexed-job", "train"),
            id="indexed job > skypilot",
        ),
        pytest.param(
            pod("a", labels={SKY: "c", DIALECT_JOBSET: "js", CRD: "g"}),
            key("scheduling-plugins", "g"),
            id="explicit beats labels of launchers",
        ),
        pytest.param(
            pod("a", group="g", labels={CRD: "other"}),
            key("pod-group", "g"),
            id="a pod with a conflict counts where it is named first",
        ),
    ],
)
def test_member_key(one: Pod, expected: GangKey | None) -> None:
    assert Resolver(GroupSettings()).member_key(one) == expected


def only(pods: list[Pod], *groups: GroupObject, settings: GroupSettings | None = None) -> Gang:
    """Resolve pods that make exactly one gang."""
    settings = settings or GroupSettings()
    gangs = Resolver(settings).resolve_all(snapshot(pods, groups, settings=settings))
    assert len(gangs) == 1
    return gangs[0]


def two(**fields: str) -> list[Pod]:
    return [pod("a", labels=dict(fields)), pod("b", labels=dict(fields))]


class TestPodGroup:
    def pods(self) -> list[Pod]:
        return [pod("a", group="g"), pod("b", group="g")]

    def test_gang_policy(self) -> None:
        gang = only(self.pods(), core(min_count=3, topology_key="rack"))
        assert (gang.min_count, gang.size_known, gang.starts_whole) == (3, True, True)
        assert gang.unit == UNIT_SINGLE
        assert gang.topology_key == "rack"
        assert not gang.complete
        assert not gang.problems, "fewer pods than minCount is a gang on its way, not a problem"

    def test_disruption_mode_decides_the_unit(self) -> None:
        assert only(self.pods(), core(disrupt_all=True)).unit == UNIT_ALL

    def test_basic_group_constrains_disruption_only(self) -> None:
        gang = only(self.pods(), core(min_count=None))
        assert (gang.starts_whole, gang.min_count, gang.unit) == (False, 1, UNIT_SINGLE)
        gang = only(self.pods(), core(min_count=None, disrupt_all=True))
        assert (gang.starts_whole, gang.min_count, gang.unit) == (False, 1, UNIT_ALL)
        assert not gang.problems

    def test_basic_group_cannot_be_made_to_wait_by_configuration(self) -> None:
        settings = GroupSettings(starts_whole={"pod-group": True})
        assert not only(self.pods(), core(min_count=None), settings=settings).starts_whole

    def test_gang_may_be_configured_to_start_pod_by_pod(self) -> None:
        settings = GroupSettings(starts_whole={"pod-group": False})
        assert not only(self.pods(), core(), settings=settings).starts_whole

    @pytest.mark.parametrize("count", [0, -1, -(2**31)])
    def test_min_count_below_one_is_a_problem(self, count: int) -> None:
        gang = only(self.pods(), core(min_count=count))
        assert gang.problems == (
            f"PodGroup ns/g (scheduling.k8s.io): gang.minCount is {count}, it must be at least 1",
        )
        assert gang.min_count == 1

    def test_missing_object(self) -> None:
        gang = only(self.pods())
        assert gang.problems == ("PodGroup ns/g (scheduling.k8s.io) does not exist",)
        assert len(gang.members) == 2

    def test_object_of_another_api_group_does_not_count(self) -> None:
        assert only(self.pods(), core(source="scheduling-plugins")).problems


class TestSchedulingPlugins:
    def test_object(self) -> None:
        gang = only(two(**{CRD: "g"}), core(source="scheduling-plugins", min_count=2))
        assert (gang.min_count, gang.unit, gang.starts_whole) == (2, UNIT_SINGLE, True)
        assert gang.complete
        assert not gang.problems

    def test_missing_object(self) -> None:
        gang = only(two(**{CRD: "g"}), core())
        assert gang.problems == ("PodGroup ns/g (scheduling.x-k8s.io) does not exist",)

    @pytest.mark.parametrize(
        ("count", "said"), [(0, "minMember is 0"), (None, "minMember is not set")]
    )
    def test_bad_min_member(self, count: int | None, said: str) -> None:
        gang = only(two(**{CRD: "g"}), core(source="scheduling-plugins", min_count=count))
        assert len(gang.problems) == 1
        assert said in gang.problems[0]


class TestLabelPair:
    def test_quorum_comes_from_the_label(self) -> None:
        gang = only(two(**{OLD_NAME: "g", OLD_MIN: "5"}))
        assert (gang.min_count, gang.size_known, gang.problems) == (5, True, ())

    @pytest.mark.parametrize("text", ["0", "-1", "two", "", "1.5", "²", "٣", "9" * 63])
    def test_unreadable_quorum(self, text: str) -> None:
        gang = only(two(**{OLD_NAME: "g", OLD_MIN: text}))
        assert len(gang.problems) == 1
        assert repr(text) in gang.problems[0]
        assert "ns/a" in gang.problems[0]

    def test_no_quorum(self) -> None:
        assert only(two(**{OLD_NAME: "g"})).problems == (f"no pod has the label {OLD_MIN}",)

    def test_quorum_on_some_pods_only(self) -> None:
        gang = only(
            [pod("a", labels={OLD_NAME: "g"}), pod("b", labels={OLD_NAME: "g", OLD_MIN: "2"})]
        )
        assert (gang.min_count, gang.problems) == (2, ())
        assert gang.notes == (f"1 pod lacks the label {OLD_MIN}",)

    def test_quorums_that_differ(self) -> None:
        gang = only(
            [pod(n, labels={OLD_NAME: "g", OLD_MIN: m}) for n, m in (("a", "3"), ("b", "2"))]
        )
        assert gang.problems == (f"label {OLD_MIN} differs between pods: '2' on ns/b, '3' on ns/a",)


class TestUnknownSize:
    @pytest.mark.parametrize(
        ("pods", "starts_whole", "what"),
        [
            (
                two(**{DIALECT_JOBSET: "x"}),
                True,
                "JobSet ns/x is not served or must not be read, and so",
            ),
            (two(**{SKY: "x"}), True, "SkyPilot cluster ns/x"),
            (
                [pod(n, annotations={INDEX: "0"}, owner=JOB) for n in ("a", "b")],
                False,
                "Indexed Job ns/train",
            ),
        ],
        ids=["jobset", "skypilot", "indexed-job"],
    )
    def test_all_pods_count(self, pods: list[Pod], *, starts_whole: bool, what: str) -> None:
        gang = only(pods)
        assert (gang.min_count, gang.size_known, gang.unit) == (2, False, UNIT_ALL)
        assert gang.starts_whole is starts_whole
        assert gang.notes == (
            f"{what} states no size: all 2 pods that exist now count as the gang",
        )
        assert not gang.problems

    def test_terminating_pods_and_their_successors_do_not_count_twice(self) -> None:
        gone = [pod(f"old{i}", labels={SKY: "x"}, deleting=9.0) for i in range(2)]
        fresh = [pod(f"new{i}", labels={SKY: "x"}) for i in range(2)]
        gang = only(gone + fresh)
        assert len(gang.members) == 4
        assert gang.min_count == 2
        assert gang.complete

    def test_only_terminating_pods_are_never_complete(self) -> None:
        gang = only([pod("old", labels={SKY: "x"}, deleting=9.0)])
        assert gang.min_count == 1
        assert not gang.complete


def test_configuration_sets_unit_and_start() -> None:
    settings = GroupSettings(unit={"jobset": "single"}, starts_whole={"indexed-job": True})
    assert only(two(**{DIALECT_JOBSET: "x"}), settings=settings).unit == UNIT_SINGLE
    pods = [pod("a", annotations={INDEX: "0"}, owner=JOB)]
    assert only(pods, settings=settings).starts_whole


def test_a_dialect_left_out_is_not_read() -> None:
    settings = GroupSettings(dialects=("indexed-job",))
    resolver = Resolver(settings)
    one = pod("a", group="g", labels={DIALECT_JOBSET: "js"}, annotations={INDEX: "0"}, owner=JOB)
    assert resolver.member_key(one) == key("indexed-job", "train")
    gang = resolver.resolve(key("jobset", "js"), snapshot([]))
    assert gang.problems == ("dialect 'jobset' is not enabled",)


REPLICAS: dict[str, dict[str, str]] = {
    "ReplicaSet": {"app": "web", "pod-template-hash": "5d8f7c6b9"},
    "StatefulSet": {
        "app": "web",
        "controller-revision-hash": "web-5d8f7c6b9",
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    },
    "DaemonSet": {
        "app": "web",
        "controller-revision-hash": "5d8f7c6b9",
        "pod-template-generation": "1",
    },
}
"""Owner -> labels of its pods, as the controllers of Kubernetes 1.37 write them."""


def replica(kind: str, **annotations: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": True}
    return {
        "labels": REPLICAS[kind],
        "annotations": annotations,
        "ownerReferences": [owner],
        "generateName": "web-",
    }


@pytest.mark.parametrize("kind", REPLICAS)
def test_they_are_single(kind: str) -> None:
    assert RESOLVER.member_key(made("web-0", replica(kind))) is None


@pytest.mark.parametrize("kind", REPLICAS)
@pytest.mark.parametrize("size", ["1", "4"])
def test_the_size_of_a_gang_makes_none_of_them(kind: str, size: str) -> None:
    meta = replica(kind, **{"podgroup-extender.io/gang-size": size})
    assert RESOLVER.member_key(made("web-0", meta)) is None


@pytest.mark.parametrize("kind", REPLICAS)
def test_the_group_that_another_scheduler_derives_for_them_makes_none(kind: str) -> None:
    """Volcano and KAI make a PodGroup for every pod that asks for them."""
    derived = {"scheduling.k8s.io/group-name": "podgroup-u", "pod-group-name": "pg-web-u"}
    assert RESOLVER.member_key(made("web-0", replica(kind, **derived))) is None


@pytest.mark.parametrize("kind", REPLICAS)
def test_a_label_on_their_template_makes_a_gang_of_them(kind: str) -> None:
    meta = replica(kind)
    meta["labels"] = {**meta["labels"], "scheduling.x-k8s.io/pod-group": "web"}
    key = RESOLVER.member_key(made("web-0", meta))
    assert key is not None
    assert key.dialect == "scheduling-plugins"


KUEUE = {
    "kueue.x-k8s.io/pod-group-name": "k",
}
CUSTOM_JOBSET = {"jobset.sigs.k8s.io/jobset-name": "js"}


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
    labels = {"x.example/run": "r", **CUSTOM_JOBSET}
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


OWNED_BY_OTHERS = {"leader-worker-set"}
"""Dialects of which the gang's owner does not own the pods: StatefulSets do."""


def test_kueues_workload_of_each_owner_is_known() -> None:
    assert set(chain.from_iterable(KINDS.values())) == set(OWNER_KINDS)


def test_an_owner_that_is_made_again_is_told_apart_or_cannot_be() -> None:
    assert BY_OWNER | {JOBSET} | OWNED_BY_OTHERS == set(KINDS)
    assert BY_OWNER | {JOBSET} == set(test_owners_that_end.PODS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: str(dialect.name))
def test_hostile_pods_are_of_every_dialect(dialect: Dialect) -> None:
    text = Path(hostile.__file__).read_text()
    assert not dialect.keys or any(f'"{key}"' in text for key in dialect.keys)


@pytest.mark.parametrize("system", recorded.EVERY)
def test_a_member_has_a_key_and_without_it_is_none(system: str) -> None:
    keys = set(gang_keys(GroupSettings()))
    resolver = Resolver(GroupSettings())
    meta = recorded.EVERY[system](1, 4, "g")
    marks: dict[str, dict[str, str]] = {
        name: meta.get(name) or {} for name in ("labels", "annotations")
    }
    member = resolver.member_key(_pod(marks))
    assert member is not None
    assert keys & {key for found in marks.values() for key in found}, member
    bare = {
        name: {key: value for key, value in found.items() if key not in keys}
        for name, found in marks.items()
    }
    assert resolver.member_key(_pod(bare)) is None


OTHERS: dict[str, recorded.Obj] = {
    "pod-group": {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    "scheduling-plugins": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "jobset": {"labels": {"jobset.sigs.k8s.io/jobset-name": "g"}},
    "indexed-job": {
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": "j", "controller": True}
        ],
    },
    "skypilot": {"labels": {"skypilot-cluster-name": "g"}},
}
"""Of dialects that recorded.py has no pod of: what such a pod has at least."""


@pytest.mark.parametrize("name", [dialect.name for dialect in DIALECTS])
def test_what_every_dialect_reads_of_a_pod_is_kept(name: str) -> None:
    """A new dialect comes with a pod; KEPT_ANNOTATIONS and READ_ANNOTATIONS of model.metadata let
    through what it reads, the second where others wrote many and long ones."""
    pods = [OTHERS[name]] if name in OTHERS else []
    pods += [each(0, 3, "g") for each in recorded.EVERY.values()]
    made = next((each for each in pods if _reads(name, each)), None)
    assert made is not None, (
        "no pod of it in recorded.py or OTHERS, or KEPT_ANNOTATIONS drop its key"
    )
    assert _reads(name, _beside_long_ones(made)), "READ_ANNOTATIONS drop its key"
    small, large = _decoded(made), _decoded(_beside_long_ones(made))
    assert large.annotations.keys() <= small.annotations.keys()
    resolver = Resolver(GroupSettings())
    gang, same = (resolver.resolve_all(snapshot([each]))[0] for each in (small, large))
    assert (gang.key.dialect, gang.key) == (name, same.key)
    assert (gang.min_count, gang.notes) == (same.min_count, same.notes)


def _reads(name: str, made: recorded.Obj) -> bool:
    key = Resolver(GroupSettings()).member_key(_decoded(made))
    return key is not None and key.dialect == name


def _beside_long_ones(made: recorded.Obj) -> recorded.Obj:
    return {**made, "annotations": {**made.get("annotations", {}), "x.example/y": "z" * LARGE}}


def _decoded(made: recorded.Obj) -> Pod:
    meta = {key: value for key, value in made.items() if key not in ("spec", "gates")}
    return decode_pod(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", **meta},
            "spec": made.get("spec", {}),
        }
    )


def _pod(marks: dict[str, dict[str, str]]) -> Pod:
    return pod("p", labels=marks["labels"], annotations=marks["annotations"])


def test_indexed_jobs_count_where_they_start_whole() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    assert index not in gang_keys(GroupSettings())
    assert index in gang_keys(GroupSettings(starts_whole={"indexed-job": True}))


def test_custom_groups_and_only_enabled_dialects() -> None:
    custom = (
        CustomGroup(name="one", label="x.example/run", size=2),
        CustomGroup(name="two", annotation="x.example/id", size=2),
    )
    settings = GroupSettings(dialects=("jobset", "pod-group"), custom=custom)
    assert gang_keys(settings) == (
        "jobset.sigs.k8s.io/jobset-name",
        "x.example/id",
        "x.example/run",
    )


class AllBut(dict[str, str]):
    """Labels or annotations that have every key but some."""

    def __init__(self, missing: frozenset[str]) -> None:
        super().__init__()
        self.missing = missing

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return key not in self.missing

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        return default if key in self.missing else "x"


OWN = (CustomGroup(name="one", label="x.example/run"), CustomGroup(name="two", annotation="x.e/id"))


@pytest.mark.parametrize("dialect", [*DIALECTS, *map(CustomDialect, OWN)], ids=lambda d: d.name)
@pytest.mark.parametrize("owner", [None, "Job", "ReplicaSet", "Workload"])
def test_whatever_else_a_pod_has_it_is_no_member_without_a_key(
    dialect: Dialect, owner: str | None
) -> None:
    """What Resolver.member_key leaves out, it leaves out rightly."""
    everything = AllBut(all_keys([dialect]))
    owned = None if owner is None else Owner(owner, "o", "u")
    found = pod("p", labels=everything, annotations=everything, owner=owned)
    assert found.labels is everything
    assert dialect.key(found) is None


class Counting(JobSetDialect):
    """How often it was asked."""

    asked = 0

    def key(self, pod: Pod) -> GangKey | None:
        self.asked += 1
        return super().key(pod)


def test_only_of_pods_that_have_a_key_the_dialects_are_asked() -> None:
    """Every pod of a node that changed is asked for its gang, and most are of none."""
    dialect = Counting()
    resolver = Resolver(GroupSettings(dialects=("jobset",)), [dialect])
    assert resolver.member_key(pod("p", labels={"app": "web"}, annotations={"a": "b"})) is None
    assert dialect.asked == 0
    (mark,) = dialect.keys
    assert resolver.member_key(pod("p", labels={mark: "j"})) == GangKey("jobset", "ns", "j")
    assert dialect.asked == 1


def test_a_pod_of_a_composite_is_a_member_whatever_else_it_has() -> None:
    found = Resolver(GroupSettings()).member_key(replace(pod("p"), hierarchy=("c", "c")))
    assert found == GangKey("pod-group", "ns", "c")
