"""``plan`` on small clusters of public reports: what it plans, and the true cause by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.app.main import main

Capture = pytest.CaptureFixture[str]
DUMPS = Path(__file__).parent / "dumps"


def answer(capsys: Capture, name: str, gang: str = "job", *, path: Path | None = None) -> Any:
    """The JSON answer about a gang of a dump of tests/cli/dumps."""
    main(["plan", str(path or DUMPS / name), "--gang", gang, "-o", "json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("what", ["a-pod-that-is-not-ready", "a-pending-pod"])
def test_a_budget_is_not_asked_about(what: str, capsys: Capture) -> None:
    """kubernetes#103970, #92475: the Eviction API answers 201, with disruptionsAllowed 0."""
    found = answer(capsys, f"budget-of-{what}.yaml")
    assert [each["name"] for each in found["plan"]["victims"]] == ["guarded"]


@pytest.mark.parametrize(
    ("status", "goes"),
    [
        ({"currentHealthy": 1, "desiredHealthy": 2}, False),
        ({"currentHealthy": 0, "desiredHealthy": 0}, False),
        ({"disruptedPods": {"guarded": "2026-10-01T08:00:00Z"}, "currentHealthy": 0}, False),
        ({"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 2}, True),
    ],
)
def test_a_budget_that_is_not_healthy_counts_pods_that_are_not_ready(
    status: dict[str, object], *, goes: bool, capsys: Capture, tmp_path: Path
) -> None:
    dump = yaml.safe_load((DUMPS / "budget-of-a-pod-that-is-not-ready.yaml").read_text())
    budget = next(each for each in dump["items"] if each["kind"] == "PodDisruptionBudget")
    budget["status"] |= status
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    found = answer(capsys, "", path=path)
    assert (found.get("plan") is not None) == goes


def test_a_pending_pod_goes_whatever_number_of_budgets_match_it(
    capsys: Capture, tmp_path: Path
) -> None:
    """The Eviction API refuses pods of two budgets, but not those it asks no budget about."""
    for name, goes in (("a-pending-pod", True), ("a-pod-that-is-not-ready", False)):
        dump = yaml.safe_load((DUMPS / f"budget-of-{name}.yaml").read_text())
        budget = next(each for each in dump["items"] if each["kind"] == "PodDisruptionBudget")
        dump["items"].append(budget | {"metadata": {"name": "b", "namespace": "team"}})
        path = tmp_path / "dump.json"
        path.write_text(json.dumps(dump))
        assert (answer(capsys, "", path=path).get("plan") is not None) == goes


@pytest.mark.parametrize(
    "what",
    [
        "room-only-beyond-a-budget",
        "room-for-half-only-beyond-a-budget",
        "smaller-quorum-breaks-the-spread",
    ],
)
def test_no_quorum_is_named_that_has_no_plan(what: str, capsys: Capture) -> None:
    refusal = answer(capsys, f"{what}.json")["refusal"]
    assert [way for way in refusal["ways"] if way["minCount"] is not None] == []


def test_a_quorum_is_named_that_has_a_plan(capsys: Capture, tmp_path: Path) -> None:
    """And asked with that quorum the gang has one."""
    dump = yaml.safe_load((DUMPS / "budget-of-a-pending-pod.yaml").read_text())
    group = next(each for each in dump["items"] if each["kind"] == "PodGroup")
    member = next(each for each in dump["items"] if each["metadata"]["name"] == "job-0")
    more = json.loads(json.dumps(member))
    more["metadata"] |= {"name": "job-1", "uid": "k"}
    dump["items"].append(more)
    path = tmp_path / "dump.json"
    for least in (2, 1):
        group["spec"]["schedulingPolicy"]["gang"]["minCount"] = least
        path.write_text(json.dumps(dump))
        found = answer(capsys, "", path=path)
        if least == 2:
            assert [way["minCount"] for way in found["refusal"]["ways"]][:2] == [None, 1]
    assert len(found["plan"]["victims"]) == 1


@pytest.mark.parametrize(
    ("what", "gang"),
    [
        ("ray-head-fits-nowhere", "rc"),
        ("koordinator-gang-group", "ps"),
        ("yunikorn-task-groups", "app"),
        ("pytorch-elastic", "pt"),
    ],
)
def test_no_pod_is_evicted_for_a_gang_whose_indispensable_part_fits_nowhere(
    what: str, gang: str, capsys: Capture
) -> None:
    """kuberay#4656: workers make up the sum of the parts, and the head gets no node."""
    found = answer(capsys, f"parts-{what}.json", gang)
    assert found["refusal"]["code"] == "infeasible"
    assert "1 short" in found["refusal"]["message"]


def test_each_part_gets_its_own_number_of_seats(capsys: Capture) -> None:
    """The head alone may use its node, and the free seats of three workers make up the sum."""
    found = answer(capsys, "parts-ray-head-on-its-own-node.json", "rc")
    seats = {seat["name"]: seat["node"] for seat in found["plan"]["seats"]}
    assert seats.pop("rc-head") == "h1"
    assert set(seats.values()) == {"w1"}


@pytest.mark.parametrize(
    ("what", "gang", "part"),
    [
        ("ray-head-on-its-own-node", "rc", "rc-head"),
        ("koordinator-gang-group", "ps", "ps0"),
        ("yunikorn-task-groups", "app", "app-d"),
        ("pytorch-elastic", "pt", "pt-master-0"),
    ],
)
def test_a_part_without_a_pod_is_waited_for(
    what: str, gang: str, part: str, capsys: Capture, tmp_path: Path
) -> None:
    """However many pods of the other parts there are."""
    dump = json.loads((DUMPS / f"parts-{what}.json").read_text())
    dump["items"] = [each for each in dump["items"] if each["metadata"]["name"] != part]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    found = answer(capsys, "", gang if part != "ps0" else "ps", path=path)
    assert found["refusal"]["code"] == "incomplete"


@pytest.mark.parametrize(
    ("what", "victims"),
    [
        ("lower-pod-that-opens-no-room", {"low"}),
        ("no-other-way", {"low"}),
        ("launchers", {"launch-0", "prod-1"}),
        ("launchers-above", {"launch-0", "prod-2"}),
        ("helper-or-gang", {"launch-0"}),
    ],
)
def test_a_pod_that_a_spread_rule_counts_is_a_possible_victim(
    what: str, victims: set[str], capsys: Capture
) -> None:
    """kubernetes#137431, #116629: its going opens no seat by its room, but by the rule."""
    found = answer(capsys, f"spread-{what}.json")
    assert {each["name"] for each in found["plan"]["victims"]} == victims
    assert found["plan"]["proof"] == "optimal"


@pytest.mark.parametrize(
    "name", ["affinity-to-a-terminating-pod.json", "affinity-to-a-pod-that-goes.yaml"]
)
def test_no_pod_is_evicted_for_a_seat_that_needs_a_terminating_pod(
    name: str, capsys: Capture
) -> None:
    """kubernetes#112098: when the victim is gone the pod beside it is gone too."""
    assert answer(capsys, name)["refusal"]["code"] == "infeasible"


def test_a_seat_beside_a_pod_that_stays_is_taken_instead(capsys: Capture) -> None:
    plan = answer(capsys, "affinity-to-one-of-two.json")["plan"]
    assert [(each["name"], each["node"]) for each in plan["victims"]] == [("o2", "n2")]


@pytest.mark.parametrize("name", ["affinity-to-a-pod-a.yaml", "affinity-to-a-pod-z.yaml"])
def test_a_pod_that_a_member_requires_beside_it_stays(name: str, capsys: Capture) -> None:
    """kubernetes#50949: whatever the pods are called, for they cost the same."""
    plan = answer(capsys, name)["plan"]
    assert [each["name"] for each in plan["victims"]] == ["filler"]
    assert plan["proof"] == "optimal"


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_member_on_a_node_that_is_not_known_does_not_count(
    *, replaced: bool, started: bool, capsys: Capture, tmp_path: Path
) -> None:
    """kubernetes#140306: where its replacement is there too, both get seats once it is deleted."""
    dump = json.loads((DUMPS / "member-on-a-node-that-is-gone.json").read_text())
    by_name = {each["metadata"]["name"]: each for each in dump["items"]}
    if not started:
        by_name["job-0"]["status"] = {"phase": "Pending"}
    if replaced:
        again = json.loads(json.dumps(by_name["job-2"]))
        again["metadata"] |= {"name": "job-3", "uid": "uid-work-job-3"}
        dump["items"].append(again)
        by_name["l2"]["spec"]["priority"] = 0
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    refused = answer(capsys, "", path=path)["refusal"]
    assert refused["code"] == "incomplete"
    told = f"{2 + replaced} of 3 exist, 1 more is bound to a node that is not known (job-0 to gone)"
    assert told in refused["message"]
    dump["items"].remove(by_name["job-0"])
    path.write_text(json.dumps(dump))
    if replaced:
        found = answer(capsys, "", path=path)
        assert len(found["plan"]["seats"]) == 2
        assert {each["name"] for each in found["plan"]["victims"]} == {"l1", "l2"}


def test_the_replacement_of_a_lost_member_waits_for_none_that_is_done(capsys: Capture) -> None:
    """kubernetes#142330: the pod of index 0 was deleted, and the Job says that it has succeeded."""
    plan = answer(capsys, "finished-member-cleaned-up.yaml", "train")["plan"]
    assert [(seat["name"], seat["node"]) for seat in plan["seats"]] == [("train-1", "n1")]


@pytest.mark.parametrize("ending", [False, True])
def test_no_pod_is_evicted_for_a_namespace_that_is_being_deleted(
    *, ending: bool, capsys: Capture, tmp_path: Path
) -> None:
    """NamespaceLifecycle forbids bindings there; its pods may be victims of others."""
    dump = yaml.safe_load((DUMPS / "budget-of-a-pending-pod.yaml").read_text())
    meta = {"name": "team"}
    if ending:
        meta["deletionTimestamp"] = "2026-10-01T09:00:00Z"
    dump["items"].append({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    found = answer(capsys, "", path=path)
    assert ("plan" in found) == (not ending)
    if ending:
        assert "namespace team is being deleted" in found["refusal"]["message"]


@pytest.mark.parametrize("head", [True, False])
def test_a_worker_is_no_ray_cluster_where_no_worker_group_has_a_minimum(
    capsys: Capture, tmp_path: Path, *, head: bool
) -> None:
    """With autoscaling and minReplicas 0 the head is the only one that is needed."""
    dump = json.loads((DUMPS / "parts-ray-head-fits-nowhere.json").read_text())
    for each in dump["items"]:
        if each["kind"] == "RayCluster":
            each["spec"]["workerGroupSpecs"][0]["minReplicas"] = 0
    if not head:
        dump["items"] = [each for each in dump["items"] if each["metadata"]["name"] != "rc-head"]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    found = answer(capsys, "", "rc", path=path)
    assert found["refusal"]["code"] == ("infeasible" if head else "incomplete")


def text_answer(capsys: Capture, path: Path, gang: str = "job") -> Any:
    """The JSON answer about a gang of a dump."""
    main(["plan", str(path), "--gang", gang, "-o", "json"])
    return json.loads(capsys.readouterr().out)


def changed(tmp_path: Path, name: str, **priorities: int) -> Path:
    """Return the dump with other priorities of some pods."""
    dump = json.loads((DUMPS / name).read_text())
    for each in dump["items"]:
        if each["metadata"]["name"] in priorities:
            each["spec"]["priority"] = priorities[each["metadata"]["name"]]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    return path


ANTI_AFFINITY = "text-anti-affinity-in-its-zone.json"
HOST_PORT = "text-host-port-of-a-pod-that-asks-nothing.json"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (ANTI_AFFINITY, "required anti-affinity of job-0 on na excludes it"),
        (HOST_PORT, "its host port 8080/TCP on n1 is needed"),
    ],
)
def test_a_victim_that_opens_no_room_is_told_by_its_rule(
    name: str, reason: str, capsys: Capture, tmp_path: Path
) -> None:
    """Its room was said to be needed, though it asks for nothing."""
    plan = text_answer(capsys, DUMPS / name)["plan"]
    assert [each["reason"] for each in plan["victims"]] == [reason]
    # The same pod stays, by its priority: it is named, with the same rule.
    (line,) = text_answer(capsys, changed(tmp_path, name, low=3000))["refusal"]["details"]
    assert line.startswith("work/low stays on ")
    assert line.endswith(f"priority 3000 is not below 1000; {reason}")


def test_a_guard_is_told_by_its_own_anti_affinity(capsys: Capture, tmp_path: Path) -> None:
    dump = json.loads((DUMPS / ANTI_AFFINITY).read_text())
    pods = {each["metadata"]["name"]: each for each in dump["items"] if each["kind"] == "Pod"}
    pods["low"]["spec"]["affinity"] = pods["job-0"]["spec"].pop("affinity")
    pods["job-0"]["metadata"]["labels"] = pods["low"]["metadata"].pop("labels")
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    (victim,) = text_answer(capsys, path)["plan"]["victims"]
    assert victim["reason"] == "its required anti-affinity excludes job-0 from na"


def test_a_limit_of_a_domain_says_which_rule_it_is(capsys: Capture) -> None:
    """And not that "pods" is what a node with room for nine lacks."""
    message = text_answer(capsys, DUMPS / "text-host-port-of-a-pod-that-stays.yaml")["refusal"][
        "message"
    ]
    assert "host port 80/TCP allows at most 1 of " in message
    assert "lacks" not in message


def test_a_nominated_pod_that_keeps_the_room_is_named(capsys: Capture) -> None:
    refusal = text_answer(capsys, DUMPS / "text-nominated-pod-keeps-room.json")["refusal"]
    assert refusal["details"] == [
        "work/p1 (priority 1000) is nominated to n1: kube-scheduler keeps its room there"
    ]


def test_a_host_port_is_not_called_room(capsys: Capture) -> None:
    plan = text_answer(capsys, DUMPS / "text-host-port-beside-free-room.json", "u")["plan"]
    (line,) = (line for line in plan["explanation"] if "could stay" in line)
    assert line == (
        "cheaper only with a node for 1 more member without that conflict (host port 80/TCP): "
        "pod team/web could stay then"
    )


def test_a_resource_that_no_node_offers_is_named(capsys: Capture) -> None:
    """HAMi's, which its own scheduler counts by pod annotations."""
    refusal = text_answer(capsys, DUMPS / "text-resource-that-no-node-offers.json", "u")["refusal"]
    lacks = "nvidia.com/gpucores {} nvidia.com/gpumem-percentage"
    assert refusal["message"].endswith(f": no node offers {lacks.format('or')}")
    (way,) = refusal["ways"]
    assert way["text"].startswith(f"nodes that offer {lacks.format('and')} and accept 2 more of ")


def test_rules_that_refuse_every_node_are_told_with_how_many_nodes(
    capsys: Capture, tmp_path: Path
) -> None:
    dump = json.loads((DUMPS / HOST_PORT).read_text())
    node = next(each for each in dump["items"] if each["kind"] == "Node")
    node["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    assert text_answer(capsys, path)["refusal"]["message"].endswith(
        "1 node: TaintToleration: taint gpu:NoSchedule is not tolerated"
    )


@pytest.mark.parametrize(
    ("what", "gang"), [("ray-head-fits-nowhere", "rc"), ("pytorch-elastic", "pt")]
)
def test_members_that_make_up_for_no_other_part_do_not_count_as_fitting(
    what: str, gang: str, capsys: Capture
) -> None:
    """Two of two fit, it was told, and one of the head was short."""
    message = text_answer(capsys, DUMPS / f"parts-{what}.json", gang)["refusal"]["message"]
    assert message.startswith(
        "cannot fit: 1 of 2 members fit if every possible victim is evicted; "
    )
    assert "1 short" in message


@pytest.mark.parametrize(
    ("name", "pod"),
    [
        ("affinity-to-a-terminating-pod.json", "work/cache"),
        ("affinity-to-a-pod-that-goes.yaml", "team/db"),
    ],
)
def test_a_terminating_pod_that_a_member_requires_is_named(
    name: str, pod: str, capsys: Capture
) -> None:
    message = text_answer(capsys, DUMPS / name)["refusal"]["message"]
    told = f"job-0 requires pod {pod} beside it (affinity), and that pod terminates"
    assert message.startswith(f"no solution was found: {told}; 0 of 1 member fits")
