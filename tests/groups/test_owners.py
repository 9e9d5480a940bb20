"""How large a gang is, by the word of the object that makes its pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.decode.from_json import decode_documents
from extender.model.errors import InvalidInput
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, GroupObject, Pod
from tests.groups import owners, recorded, recorded_launched
from tests.groups.owner_gangs import RESOLVER, made, members, only, state
from tests.groups.owners import (
    document,
    job,
    jobset,
    jobset_pod,
    read,
    replicated,
    template,
    train_job,
)

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


class TestJobSet:
    def test_its_size_is_replicas_times_parallelism(self) -> None:
        """The reference scenario: a Job is back at 10 s, the other at 40 s."""
        group = read("jobset", jobset(replicated("w", replicas=2, each=2)))
        gang = only(members(1), [group], "job")
        assert (gang.min_count, gang.size_known, gang.complete) == (4, True, False)
        gang = only(members(4, each=2), [group], "job")
        assert (gang.min_count, gang.complete, gang.notes) == (4, True, ())

    def test_without_the_right_to_read_it_what_exists_counts_and_it_says_so(self) -> None:
        gang = only(members(1))
        assert (gang.min_count, gang.size_known) == (1, False)
        assert gang.notes == (
            "JobSet ns/g is not served or must not be read, and so states no size: the 1 pod "
            "that exists now counts as the gang",
        )

    def test_one_that_is_gone_is_told_apart_from_one_that_is_not_read(self) -> None:
        gang = only(members(2), (), "jobset")
        assert not gang.size_known
        assert "JobSet ns/g does not exist" in gang.notes[0]

    def test_an_annotation_comes_after_the_owner(self) -> None:
        meta = jobset_pod(0, "w")
        meta["annotations"]["podgroup-extender.io/gang-size"] = "9"
        pod = made("w-0", meta)
        assert only([pod]).min_count == 9
        group = read("jobset", jobset(replicated("w", each=4)))
        assert only([pod], [group]).min_count == 4

    def test_fewer_completions_than_parallelism(self) -> None:
        part = replicated("w", replicas=2)
        part["template"]["spec"] |= {"parallelism": 8, "completions": 3}
        assert only(members(1), [read("jobset", jobset(part))], "job").min_count == 6

    def test_pods_that_have_finished_are_not_waited_for(self) -> None:
        """Of 2 x 2 one pod is done, and its Job makes another one anew."""
        groups = [
            read("jobset", jobset(replicated("w", replicas=2, each=2))),
            read("job", job("g-w-0", 2, succeeded=1)),
            read("job", job("g-w-1", 2)),
        ]
        gang = only([*members(2, on=True), *members(3)[2:]], groups)
        assert (gang.min_count, gang.complete) == (3, True)
        done: dict[str, Any] = {
            "succeeded": 2,
            "conditions": [{"type": "Complete", "status": "True"}],
        }
        groups[1] = read("job", job("g-w-0", 2, **done))
        assert only(members(2, each=2), groups).min_count == 2

    def test_without_its_jobs_one_that_runs_is_what_is_there(self) -> None:
        group = read("jobset", jobset(replicated("w", each=4)))
        assert only(members(3), [group]).min_count == 4
        gang = only([*members(2, on=True), *members(3)[2:]], [group])
        assert (gang.min_count, gang.complete) == (3, True)
        assert "the Jobs of JobSet ns/g are not read" in gang.notes[0]

    def test_jobs_that_succeeded_count_without_their_jobs_too(self) -> None:
        status = {"replicatedJobsStatus": [{"name": "w", "succeeded": 1}]}
        group = read("jobset", jobset(replicated("w", replicas=2, each=2), status=status))
        assert only(members(1), [group]).min_count == 2

    def test_as_a_victim_it_goes_whole_as_long_as_all_there_is_runs(self) -> None:
        """One has just finished, and its Job does not say so yet."""
        group = read("jobset", jobset(replicated("w", each=4)))
        assert only(members(3, on=True), [group], "job").goes_whole
        broken = [*members(2, on=True), *members(3)[2:]]
        assert not only(broken, [group], "job").goes_whole

    def test_more_jobs_than_are_asked_one_by_one(self) -> None:
        """All parts together: as many parts as one likes may have a thousand each."""
        for replicas, read_them in ((512, True), (513, False)):
            parts = [replicated(name, replicas=replicas) for name in ("w", "x")]
            groups = [read("jobset", jobset(*parts)), read("job", job("g-w-0", 1, succeeded=1))]
            gang = only(members(1, on=True), groups)
            assert gang.min_count == (1023 if read_them else 1)
            assert read_them is (gang.notes == ())

    def test_those_that_come_later_are_foreseen(self) -> None:
        parts = (replicated("lead"), replicated("w", each=3, cpu="2"))
        group = read("jobset", jobset(*parts, in_order=True))
        lead = members(1, "lead")
        gang = only(lead, [group], "job")
        assert (gang.min_count, gang.complete, len(gang.followers)) == (1, True, 3)
        assert gang.followers[0].requests == (("cpu", 2000), ("pods", 1))
        assert gang.notes == ("3 more pods of JobSet ns/g are made once others run",)
        gang = only([*members(1, "lead", on=True), *members(1)], [group], "job")
        assert (gang.min_count, gang.complete, gang.followers) == (4, False, ())

    def test_depends_on_is_an_order_too(self) -> None:
        after = replicated("w", each=3, dependsOn=[{"name": "lead", "status": "Ready"}])
        gang = only(members(1, "lead"), [read("jobset", jobset(replicated("lead"), after))], "job")
        assert (gang.min_count, len(gang.followers)) == (1, 3)

    def test_an_initializer_that_is_done_is_not_waited_for(self) -> None:
        after = replicated("w", each=3, dependsOn=[{"name": "init", "status": "Complete"}])
        done: dict[str, Any] = {
            "succeeded": 1,
            "conditions": [{"type": "Complete", "status": "True"}],
        }
        groups = [
            read("jobset", jobset(replicated("init"), after)),
            read("job", job("g-init-0", 1, **done)),
        ]
        assert only(members(1), groups).min_count == 3

    @pytest.mark.parametrize("where", ["jobset", "job"])
    def test_exclusive_topology_makes_followers_of_all_but_the_first(self, where: str) -> None:
        key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
        part = replicated("w", replicas=2, each=3)
        if where == "job":
            part["template"]["metadata"] = {"annotations": {key: "rack"}}
        meta: dict[str, Any] = {"annotations": {key: "rack"}} if where == "jobset" else {}
        group = read("jobset", jobset(part, **meta))
        leads = [made(f"w-{j}", jobset_pod(j, "w", index=0, job=j)) for j in range(2)]
        gang = only(leads, [group], "job")
        assert (gang.min_count, len(gang.followers)) == (2, 4)
        follower = made("f", jobset_pod(0, "w", index=1))
        gang = only([*leads, follower], [group], "job")
        assert (gang.min_count, len(gang.followers)) == (4, 2)
        gang = only([*leads, follower, made("g", jobset_pod(0, "w", index=1, job=1))], [group])
        assert (gang.min_count, gang.followers) == (6, ())

    @pytest.mark.parametrize("read_too", ["job", "jobset"])
    def test_with_exclusive_topology_a_job_made_anew_does_not_wait_for_its_followers(
        self, read_too: str
    ) -> None:
        """Its rack was lost: JobSet's webhook refuses followers until their leader has a node."""
        meta: dict[str, Any] = {"annotations": {EXCLUSIVE: "rack"}}
        group = read("jobset", jobset(replicated("w", replicas=2, each=4), **meta))
        ran = members(4, on=True)
        leader = made("w-1-0", jobset_pod(0, "w", index=0, job=1))
        gang = only([*ran, leader], [group], read_too)
        assert gang.complete
        if read_too == "job":
            assert (gang.min_count, gang.missing, len(gang.followers)) == (5, 1, 3)

    def test_a_job_that_a_restart_deletes_is_waited_for(self) -> None:
        """One Job failed, and its pods take a while to go; the other is there anew."""
        failed: dict[str, Any] = {
            "succeeded": 1,
            "conditions": [{"type": "Failed", "status": "True"}],
        }
        old = job("g-w-0", 2, **failed)
        old["metadata"]["deletionTimestamp"] = "2027-01-15T07:00:00Z"
        groups = [
            read("jobset", jobset(replicated("w", replicas=2, each=2))),
            read("job", old),
            read("job", job("g-w-1", 2)),
        ]
        anew = [made(f"x{i}", jobset_pod(i, "w", index=i, job=1)) for i in range(2)]
        gang = only(anew, groups)
        assert (gang.min_count, gang.complete) == (4, False)

    def test_pods_of_jobs_that_have_all_ended_are_not_planned_for(self) -> None:
        """What is left of them is about to be deleted."""
        failed: dict[str, Any] = {"conditions": [{"type": "Failed", "status": "True"}]}
        groups = [
            read("jobset", jobset(replicated("w", each=2))),
            read("job", job("g-w-0", 2, **failed)),
        ]
        assert not only(members(2), groups).in_order

    def test_a_node_selector_strategy_holds_nobody_back(self) -> None:
        annotations = {
            "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
            "alpha.jobset.sigs.k8s.io/node-selector": "true",
        }
        group = read("jobset", jobset(replicated("w", each=3), annotations=annotations))
        assert only(members(1), [group], "job").min_count == 3

    def test_absurd_numbers_cost_nothing(self) -> None:
        part = replicated("w", replicas=2**31 - 1, each=2**31 - 1)
        late = replicated("z", replicas=2**31 - 1, each=2**31 - 1)
        group = read("jobset", jobset(part, late, in_order=True))
        gang = only(members(1), [group], "job")
        assert not gang.complete
        assert len(gang.followers) <= 4096
        with pytest.raises(InvalidInput, match=r"JobSet ns/g: spec.replicatedJobs: 300 entries"):
            read("jobset", jobset(*[replicated(f"p{i}") for i in range(300)]))


class TestOthers:
    def test_ray_cluster(self) -> None:
        def size(spec: dict[str, Any]) -> int:
            group = read("ray-cluster", owners.document("ray-cluster", "g-0", spec))
            return only([recorded.pod("ray-cluster", 0, 4)], [group]).min_count

        workers = {"replicas": 3, "minReplicas": 1, "maxReplicas": 5, "groupName": "w"}
        assert size({"workerGroupSpecs": [workers]}) == 4
        assert size({"workerGroupSpecs": [{**workers, "numOfHosts": 2}]}) == 7
        assert size({"workerGroupSpecs": [{**workers, "replicas": 9}]}) == 6
        assert size({"workerGroupSpecs": [{**workers, "suspend": True}]}) == 1
        assert size({"workerGroupSpecs": [workers], "enableInTreeAutoscaling": True}) == 2
        assert size({}) == 1

    @pytest.mark.parametrize("suspend", ["true", "false", "null"])
    def test_pods_of_a_suspended_owner_are_not_planned_for(self, suspend: str) -> None:
        """Their operator is about to end them: to evict others for them would be for nothing."""
        suspended = json.loads(suspend)
        workers = {"replicas": 3, "maxReplicas": 5, "groupName": "w"}
        ray: dict[str, Any] = {"workerGroupSpecs": [workers], "suspend": suspended}
        replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
        policy = {"suspend": suspended, "schedulingPolicy": {"minAvailable": 4}}
        torch = {"pytorchReplicaSpecs": replicas, "runPolicy": policy}
        jobs = jobset(replicated("w", replicas=2, each=2))
        jobs["spec"]["suspend"] = suspended

        def of(dialect: str, source: str, spec: dict[str, Any]) -> Gang:
            pod = recorded.pod(dialect, 0, 4)
            assert pod.owner is not None
            made = owners.document(source, "g-0", spec, uid=pod.owner.uid)
            return only([pod], [read(source, made)])

        for gang in (
            of("ray-cluster", "ray-cluster", ray),
            of("training-operator", "pytorchjob", torch),
            only(members(1), [read("jobset", jobs)], "job"),
        ):
            assert gang.min_count == (1 if suspended else 4)
            assert gang.in_order is (not suspended)
            assert all("wants no pods: it is suspended" in text for text in gang.unplanned)

    def test_pods_of_an_owner_that_is_being_deleted_are_not_planned_for(self) -> None:
        gone: dict[str, Any] = {"deletionTimestamp": "2027-01-15T07:00:00Z"}
        spec: dict[str, Any] = {"workerGroupSpecs": [{"replicas": 3, "groupName": "w"}]}
        for gang in (
            only(
                [recorded.pod("ray-cluster", 0, 4)],
                [read("ray-cluster", owners.document("ray-cluster", "g-0", spec, **gone))],
            ),
            only(members(4), [read("jobset", jobset(replicated("w", each=4), **gone))], "job"),
        ):
            assert not gang.in_order
        bound = only(members(4, on=True), [read("jobset", jobset(replicated("w", each=4), **gone))])
        assert bound.goes_whole

    def test_what_clears_redis_after_a_ray_cluster_is_no_member(self) -> None:
        """Head and workers have gone, and the RayCluster stays until this pod has run."""
        labels = {"ray.io/cluster": "g-0", "ray.io/node-type": "redis-cleanup"}
        assert RESOLVER.member_key(made("g-0-redis-cleanup", {"labels": labels})) is None

    def test_training_jobs(self) -> None:
        pods = [recorded.pod("training-operator", 0, 4)]
        replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}

        def size(status: dict[str, Any] | None = None, **spec: Any) -> int:
            spec = {"pytorchReplicaSpecs": replicas, **spec}
            return only(
                pods, [read("pytorchjob", owners.document("pytorchjob", "g-0", spec, status))]
            ).min_count

        assert size() == 4
        assert size({"replicaStatuses": {"Worker": {"succeeded": 1}}}) == 3
        assert size(elasticPolicy={"minReplicas": 2}) == 3
        assert size(runPolicy={"schedulingPolicy": {"minAvailable": 2}}) == 2

    def test_an_mpi_launcher_may_come_last(self) -> None:
        replicas = {
            "Launcher": {"template": owners.template()},
            "Worker": {"replicas": 3, "template": owners.template()},
        }
        spec = {"mpiReplicaSpecs": replicas}
        workers = [recorded.pod("training-operator-mpi", i, 4) for i in (1, 2, 3)]
        gang = only(workers, [read("mpijob", owners.document("mpijob", "g-0", spec))])
        assert (gang.min_count, gang.complete) == (4, False)
        spec["launcherCreationPolicy"] = "WaitForWorkersReady"  # type: ignore[assignment]
        gang = only(workers, [read("mpijob", owners.document("mpijob", "g-0", spec))])
        assert (gang.min_count, gang.complete, len(gang.followers)) == (3, True, 1)

    def test_a_leader_is_not_kept_waiting_for_workers_that_need_it_ready(self) -> None:
        template = {"size": 4, "workerTemplate": owners.template()}
        leader = recorded.pod("leader-worker-set", 0, 4)
        for policy, expected in (("LeaderCreated", (4, 0)), ("LeaderReady", (1, 3))):
            spec = {"leaderWorkerTemplate": template, "startupPolicy": policy}
            group = read("leader-worker-set", owners.document("leader-worker-set", "g", spec))
            gang = only([leader], [group])
            assert (gang.min_count, len(gang.followers)) == expected
            worker = recorded.pod("leader-worker-set", 1, 4)
            assert only([leader, worker], [group]).min_count == 4

    def test_an_indexed_job_where_all_jobs_are_read(self) -> None:
        meta = {
            "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "j",
                    "uid": "j",
                    "controller": True,
                }
            ],
        }
        pod = made("j-0", meta)
        assert not only([pod]).size_known
        assert only([pod], [read("job", job("j", 4, of=""))]).min_count == 4

    @pytest.mark.parametrize(
        ("spec", "status", "size"),
        [
            ({}, {"succeeded": 1, "failedIndexes": "2"}, 2),
            ({}, {"failedIndexes": "0-1,3"}, 1),
            ({}, {"failedIndexes": "x"}, 4),
            ({}, {"failedIndexes": "3-1"}, 4),
            ({"suspend": True}, {}, None),
            ({"parallelism": 0}, {}, None),
            ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, None),
        ],
    )
    def test_what_an_indexed_job_still_wants(
        self, spec: dict[str, Any], status: dict[str, Any], size: int | None
    ) -> None:
        """An index that failed for good (backoffLimitPerIndex) is not made again."""
        of = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
        notes = {"batch.kubernetes.io/job-completion-index": "1"}
        pod = made("j-1", {"annotations": notes, "ownerReferences": [of]})
        wanted = {"parallelism": 4, "completions": 4, **spec}
        gang = only([pod], [read("job", owners.document("job", "j", wanted, status))])
        assert gang.in_order is (size is not None)
        assert gang.min_count == (size or 1)

    @pytest.mark.parametrize("version", ["evil.io/v1", "batch.volcano.sh/v1alpha1", "v1"])
    def test_a_job_of_another_api_group_is_no_indexed_job(self, version: str) -> None:
        owner = {"apiVersion": version, "kind": "Job", "name": "j", "uid": "j", "controller": True}
        notes = {"batch.kubernetes.io/job-completion-index": "0"}
        meta = {"annotations": notes, "ownerReferences": [owner]}
        assert RESOLVER.member_key(made("j-0", meta)) is None
        owner["apiVersion"] = "batch/v1"
        assert RESOLVER.member_key(made("j-0", meta)) == GangKey("indexed-job", "ns", "j")

    def test_documents_of_a_dump_are_read(self) -> None:
        listed = {"kind": "List", "apiVersion": "v1", "items": [jobset(replicated("w", each=4))]}
        (record,) = decode_documents(listed)
        assert isinstance(record, GroupObject)
        assert (record.source, record.parts[0].each) == ("jobset", 4)


COMPLETE = [
    {"name": name, "status": "Complete"} for name in ("dataset-initializer", "model-initializer")
]
INITIALIZERS = [replicated(each["name"]) for each in COMPLETE]
NODES = replicated("node", each=4, cpu="2", dependsOn=COMPLETE)


def nodes(count: int = 4, labels: Any = None, annotations: Any = None) -> list[Pod]:
    """The pods of a TrainJob ``g`` of four, with what a plugin adds."""
    found = []
    for i in range(count):
        meta = train_job(i, 4)
        meta["labels"] |= labels or {}
        meta["annotations"] |= annotations or {}
        found.append(made(f"g-node-0-{i}", meta))
    return found


def train_only(pods: list[Pod], groups: list[GroupObject], *read_too: str) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(pods, groups, *read_too))
    assert not gang.problems
    return gang


def test_its_pods_are_a_job_sets() -> None:
    group = read("jobset", jobset(replicated("node", each=4)))
    gang = train_only(nodes(3), [group], "job")
    assert gang.key == GangKey("jobset", "ns", "g")
    assert (gang.min_count, gang.complete, gang.unit) == (4, False, UNIT_ALL)
    assert train_only(nodes(), [group], "job").complete


def test_its_initializers_come_first_and_its_nodes_are_foreseen() -> None:
    group = read("jobset", jobset(*INITIALIZERS, NODES))
    first = [made(each["name"], jobset_pod(0, each["name"])) for each in COMPLETE]
    gang = train_only(first, [group], "job")
    assert (gang.min_count, gang.complete) == (2, True)
    assert [pod.requests for pod in gang.followers] == [(("cpu", 2000), ("pods", 1))] * 4


def test_its_nodes_do_not_wait_for_initializers_that_are_done() -> None:
    ended: dict[str, Any] = {
        "succeeded": 1,
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    jobs = [read("job", job(f"g-{each['name']}-0", 1, **ended)) for each in COMPLETE]
    gang = train_only(nodes(), [read("jobset", jobset(*INITIALIZERS, NODES)), *jobs])
    assert (gang.min_count, gang.complete, gang.followers) == (4, True, ())


@pytest.mark.parametrize("plugin", ["scheduling-plugins", "volcano"])
def test_a_plugin_of_trainer_names_a_pod_group(plugin: str) -> None:
    """Coscheduling and Volcano: the PodGroup has the TrainJob's name, and goes first."""
    pods = nodes(labels={"scheduling.x-k8s.io/pod-group": "g"})
    if plugin == "volcano":
        pods = nodes(annotations={"scheduling.k8s.io/group-name": "g"})
    named = GroupObject(source=plugin, uid="u", namespace="ns", name="g", min_count=4)
    gang = train_only(pods, [named, read("jobset", jobset(replicated("node", each=4)))], "job")
    assert gang.key == GangKey(plugin, "ns", "g")
    assert (gang.min_count, gang.complete) == (4, True)
    assert gang.unit == UNIT_ALL, "one TrainJob, whoever makes a group of it"


def pods(kind: str, count: int, *, on: int = 0) -> list[Pod]:
    """The pods of a job of this kind; the first ``on`` of them run."""
    found = []
    for i in range(count):
        meta = recorded_launched.pytorch_job(i, count)
        meta["labels"]["training.kubeflow.org/operator-name"] = f"{kind.lower()}-controller"
        meta["ownerReferences"] = [{**meta["ownerReferences"][0], "kind": kind, "uid": kind}]
        found.append(made(f"{kind}-{i}", meta, f"n-{kind}-{i}" if i < on else ""))
    return found


def one_name_job(kind: str, count: int) -> GroupObject:
    field = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"}[kind]
    spec = {field: {"Worker": {"replicas": count, "template": template()}}}
    return read(kind.lower(), document(kind.lower(), "g", spec, uid=kind))


JOBS = [one_name_job("PyTorchJob", 3), one_name_job("TFJob", 2)]


def resolved(found: list[Pod], groups: list[GroupObject] = JOBS) -> Gang:
    (gang,) = RESOLVER.resolve_all(state(found, groups))
    assert not gang.problems
    return gang


def test_both_are_waited_for() -> None:
    gang = resolved([*pods("PyTorchJob", 3), *pods("TFJob", 1)])
    assert (gang.min_count, gang.missing, gang.complete) == (5, 5, False)
    gang = resolved([*pods("PyTorchJob", 3), *pods("TFJob", 2)])
    assert (gang.missing, gang.complete) == (5, True)
    assert any("PyTorchJob and TFJob" in note for note in gang.notes), gang.notes


def test_pods_of_the_one_that_runs_do_not_stand_for_the_other() -> None:
    gang = resolved([*pods("PyTorchJob", 3, on=3), *pods("TFJob", 2)])
    assert gang.missing == 2
    assert gang.goes_whole
    one_more = pods("PyTorchJob", 4, on=4)
    assert resolved([*one_more, *pods("TFJob", 2)]).missing == 2
    assert resolved([*one_more, *pods("TFJob", 1)]).complete is False


def test_without_the_right_to_read_them_those_that_exist_count() -> None:
    gang = resolved([*pods("PyTorchJob", 3, on=3), *pods("TFJob", 2)], [])
    assert (gang.missing, gang.complete, gang.size_known) == (2, True, False)


def test_one_of_them_alone_is_as_ever() -> None:
    gang = resolved(pods("PyTorchJob", 3, on=1))
    assert (gang.min_count, gang.parts, gang.missing) == (3, (), 2)
    assert resolved(pods("TFJob", 2)).min_count == 2


def test_one_that_is_suspended_keeps_the_other_from_nothing() -> None:
    workers = {"Worker": {"replicas": 2, "template": template()}}
    spec = {"tfReplicaSpecs": workers, "runPolicy": {"suspend": True}}
    groups = [JOBS[0], read("tfjob", document("tfjob", "g", spec, uid="TFJob"))]
    gang = resolved([*pods("PyTorchJob", 3), *pods("TFJob", 1)], groups)
    assert (gang.missing, gang.in_order, gang.complete) == (3, True, True)
