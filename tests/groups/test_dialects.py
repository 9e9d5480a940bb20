"""Which pods each dialect claims, and what it says about the gang."""

from __future__ import annotations

import pytest

from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.objects import GangKey, GroupObject, Owner, Pod
from extender.settings.settings import GroupSettings
from tests.groups.build import core, pod, snapshot

JOB = Owner(kind="Job", name="train", uid="j1")
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_LABELS = {"batch.kubernetes.io/job-name": "train", "job-name": "train"}
OLD_NAME = "pod-group.scheduling.sigs.k8s.io/name"
OLD_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
CRD = "scheduling.x-k8s.io/pod-group"
JOBSET = "jobset.sigs.k8s.io/jobset-name"
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
            pod("a", labels={JOBSET: "js", **JOB_LABELS}, annotations={INDEX: "0"}, owner=JOB),
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
            pod("a", labels={SKY: "c", JOBSET: "js"}), key("jobset", "js"), id="jobset > skypilot"
        ),
        pytest.param(
            pod("a", labels={SKY: "c"}, annotations={INDEX: "1"}, owner=JOB),
            key("indexed-job", "train"),
            id="indexed job > skypilot",
        ),
        pytest.param(
            pod("a", labels={SKY: "c", JOBSET: "js", CRD: "g"}),
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
            (two(**{JOBSET: "x"}), True, "JobSet ns/x is not served or must not be read, and so"),
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
    assert only(two(**{JOBSET: "x"}), settings=settings).unit == UNIT_SINGLE
    pods = [pod("a", annotations={INDEX: "0"}, owner=JOB)]
    assert only(pods, settings=settings).starts_whole


def test_a_dialect_left_out_is_not_read() -> None:
    settings = GroupSettings(dialects=("indexed-job",))
    resolver = Resolver(settings)
    one = pod("a", group="g", labels={JOBSET: "js"}, annotations={INDEX: "0"}, owner=JOB)
    assert resolver.member_key(one) == key("indexed-job", "train")
    gang = resolver.resolve(key("jobset", "js"), snapshot([]))
    assert gang.problems == ("dialect 'jobset' is not enabled",)
