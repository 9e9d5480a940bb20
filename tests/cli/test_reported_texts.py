"""What ``plan`` says of small clusters: the true cause, by its rule and by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extender.app.main import main

Capture = pytest.CaptureFixture[str]
DUMPS = Path(__file__).parent / "dumps"


def answer(capsys: Capture, path: Path, gang: str = "job") -> Any:
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
    plan = answer(capsys, DUMPS / name)["plan"]
    assert [each["reason"] for each in plan["victims"]] == [reason]
    # The same pod stays, by its priority: it is named, with the same rule.
    (line,) = answer(capsys, changed(tmp_path, name, low=3000))["refusal"]["details"]
    assert line.startswith("work/low stays on ")
    assert line.endswith(f"priority 3000 is not below 1000; {reason}")


def test_a_guard_is_told_by_its_own_anti_affinity(capsys: Capture, tmp_path: Path) -> None:
    dump = json.loads((DUMPS / ANTI_AFFINITY).read_text())
    pods = {each["metadata"]["name"]: each for each in dump["items"] if each["kind"] == "Pod"}
    pods["low"]["spec"]["affinity"] = pods["job-0"]["spec"].pop("affinity")
    pods["job-0"]["metadata"]["labels"] = pods["low"]["metadata"].pop("labels")
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    (victim,) = answer(capsys, path)["plan"]["victims"]
    assert victim["reason"] == "its required anti-affinity excludes job-0 from na"


def test_a_limit_of_a_domain_says_which_rule_it_is(capsys: Capture) -> None:
    """And not that "pods" is what a node with room for nine lacks."""
    message = answer(capsys, DUMPS / "text-host-port-of-a-pod-that-stays.yaml")["refusal"][
        "message"
    ]
    assert "host port 80/TCP allows at most 1 of " in message
    assert "lacks" not in message


def test_a_nominated_pod_that_keeps_the_room_is_named(capsys: Capture) -> None:
    refusal = answer(capsys, DUMPS / "text-nominated-pod-keeps-room.json")["refusal"]
    assert refusal["details"] == [
        "work/p1 (priority 1000) is nominated to n1: kube-scheduler keeps its room there"
    ]


def test_a_host_port_is_not_called_room(capsys: Capture) -> None:
    plan = answer(capsys, DUMPS / "text-host-port-beside-free-room.json", "u")["plan"]
    (line,) = (line for line in plan["explanation"] if "could stay" in line)
    assert line == (
        "cheaper only with a node for 1 more member without that conflict (host port 80/TCP): "
        "pod team/web could stay then"
    )


def test_a_resource_that_no_node_offers_is_named(capsys: Capture) -> None:
    """HAMi's, which its own scheduler counts by pod annotations."""
    refusal = answer(capsys, DUMPS / "text-resource-that-no-node-offers.json", "u")["refusal"]
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
    assert answer(capsys, path)["refusal"]["message"].endswith(
        "1 node: TaintToleration: taint gpu:NoSchedule is not tolerated"
    )


@pytest.mark.parametrize(
    ("what", "gang"), [("ray-head-fits-nowhere", "rc"), ("pytorch-elastic", "pt")]
)
def test_members_that_make_up_for_no_other_part_do_not_count_as_fitting(
    what: str, gang: str, capsys: Capture
) -> None:
    """Two of two fit, it was told, and one of the head was short."""
    message = answer(capsys, DUMPS / f"parts-{what}.json", gang)["refusal"]["message"]
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
    message = answer(capsys, DUMPS / name)["refusal"]["message"]
    told = f"job-0 requires pod {pod} beside it (affinity), and that pod terminates"
    assert message.startswith(f"no solution was found: {told}; 0 of 1 member fits")
