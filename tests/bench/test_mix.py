"""The mix: one state in two spellings, drawn as stated."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.inputs.data import derive
from bench.inputs.mix import URGENT, Distributions, MixSettings, mix
from bench.inputs.state import Amounts, State, gpus
from extender.decode.from_json import decode_documents
from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import GroupObject, Node, Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.controlplane.releases import RELEASES

SMALL = MixSettings(nodes=30, gang=2, seed=3)


def planned(state: State, snapshot: Snapshot) -> Plan | Refusal:
    resolver = Resolver(Settings().groups)
    return Planner(Settings(), resolver).plan(
        GangQuestion(resolver.resolve(state.key, snapshot), snapshot)
    )


def admitted(state: State, minor: str) -> Snapshot:
    """The documents decoded, with what admission fills in: identity and priorities."""
    records: list[object] = []
    for document in state.documents(RELEASES[minor]):
        meta, spec = document["metadata"], document.get("spec", {})
        meta["uid"] = meta["name"]
        if document["kind"] in ("Pod", "PodGroup"):
            meta["namespace"] = "default"
            spec["priority"] = int(spec["priorityClassName"].removeprefix("level-"))
        if spec.get("nodeName"):
            document["status"] = {"phase": "Running"}
        records += decode_documents(document)
    return assemble(
        Resolver(Settings().groups).member_key,
        nodes=[each for each in records if isinstance(each, Node)],
        pods=[each for each in records if isinstance(each, Pod)],
        groups=[each for each in records if isinstance(each, GroupObject)],
        now=state.snapshot().now,
        generation=1,
    )


@pytest.mark.parametrize("minor", RELEASES)
def test_records_and_objects_are_the_same_state(minor: str) -> None:
    state = mix(SMALL)
    records, decoded = state.snapshot(ages=False), admitted(state, minor)
    for name, node in records.nodes.items():
        twin = decoded.nodes[name]
        assert (twin.labels, twin.allocatable) == (node.labels, node.allocatable)

    def facts(pod: Pod) -> object:
        return pod.uid, pod.node, pod.priority, pod.requests, pod.pod_group, pod.phase, pod.grace

    assert records.bound.keys() == decoded.bound.keys()
    for name, pods in records.bound.items():
        assert [*map(facts, decoded.bound[name])] == [*map(facts, pods)]
    assert {*map(facts, decoded.pending.values())} == {*map(facts, records.pending.values())}
    assert {
        key: (each.min_count, each.disrupt_all, each.priority)
        for key, each in decoded.groups.items()
    } == {
        key: (each.min_count, each.disrupt_all, each.priority)
        for key, each in records.groups.items()
    }
    assert planned(state, records) == planned(state, decoded)


def test_the_same_seed_gives_the_same_state_and_another_seed_another() -> None:
    assert mix(SMALL) == mix(SMALL)
    assert mix(SMALL).pods != mix(replace(SMALL, seed=4)).pods


@pytest.mark.parametrize("placement", ["spread", "pack"])
def test_no_node_is_overfull_and_the_wanted_fill_is_met(placement: str) -> None:
    state = mix(MixSettings(nodes=200, fill=0.85, placement=placement, seed=5))  # type: ignore[arg-type]
    room = {node.name: node.size for node in state.nodes}
    for pod in state.pods:
        assert pod.wants.fits(room[pod.node]), pod
        room[pod.node] = room[pod.node].minus(pod.wants)
    total = sum(node.size.gpu for node in state.nodes)
    assert 0.84 <= gpus(state.pods) / total <= 0.87
    members = Counter(pod.group for pod in state.pods if pod.group)
    assert members == {group.name: group.min_count for group in state.groups}


def test_shares_and_levels_are_as_asked() -> None:
    state = mix(MixSettings(nodes=400, levels=2, level_weights=(1, 3), equal_share=0.2, seed=6))
    levels = Counter(pod.priority for pod in state.pods if not pod.name.startswith("job"))
    below = levels[100] + levels[200]
    assert set(levels) == {100, 200, URGENT}
    assert 0.65 < levels[200] / below < 0.85
    assert 0.15 < levels[URGENT] / levels.total() < 0.25
    held = gpus(pod for pod in state.pods if pod.name.startswith("job"))
    assert 0.45 < held / gpus(state.pods) < 0.6
    none = mix(MixSettings(nodes=60, gang_share=0, fill=0.5))
    assert not none.groups


def test_packing_leaves_more_whole_nodes_free_than_spreading() -> None:
    def whole(placement: str) -> int:
        state = mix(MixSettings(nodes=300, gang_share=0, fill=0.6, placement=placement))  # type: ignore[arg-type]
        taken = {pod.node for pod in state.pods}
        return sum(node.size.gpu == 8 and node.name not in taken for node in state.nodes)

    assert whole("pack") > whole("spread")


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"fill": 1.1}, {"levels": 0}, {"levels": 2, "level_weights": (1.0,)}],
)
def test_settings_out_of_range_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=[*wrong][-1]):
        MixSettings(**wrong)  # type: ignore[arg-type]


def test_the_counts_kept_are_those_of_the_whole_traces() -> None:
    kept = Distributions.load()
    assert sum(count for _, _, count in kept.nodes) == 1523
    assert sum(size.gpu * count for size, _, count in kept.nodes) == 6212
    assert sum(count for _, count in kept.pods) == 8152
    assert {gpu: count for gpu, count, _ in kept.jobs} == {
        1: 57682, 2: 1483, 4: 2371, 8: 7009, 16: 381, 32: 354, 64: 71
    }  # fmt: skip


def test_a_folder_of_traces_is_counted(tmp_path: Path) -> None:
    tables: dict[str, list[tuple[object, ...]]] = {
        "openb-2023/openb_node_list_all_node.csv": [
            ("sn", "cpu_milli", "memory_mib", "gpu", "model"),
            ("a", 96000, 393216, 8, "G2"),
            ("b", 96000, 393216, 8, "G2"),
        ],
        "openb-2023/openb_pod_list_default.csv": [
            ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
            ("p", 4000, 1024, 1, 460),
            ("q", 64000, 262144, 8, 1000),
        ],
        "itp-2021/cluster01.csv": [
            ("job_id", "submission_time", "duration", "num_gpu"),
            ("x", 1, 600, 1),
            ("y", 2, 7200, 16),
        ],
    }
    for name, rows in tables.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    counted = Distributions.load(tmp_path)
    assert counted.nodes == ((Amounts(96000, 393216, 8), "G2", 2),)
    assert counted.pods == ((Amounts(4000, 1024, 1), 1), (Amounts(64000, 262144, 8), 1))
    assert [(gpu, count) for gpu, count, _ in counted.jobs] == [(1, 1), (16, 1)]
    made = mix(MixSettings(nodes=4, gang=0, fill=0.5), counted)
    assert len(made.members) == 2


def test_missing_traces_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert derive.main(["--traces", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
