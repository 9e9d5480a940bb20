"""The whole extender behind a socket: bad input is answered, counted, and changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.verbs.conftest import Served

BROKEN: list[tuple[str, Any]] = [
    ("filter", b"{not json"),
    ("filter", b""),
    ("filter", []),
    ("filter", {"NodeNames": ["n0"]}),
    ("filter", {"Pod": None, "NodeNames": ["n0"]}),
    ("filter", {"Pod": {"metadata": {"name": 7}}, "NodeNames": ["n0"]}),
    ("filter", {"Pod": {"metadata": {"name": "x", "uid": "u"}}, "NodeNames": "n0"}),
    ("prioritize", {"Pod": "high-0", "NodeNames": ["n0"]}),
    ("preempt", {"Pod": {"metadata": {"name": "x"}}, "NodeNameToMetaVictims": [1]}),
    ("preempt", b'{"Pod": {"metadata"'),
]


@pytest.mark.parametrize(("verb", "body"), BROKEN)
async def test_malformed_input_is_a_400_that_says_where(
    served: Served, verb: str, body: Any
) -> None:
    status, answer = await served.post(verb, body)
    assert status == 400
    assert answer["error"]
    assert f'bad_input_total{{verb="{verb}"}} 1.0' in await served.metrics()
    assert await served.rig.names() == {"low-0", "low-1", "high-0", "high-1"}


async def test_unknown_verb_and_too_large_a_body(served: Served) -> None:
    status, answer = await served.post("bindd", {})
    assert status == 404
    assert "preempt" in json.dumps(answer)
    status, answer = await served.post("filter", b" " * 70_000)
    assert status == 413
    assert "65536" in json.dumps(answer)


async def test_bad_quantities_in_the_pod_are_named_and_good_ones_read(served: Served) -> None:
    uid = (await served.plain())["metadata"]["uid"]

    def asking(cpu: str) -> dict[str, Any]:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        return {
            "Pod": {
                "metadata": {"name": "p", "namespace": "default", "uid": uid},
                "spec": {"containers": [container]},
            },
            "NodeNames": ["n0"],
        }

    status, answer = await served.post("filter", asking("three"))
    assert status == 400
    assert "three" in json.dumps(answer)
    for fine in ("1e3", "0.5", "1Ki"):
        status, answer = await served.post("filter", asking(fine))
        assert (status, answer["NodeNames"]) == (200, ["n0"])


async def test_empty_and_unknown_nodes(served: Served) -> None:
    pod = await served.document("high-0")
    status, answer = await served.post("filter", {"Pod": pod, "NodeNames": []})
    assert (status, answer["NodeNames"]) == (200, [])
    plain = await served.plain()
    status, answer = await served.post("filter", {"Pod": plain, "NodeNames": ["nowhere"]})
    assert (status, answer["NodeNames"]) == (200, ["nowhere"])


async def test_unknown_uids_and_empty_candidates_answer_nothing(served: Served) -> None:
    plain = await served.plain(cls="high")
    victims = {
        "n0": {"Pods": [{"UID": "gone"}], "NumPDBViolations": 0},
        "n1": {"Pods": [], "NumPDBViolations": 0},
        "nowhere": {"Pods": None},
    }
    status, answer = await served.post("preempt", {"Pod": plain, "NodeNameToMetaVictims": victims})
    assert (status, answer["NodeNameToMetaVictims"]) == (200, {})
    assert await served.rig.names() == {"low-0", "low-1", "high-0", "high-1", "p"}


async def test_lower_case_names_are_understood(served: Served) -> None:
    plain = await served.plain()
    status, answer = await served.post("filter", {"pod": plain, "nodenames": ["n0"]})
    assert (status, answer["NodeNames"]) == (200, ["n0"])


@pytest.mark.parametrize("count", [0, 9])
async def test_a_min_count_that_cannot_be_met_evicts_nothing(served: Served, count: int) -> None:
    rig = served.rig
    storage = rig.server.api
    groups = next(r for r in storage.resources if r.plural == "podgroups" and not r.custom)
    await rig.group("odd", 2, "high")
    obj = storage.get(groups, "default", "odd")
    obj["spec"]["schedulingPolicy"]["gang"]["minCount"] = count
    storage.storage.put(groups.key, obj)
    for i in range(2):
        await rig.pod(f"odd-{i}", cls="high", group="odd")
    await rig.until(
        lambda: any(found.min_count == count for found in rig.cache.snapshot().groups.values()),
        "the group is cached",
    )
    await rig.preempt("odd-0", n0=["low-0"])
    assert rig.outcomes("odd")[-1] == ("conflict" if count == 0 else "incomplete")
    assert {"low-0", "low-1"} <= await rig.names()


async def test_two_dialects_that_disagree_are_a_conflict(served: Served) -> None:
    rig = served.rig
    await rig.group("mine", 1, "high")
    labels = {"scheduling.x-k8s.io/pod-group": "yours"}
    await rig.pod("torn", cls="high", group="mine", labels=labels)
    await rig.preempt("torn", n0=["low-0"])
    assert rig.outcomes("mine")[-1] == "conflict"
    result = await rig.filter("torn", "n0", "n1")
    assert result.node_names == []
    assert "names different groups" in result.failed_and_unresolvable["n0"]
    assert {"low-0", "low-1"} <= await rig.names()
