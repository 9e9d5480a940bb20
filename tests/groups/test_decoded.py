"""PodGroups and pods as the API server sends them, through decoding to the gang."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extender.decode.from_json import decode_group, decode_pod
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.objects import GangKey
from extender.settings.settings import GroupSettings
from tests.groups.build import snapshot

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


def resolved(spec: dict[str, Any], version: str = "v1beta1", pods: int = 3) -> Gang:
    group = decode_group(
        "core",
        json.dumps(
            {
                "apiVersion": f"scheduling.k8s.io/{version}",
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "ns", "uid": "u"},
                "spec": spec,
            }
        ).encode(),
    )
    members = [
        decode_pod(
            {
                "metadata": {"name": f"p{i}", "namespace": "ns", "uid": f"u{i}"},
                "spec": {"schedulingGroup": {"podGroupName": "g"}, "priority": 5},
            }
        )
        for i in range(pods)
    ]
    state = snapshot(members, [group])
    return Resolver(GroupSettings()).resolve(GangKey("pod-group", "ns", "g"), state)


@pytest.mark.parametrize(
    ("version", "mode", "unit"),
    [
        ("v1alpha2", "PodGroup", UNIT_ALL),
        ("v1alpha2", "Pod", UNIT_SINGLE),
        ("v1alpha2", None, UNIT_SINGLE),
        ("v1alpha3", {"all": {}}, UNIT_ALL),
        ("v1alpha3", {"single": {}}, UNIT_SINGLE),
        ("v1beta1", {"all": {}}, UNIT_ALL),
        ("v1beta1", {"single": {}}, UNIT_SINGLE),
        ("v1beta1", None, UNIT_SINGLE),
    ],
)
@pytest.mark.parametrize("policy", [GANG, BASIC], ids=["gang", "basic"])
def test_disruption_mode_in_every_spelling(
    policy: dict[str, Any], version: str, mode: Any, unit: str
) -> None:
    gang = resolved(policy | {"disruptionMode": mode}, version)
    assert gang.unit == unit
    assert not gang.problems
    assert gang.starts_whole is (policy is GANG)
    assert gang.min_count == (3 if policy is GANG else 1)


def test_priority_and_policy_of_the_group() -> None:
    gang = resolved(GANG | {"priority": 90, "preemptionPolicy": "Never"})
    assert (gang.preemptor_priority, gang.victim_priority, gang.preempts) == (90, 90, False)


def test_min_count_zero_is_a_problem() -> None:
    gang = resolved({"schedulingPolicy": {"gang": {"minCount": 0}}})
    assert len(gang.problems) == 1


def test_completion_index_survives_decoding() -> None:
    pod = decode_pod(
        {
            "metadata": {
                "name": "train-0-x",
                "namespace": "ns",
                "uid": "u",
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "ownerReferences": [
                    {"kind": "Job", "name": "train", "uid": "j", "controller": True}
                ],
            },
            "spec": {},
        }
    )
    key = Resolver(GroupSettings()).member_key(pod)
    assert key == GangKey("indexed-job", "ns", "train")


def test_crd_group_by_label() -> None:
    group = decode_group(
        "scheduling-plugins",
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "ns", "uid": "u"},
            "spec": {"minMember": 2, "scheduleTimeoutSeconds": 10},
        },
    )
    pod = decode_pod(
        {
            "metadata": {
                "name": "a",
                "namespace": "ns",
                "uid": "u",
                "labels": {"scheduling.x-k8s.io/pod-group": "g"},
            },
            "spec": {},
        }
    )
    (gang,) = Resolver(GroupSettings()).resolve_all(snapshot([pod], [group]))
    assert (gang.min_count, gang.complete, gang.problems) == (2, False, ())
