"""Whatever kube-scheduler asks, observe mode answers what it would have had without us."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from extender.model.objects import Pod
from extender.observe.observe_verbs import ObserveVerbs
from extender.wire.bind_json import BindArgs
from extender.wire.filter_json import (
    decode_filter_args,
    encode_filter_result,
    encode_priorities,
)
from extender.wire.preempt_json import NodeVictims, decode_preempt_args, encode_preempt_result

NAMES = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=20)
UIDS = st.text(alphabet="0123456789abcdef-", min_size=1, max_size=36)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": NAMES, "namespace": NAMES, "uid": UIDS},
            optional={
                "labels": st.dictionaries(
                    st.sampled_from(("a", "scheduling.x-k8s.io/pod-group", "skypilot-cluster")),
                    NAMES,
                )
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(-(2**31), 2**31 - 1),
                "schedulingGroup": st.fixed_dictionaries({"podGroupName": NAMES}),
                "nodeName": NAMES,
            },
        ),
        "status": st.fixed_dictionaries({}, optional={"nominatedNodeName": NAMES}),
    }
)


class Deaf:
    """Hears nothing, or breaks down at each question."""

    def __init__(self, *, breaks: bool) -> None:
        self._breaks = breaks

    def offered(self, told: Pod, nodes: Iterable[str]) -> None:
        if self._breaks:
            raise RuntimeError("a defect of the observer")

    def preempting(self, told: Pod, candidates: dict[str, NodeVictims]) -> None:
        if self._breaks:
            raise RuntimeError("a defect of the observer")


async def _run(verb: str, body: bytes, *, breaks: bool) -> Any:
    verbs = ObserveVerbs(Deaf(breaks=breaks))
    if verb == "preempt":
        return json.loads(encode_preempt_result(await verbs.preempt(decode_preempt_args(body))))
    args = decode_filter_args(body)
    if verb == "filter":
        return json.loads(encode_filter_result(await verbs.filter(args), args))
    return json.loads(encode_priorities(await verbs.prioritize(args)))


def _answer(verb: str, question: dict[str, Any], *, breaks: bool) -> Any:
    """The answer, which must be there without waiting for anything."""
    running = _run(verb, json.dumps(question).encode(), breaks=breaks)
    with capture_logs(), pytest.raises(StopIteration) as answered:
        running.send(None)
    return answered.value.value


@settings(deadline=None)
@given(pod=PODS, names=st.lists(NAMES, unique=True, max_size=8), breaks=st.booleans())
def test_filter_passes_every_name_on_in_its_order(
    pod: dict[str, Any], names: list[str], *, breaks: bool
) -> None:
    question = {"Pod": pod, "Nodes": None, "NodeNames": names}
    assert _answer("filter", question, breaks=breaks) == {
        "Nodes": None,
        "NodeNames": names,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert _answer("prioritize", question, breaks=breaks) == []


@settings(deadline=None)
@given(pod=PODS, names=st.lists(NAMES, unique=True, max_size=4), breaks=st.booleans())
def test_filter_passes_whole_nodes_on_as_they_came(
    pod: dict[str, Any], names: list[str], *, breaks: bool
) -> None:
    items = [{"metadata": {"name": name}, "spec": {"x": name}} for name in names]
    answer = _answer(
        "filter", {"Pod": pod, "Nodes": {"items": items}, "NodeNames": None}, breaks=breaks
    )
    assert answer["Nodes"]["items"] == items
    assert not answer["FailedNodes"]
    assert not answer["FailedAndUnresolvableNodes"]
    assert not answer["Error"]


@settings(deadline=None)
@given(
    pod=PODS,
    candidates=st.dictionaries(
        NAMES, st.tuples(st.lists(UIDS, max_size=4), st.integers(0, 9)), max_size=5
    ),
    breaks=st.booleans(),
)
def test_preempt_passes_every_candidate_on(
    pod: dict[str, Any], candidates: dict[str, tuple[list[str], int]], *, breaks: bool
) -> None:
    meta = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in candidates.items()
    }
    question = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
    assert _answer("preempt", question, breaks=breaks) == {"NodeNameToMetaVictims": meta}


async def test_bind_binds_nothing() -> None:
    async def gone() -> None:
        raise AssertionError("nothing is held, so nobody is waited for")

    result = await ObserveVerbs(Deaf(breaks=False)).bind(BindArgs("p", "ns", "u", "n"), gone)
    assert "bindVerb" in result.error
