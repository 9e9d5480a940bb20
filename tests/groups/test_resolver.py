"""Conflicts, priorities, topology, configuration, and that resolving never raises.

See docs/security.md, row 4.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.decode.from_json import decode_group, decode_pod
from extender.gang.incremental.gangs import Gangs
from extender.gang.plan.assemble import assemble
from extender.groups.registry import DIALECTS
from extender.groups.resolver import MAX_CONFLICTS, Resolver
from extender.groups.skypilot import SkyPilotDialect
from extender.groups.topology import Topology, topology_of
from extender.model.errors import InvalidInput
from extender.model.gang import Gang
from extender.model.group_sources import API_GROUPS
from extender.model.objects import GangKey, GroupObject, Owner, Pod, PriorityClass
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings
from tests.groups import recorded
from tests.groups.build import core, pod, snapshot
from tests.groups.owner_gangs import RESOLVER
from tests.groups.owners import job, jobset_pod

CRD = "scheduling.x-k8s.io/pod-group"
OLD_NAME = "pod-group.scheduling.sigs.k8s.io/name"


def resolve(name: str, state: Snapshot, dialect: str = "pod-group") -> Gang:
    return RESOLVER.resolve(GangKey(dialect, "ns", name), state)


class TestConflicts:
    def test_two_explicit_names_that_differ(self) -> None:
        odd = pod("a", group="g", labels={CRD: "h"})
        text = "pod ns/a names different groups: pod-group:ns/g, scheduling-plugins:ns/h"
        assert RESOLVER.conflict(odd) == text
        gang = resolve("g", snapshot([odd, pod("b", group="g")], [core()]))
        assert gang.problems == (text,)

    def test_three_names(self) -> None:
        odd = pod("a", group="g", labels={CRD: "g", OLD_NAME: "h"})
        text = RESOLVER.conflict(odd)
        assert text is not None
        assert "scheduling-plugins-label:ns/h" in text

    def test_two_dialects_that_agree(self) -> None:
        same = pod("a", group="g", labels={CRD: "g"})
        assert RESOLVER.conflict(same) is None
        assert not resolve("g", snapshot([same], [core()])).problems

    def test_owner_based_names_never_conflict(self) -> None:
        one = pod("a", labels={"jobset.sigs.k8s.io/jobset-name": "x", "skypilot-cluster-name": "y"})
        assert RESOLVER.conflict(one) is None

    def test_a_dialect_turned_off_cannot_conflict(self) -> None:
        odd = pod("a", group="g", labels={CRD: "h"})
        assert Resolver(GroupSettings(dialects=("scheduling-plugins",))).conflict(odd) is None

    def test_many_conflicts_are_told_shortly(self) -> None:
        pods = [pod(f"p{i}", group="g", labels={CRD: f"h{i}"}) for i in range(40)]
        problems = resolve("g", snapshot(pods, [core()])).problems
        assert len(problems) == MAX_CONFLICTS + 1
        assert problems[-1] == "35 more pods name different groups"

    def test_a_group_split_between_two_dialects(self) -> None:
        both = pod("a", group="g", labels={CRD: "g"})
        label_only = pod("b", labels={CRD: "g"})
        state = snapshot([both, label_only], [core(), core(source="scheduling-plugins")])
        first = resolve("g", state)
        second = resolve("g", state, "scheduling-plugins")
        assert first.problems == second.problems
        assert "is split" in first.problems[0]

    def test_groups_of_one_name_without_a_common_pod_are_two_groups(self) -> None:
        state = snapshot(
            [pod("a", group="g"), pod("b", labels={CRD: "g"})],
            [core(), core(source="scheduling-plugins")],
        )
        assert not resolve("g", state).problems
        assert not resolve("g", state, "scheduling-plugins").problems


class TestPriority:
    def state(
        self, group: GroupObject, priorities: tuple[int, ...], *classes: PriorityClass
    ) -> Snapshot:
        pods = [pod(f"p{i}", group="g", priority=p) for i, p in enumerate(priorities)]
        return snapshot(pods, [group], classes)

    @pytest.mark.parametrize(
        ("group", "priorities", "expected", "noted"),
        [
            (core(), (7, 7), (7, 7), False),
            (core(), (7, 3, 9), (3, 3), True),
            (core(priority=50), (50, 50), (50, 50), False),
            (core(priority=50), (7, 3), (50, 50), True),
            (core(priority=0), (7,), (0, 0), True),
            (core(priority=50, priority_class="mid"), (50,), (50, 50), False),
            (core(priority_class="mid"), (20,), (20, 20), False),
            (core(priority_class="mid"), (5,), (20, 20), True),
            (core(priority_class="gone"), (5,), (5, 5), True),
        ],
    )
    def test_order(
        self,
        group: GroupObject,
        priorities: tuple[int, ...],
        expected: tuple[int, int],
        *,
        noted: bool,
    ) -> None:
        state = self.state(group, priorities, PriorityClass(name="mid", value=20))
        gang = resolve("g", state)
        assert (gang.preemptor_priority, gang.victim_priority) == expected
        assert bool(gang.notes) is noted
        assert not gang.problems

    def test_a_member_that_goes_has_no_say(self) -> None:
        """One terminates, one is of an owner that is being deleted: neither is to be seated."""
        ends = job("old", 1, of="")
        ends["metadata"]["deletionTimestamp"] = "2026-11-28T09:00:00Z"
        old = decode_group("job", ends)
        pods = [
            pod("stays-0", group="g", priority=7),
            pod("stays-1", group="g", priority=9),
            pod("terminates", group="g", priority=3, preempts=False, deleting=5.0),
            pod("leaves", group="g", priority=2, owner=Owner("Job", "old", old.uid)),
        ]
        gang = resolve("g", snapshot(pods, [core(), old]))
        assert gang.unplanned == ()
        assert (gang.preemptor_priority, gang.preempts) == (7, True)
        assert gang.victim_priority == 2, "what terminates too late may still be evicted"
        left = resolve("g", snapshot(pods[2:3], [core()]))
        assert (left.preemptor_priority, left.preempts) == (3, False)

    def test_notes_name_the_numbers(self) -> None:
        gang = resolve("g", self.state(core(), (7, 3, 9)))
        assert gang.notes == (
            "pods differ in priority (3, 7, 9): 3 counts as preemptor, as a victim each pod's own",
        )

    def test_one_member_that_must_not_preempt(self) -> None:
        pods = [pod("a", group="g"), pod("b", group="g", preempts=False)]
        assert not resolve("g", snapshot(pods, [core()])).preempts
        assert not resolve("g", snapshot(pods[:1], [core(preempts=False)])).preempts
        assert resolve("g", snapshot(pods[:1], [core()])).preempts


class TestConfiguration:
    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            (GroupSettings(dialects=("jobset", "no-such")), "groups.dialects: 'no-such'"),
            (GroupSettings(unit={"no-such": "all"}), "groups.unit: 'no-such'"),
            (GroupSettings(starts_whole={"no-such": True}), "groups.startsWhole: 'no-such'"),
            (GroupSettings(dialects=("jobset", "jobset")), "lists a dialect twice"),
            (GroupSettings(unit={"pod-group": "all"}), "state their own unit"),
        ],
    )
    def test_wrong_names(self, bad: GroupSettings, said: str) -> None:
        with pytest.raises(InvalidInput, match=said):
            Resolver(bad)

    def test_every_dialect_is_on_by_default(self) -> None:
        assert {dialect.name for dialect in DIALECTS} == set(GroupSettings().dialects)

    def test_order_inside_a_kind_is_the_configured_one(self) -> None:
        resolver = Resolver(GroupSettings(dialects=("skypilot", "jobset", "pod-group")))
        both = {"jobset.sigs.k8s.io/jobset-name": "x", "skypilot-cluster-name": "y"}
        assert resolver.member_key(pod("a", labels=both)) == GangKey("skypilot", "ns", "y")
        explicit = resolver.member_key(pod("a", labels=both, group="g"))
        assert explicit == GangKey("pod-group", "ns", "g")


def test_resolve_all_is_sorted_and_skips_groups_without_pods() -> None:
    state = snapshot(
        [pod("a", group="z"), pod("b", group="a"), pod("c")], [core("z"), core("empty")]
    )
    assert [gang.key.name for gang in RESOLVER.resolve_all(state)] == ["a", "z"]


def test_a_mistake_about_one_gang_is_that_gangs_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round resolves all gangs: one that raises would stop planning for everybody."""
    state = snapshot([pod("a", group="g"), pod("b", labels={"skypilot-cluster-name": "c"})])

    def broken(self: object, *given: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(SkyPilotDialect, "declare", broken)
    found = {gang.key.dialect: gang for gang in RESOLVER.resolve_all(state)}
    assert found.keys() == {"pod-group", "skypilot"}
    assert found["skypilot"].problems == (
        "what it states cannot be understood (RecursionError); please report this",
    )


KEYS = (
    CRD,
    OLD_NAME,
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-completion-index",
    "skypilot-cluster-name",
    "scheduling.k8s.io/group-name",
    "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/name",
    "gang.scheduling.koordinator.sh/min-available",
    "gang.scheduling.koordinator.sh/groups",
    "kueue.x-k8s.io/pod-group-name",
    "kueue.x-k8s.io/pod-group-total-count",
    "pod-group-name",
    "applicationId",
    "yunikorn.apache.org/task-groups",
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/size",
    "podgroup-extender.io/gang-size",
)
names = st.sampled_from(
    [
        "",
        "g",
        "h",
        '["ns/g","ns/h"]',
        '[{"name":"a","minMember":2}]',
        '[{"name":"a","minMember":2,"x":' + "[" * 1500 + "]" * 1500 + "}]",
        '[{"name":"a","minMember":9e99}]',
        "[" * 4000,
    ]
) | st.text(max_size=5)
numbers = st.sampled_from(["0", "1", "3", "-1", "x"]) | st.text(max_size=70)
labels = st.dictionaries(st.sampled_from(KEYS), names | numbers, max_size=8)
numeric = st.integers(-(2**31), 2**31)
pods = st.builds(
    Pod,
    uid=st.uuids().map(str),
    namespace=st.sampled_from(["ns", "other"]),
    name=names,
    labels=labels,
    annotations=labels,
    pod_group=names,
    owner=st.none() | st.builds(Owner, kind=st.sampled_from(["Job", "X"]), name=names, uid=names),
    priority=numeric,
    preempts=st.booleans(),
    deleting=st.sampled_from([0.0, 5.0]),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
)
groups = st.builds(
    GroupObject,
    source=st.sampled_from(sorted(API_GROUPS)),
    uid=names,
    namespace=st.just("ns"),
    name=names,
    min_count=st.none() | numeric,
    disrupt_all=st.booleans(),
    priority=st.none() | numeric,
    priority_class=st.sampled_from(["", "mid", "gone"]),
    preempts=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(pods, max_size=8), st.lists(groups, max_size=4), names)
def test_resolve_is_total_and_keeps_its_word(
    some: list[Pod], objects: list[GroupObject], stray: str
) -> None:
    state = snapshot(some, objects, [PriorityClass(name="mid", value=20)])
    gangs = RESOLVER.resolve_all(state)
    assert gangs == RESOLVER.resolve_all(state)
    assert [gang.key for gang in gangs] == sorted(state.members)
    assert sum(len(gang.members) for gang in gangs) == sum(
        RESOLVER.member_key(one) is not None and not one.finished for one in some
    )
    for gang in gangs:
        assert gang.min_count >= 1
        # Whom it may evict cannot evict those whom it evicts for: nobody takes turns.
        assert all(
            gang.preemptor_priority <= max(gang.victim_priority, one.priority)
            for one in gang.members
            if not one.deleting and one.uid not in gang.before
        )
        if any(RESOLVER.conflict(one) for one in gang.members):
            assert gang.problems
    for dialect in ("pod-group", "skypilot", "no-such"):
        RESOLVER.resolve(GangKey(dialect, "ns", stray), state)


REQUIRED = "podgroup-extender.io/required-topology"
PREFERRED = "podgroup-extender.io/preferred-topology"
KUEUE = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"


def said(*annotations: dict[str, str]) -> list[Pod]:
    return [pod(f"p{i}", annotations=each) for i, each in enumerate(annotations)]


@pytest.mark.parametrize(
    ("group", "members", "expected"),
    [
        ("", said({}), Topology()),
        ("zone", said({}), Topology(required="zone")),
        ("", said({REQUIRED: "rack"}), Topology(required="rack")),
        ("rack", said({REQUIRED: "rack"}), Topology(required="rack")),
        ("", said({PREFERRED: "rack"}, {}), Topology(preferred="rack")),
        ("", said({KUEUE: "block"}), Topology(preferred="block")),
        ("", said({KUEUE: "block", PREFERRED: "rack"}), Topology(preferred="rack")),
        ("", said({KUEUE_REQUIRED: "block"}), Topology()),
        ("", said({PREFERRED: ""}), Topology()),
        ("zone", said({PREFERRED: "zone"}), Topology(required="zone")),
    ],
)
def test_what_is_said(group: str, members: list[Pod], expected: Topology) -> None:
    assert topology_of(group, members) == expected


def test_contradicting_requirements_are_a_problem() -> None:
    found = topology_of("zone", said({REQUIRED: "rack"}))
    assert found.problems == ("different topology keys are required: rack, zone",)
    assert topology_of("", said({REQUIRED: "a"}, {REQUIRED: "b"})).problems


def test_a_preference_is_never_a_problem() -> None:
    beside = topology_of("zone", said({PREFERRED: "rack"}))
    assert beside == Topology("zone", "rack")
    assert topology_of("zone", said({PREFERRED: "zone"})) == Topology("zone")
    torn = topology_of("", said({PREFERRED: "a"}, {PREFERRED: "b"}))
    assert (torn.preferred, torn.problems) == ("", ())
    assert torn.notes == ("different topology keys are preferred (a, b): none counts",)


def test_members_that_run_have_no_say() -> None:
    running = replace(pod("r", annotations={PREFERRED: "zone"}), node="n0")
    assert topology_of("", [running, *said({PREFERRED: "rack"})]) == Topology(preferred="rack")


def test_it_reaches_the_gang_in_every_dialect() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "js"}
    jobs = [pod("a", labels=labels, annotations={PREFERRED: "rack"})]
    resolver = Resolver(GroupSettings())
    gang = resolver.resolve(GangKey("jobset", "ns", "js"), snapshot(jobs))
    assert (gang.topology_key, gang.preferred_topology_key) == ("", "rack")
    members = [pod("a", group="g", annotations={REQUIRED: "rack", PREFERRED: "zone"})]
    key = GangKey("pod-group", "ns", "g")
    gang = resolver.resolve(key, snapshot(members, [core(min_count=1)]))
    assert (gang.topology_key, gang.preferred_topology_key, gang.problems) == ("rack", "zone", ())
    gang = resolver.resolve(key, snapshot(members, [core(min_count=1, topology_key="zone")]))
    assert gang.problems == ("different topology keys are required: rack, zone",)


ON = GroupSettings(workload_priority=True)
LABEL = "kueue.x-k8s.io/priority-class"


def kueue(*classes: str) -> list[Pod]:
    """Pods of one group, each with this class by label."""
    made = []
    for i, name in enumerate(classes):
        meta = recorded.kueue(i, len(classes), "g")
        if name:
            meta["labels"][LABEL] = name
        document = {"metadata": {"namespace": "ns", "name": f"p{i}", "uid": f"p{i}", **meta}}
        made.append(decode_pod({**document, "spec": {"priority": 5}}))
    return made


def cls(name: str = "high", value: int = 1000) -> GroupObject:
    document = {"metadata": {"name": name, "uid": f"c-{name}"}, "value": value}
    return decode_group("workload-priority-class", document)


def workload(name: str = "g", owner: str = "", **spec: Any) -> GroupObject:
    owners = [
        {"apiVersion": "x/v1", "kind": owner, "name": "g", "uid": "o", "controller": True},
    ]
    meta = {"name": name, "namespace": "ns", "uid": name}
    if owner:
        meta["ownerReferences"] = owners  # type: ignore[assignment]
    return decode_group("workload", {"metadata": meta, "spec": spec})


def state(pods: list[Pod], *groups: GroupObject) -> Snapshot:
    member_key = Resolver(ON).member_key
    return assemble(member_key, nodes=(), pods=pods, groups=groups, now=0.0)


def only(pods: list[Pod], *groups: GroupObject, settings: GroupSettings = ON) -> Gang:
    (gang,) = Resolver(settings).resolve_all(state(pods, *groups))
    return gang


REF = {"kind": "WorkloadPriorityClass", "group": "kueue.x-k8s.io", "name": "high"}
OLD = {
    "priorityClassName": "high",
    "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
}


def test_the_class_by_label_is_the_gangs_priority() -> None:
    gang = only(kueue("high", "high"), cls())
    assert (gang.preemptor_priority, gang.victim_priority) == (1000, 1000)


@pytest.mark.parametrize("spec", [{"priorityClassRef": REF}, OLD])
def test_the_workloads_class_goes_before_the_label(spec: dict[str, Any]) -> None:
    gang = only(kueue("low", "low"), cls(), cls("low", 1), workload(**spec))
    assert gang.preemptor_priority == 1000


def test_the_workload_of_another_kind_of_job_is_found_by_its_owner() -> None:
    meta = jobset_pod(0, "w")
    pod = decode_pod({"metadata": {"namespace": "ns", "name": "a", "uid": "a", **meta}, "spec": {}})
    found = workload("jobset-g-1a2b3", "JobSet", priorityClassRef=REF)
    assert only([pod], cls(), found).preemptor_priority == 1000
    other = workload("jobset-g-1a2b3", "PyTorchJob", priorityClassRef=REF)
    assert only([pod], cls(), other).preemptor_priority == 0


def test_a_number_or_a_pods_class_in_a_workload_is_not_taken() -> None:
    pod_class = {"kind": "PriorityClass", "name": "high"}
    gang = only(kueue("", ""), cls(), workload(priority=2**30, priorityClassRef=pod_class))
    assert gang.preemptor_priority == 5


def test_no_class_reaches_those_of_the_system() -> None:
    gang = only(kueue("top", "top"), cls("top", 2**31 - 1))
    assert gang.preemptor_priority == 1_000_000_000


def test_off_it_is_named_and_does_not_count() -> None:
    gang = only(kueue("high", "high"), cls(), settings=GroupSettings())
    assert gang.preemptor_priority == 5
    (note,) = gang.notes
    assert note == (
        "Kueue's WorkloadPriorityClass 'high' does not count: groups.workloadPriority is off"
    )
    assert not only(kueue("", ""), settings=GroupSettings()).notes


def test_what_cannot_be_read_does_not_exist_or_differs_is_said() -> None:
    gang = only(kueue("high", "high"))
    assert "is not served or must not be read" in gang.notes[0]
    gang = only(kueue("high", "high"), cls("other"))
    assert "'high' does not exist" in gang.notes[0]
    gang = only(kueue("high", ""), cls())
    assert "differs between pods" in gang.notes[0]
    assert gang.preemptor_priority == 5


def test_a_kept_gang_is_forgotten_when_its_class_changes() -> None:
    gangs = Gangs(Resolver(ON))
    key = GangKey("kueue", "ns", "g")
    pods = kueue("high", "high")
    before = state(pods, cls())
    gangs.renew(before)
    assert gangs[key].preemptor_priority == 1000
    after = state(pods, cls(value=7))
    fields = {name: getattr(after, name) for name in after.__struct_fields__}
    gangs.renew(Snapshot(**{**fields, "members": before.members}))
    assert gangs[key].preemptor_priority == 7
