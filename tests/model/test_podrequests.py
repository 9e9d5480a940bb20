"""What a pod asks for; examples follow the sources named in extender.decode.pod_requests."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.decode.from_json import decode_group, decode_pod
from extender.model.errors import InvalidInput
from extender.model.extended_resources import (
    NOT_COUNTED,
    asked_of_devices,
    counted,
    named_by,
    of_node,
    of_pod,
)
from extender.model.objects import GroupObject, Node, Pod
from extender.model.owner_kinds import DEVICE_CLASS_SOURCE


def requests(spec: dict[str, Any], **status: Any) -> dict[str, int]:
    pod = decode_pod({"metadata": {"name": "p"}, "spec": spec, "status": status})
    found = dict(pod.requests)
    assert found.pop("pods") == 1
    assert list(pod.requests) == sorted(pod.requests)
    return found


def container(cpu: str | None = None, name: str = "c", **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, **fields}
    if cpu is not None:
        made["resources"] = {"requests": {"cpu": cpu}}
    return made


def test_containers_add_up() -> None:
    assert requests({"containers": [container("1"), container("500m"), container()]}) == {
        "cpu": 1500
    }


def test_the_largest_is_taken_per_resource() -> None:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        "initContainers": [
            {"name": "i", "resources": {"requests": {"cpu": "1", "memory": "2Gi", "x.io/g": 1}}}
        ],
    }
    assert requests(spec) == {"cpu": 2000, "memory": 2 << 30, "x.io/g": 1}


def test_overhead_is_added_last() -> None:
    spec = {
        "containers": [container("1")],
        "initContainers": [container("3")],
        "overhead": {"cpu": "250m", "memory": "120Mi"},
    }
    assert requests(spec) == {"cpu": 3250, "memory": 120 << 20}


def test_requests_default_to_limits() -> None:
    resources = {"limits": {"cpu": "2", "x.io/gpu": "4"}, "requests": {"cpu": "1"}}
    assert requests({"containers": [{"name": "c", "resources": resources}]}) == {
        "cpu": 1000,
        "x.io/gpu": 4,
    }


def test_a_request_of_zero_is_none_at_all() -> None:
    resources = {"limits": {"cpu": "2"}, "requests": {"cpu": "0", "memory": 0}}
    assert requests({"containers": [{"name": "c", "resources": resources}]}) == {}


def test_the_whole_pod_s_requests_replace_the_containers() -> None:
    spec = {
        "containers": [container("1"), container("1")],
        "resources": {"requests": {"cpu": "5", "x.io/gpu": "9"}},
        "overhead": {"cpu": "1"},
    }
    assert requests(spec) == {"cpu": 6000}, "only cpu, memory and huge pages have a pod level"
    spec["resources"] = {"requests": {"hugepages-2Mi": "4Mi"}}
    assert requests(spec) == {"cpu": 3000, "hugepages-2Mi": 4 << 20}


def test_the_whole_pod_s_limit_stands_in_for_what_no_container_asks() -> None:
    spec: dict[str, Any] = {"resources": {"limits": {"cpu": "5", "memory": "1Gi"}}}
    spec["containers"] = [container("1")]
    assert requests(spec) == {"cpu": 1000, "memory": 1 << 30}


def resized(
    asked: str, allocated: str, actual: str, *conditions: dict[str, str], **more: Any
) -> dict[str, int]:
    report = {
        "name": "c",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": actual}},
    }
    return requests(
        {"nodeName": "n", "containers": [container(asked)], **more},
        containerStatuses=[report],
        conditions=list(conditions),
    )


@pytest.mark.parametrize(
    ("asked", "allocated", "actual"), [("3", "1", "1"), ("1", "3", "2"), ("1", "2", "3")]
)
def test_a_resize_counts_with_the_largest(asked: str, allocated: str, actual: str) -> None:
    assert resized(asked, allocated, actual) == {"cpu": 3000}


def test_a_resize_that_can_never_be_granted_does_not_count() -> None:
    never = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    later = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    assert resized("9", "2", "1", never) == {"cpu": 2000}
    assert resized("9", "2", "1", later) == {"cpu": 9000}


def test_a_status_of_another_container_says_nothing() -> None:
    report = {"name": "other", "allocatedResources": {"cpu": "8"}}
    spec = {"containers": [container("1")]}
    assert requests(spec, containerStatuses=[report]) == {"cpu": 1000}


def test_a_sidecar_s_status_counts_too() -> None:
    spec = {
        "containers": [container("1")],
        "initContainers": [container("1", "side", restartPolicy="Always")],
    }
    report = {"name": "side", "allocatedResources": {"cpu": "4"}}
    assert requests(spec, initContainerStatuses=[report]) == {"cpu": 5000}


def test_a_resize_of_the_whole_pod() -> None:
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "4"}}}
    assert requests(spec, **status) == {"cpu": 4000}
    never = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    spec["resources"] = {"requests": {"cpu": "9"}}
    assert requests(spec, **status, conditions=[never]) == {"cpu": 4000}


@pytest.mark.parametrize(
    ("text", "milli"), [("1e3", 1_000_000), ("0.5", 500), ("1Ki", 1_024_000), ("1n", 1), (2, 2000)]
)
def test_odd_but_valid_quantities(text: Any, milli: int) -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": text}}}]}
    assert requests(spec) == {"cpu": milli}


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        (
            {"containers": [container(), container("1x")]},
            "spec.containers[1].resources.requests.cpu: quantity '1x'",
        ),
        ({"containers": [container("-1")]}, "spec.containers[0].resources.requests.cpu"),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": ""}}}]},
            "spec.containers[0].resources.limits.cpu",
        ),
        (
            {"containers": [], "initContainers": [container("much")]},
            "spec.initContainers[0].resources.requests.cpu",
        ),
        (
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": True}}}]},
            "spec.containers[0].resources",
        ),
        ({"containers": [{"name": "c", "resources": []}]}, "spec.containers[0].resources"),
        ({"overhead": {"cpu": "x"}}, "spec.overhead.cpu"),
        ({"overhead": "x"}, "spec.overhead"),
        ({"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu"),
        ({"resources": 5}, "spec.resources"),
    ],
)
def test_malformed_amounts_are_named(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode_pod({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})
    assert str(caught.value).startswith(f"Pod ns/p: {where}")


def test_a_malformed_status_is_named() -> None:
    report = {"name": "c", "allocatedResources": {"cpu": "x"}}
    with pytest.raises(InvalidInput, match=r"status\.containerStatuses\[0\]\.allocatedResources"):
        requests({"containers": [container("1")]}, containerStatuses=[report])


@given(
    st.lists(st.integers(0, 4000), max_size=4),
    st.lists(st.tuples(st.integers(0, 4000), st.booleans()), max_size=4),
)
def test_the_sum_equals_the_time_line(containers: list[int], inits: list[tuple[int, bool]]) -> None:
    """Play the start of the pod step by step and take the peak."""
    spec = {
        "containers": [container(f"{cpu}m") for cpu in containers],
        "initContainers": [
            container(f"{cpu}m", **({"restartPolicy": "Always"} if stays else {}))
            for cpu, stays in inits
        ],
    }
    running = peak = 0
    for cpu, stays in inits:
        peak = max(peak, running + cpu)
        running += cpu if stays else 0
    peak = max(peak, running + sum(containers))
    assert requests(spec).get("cpu", 0) == peak


GPU = "example.com/gpu"
NAMES = frozenset((GPU,))
ASKING = Pod(uid="p", namespace="default", name="p", requests=(("cpu", 1000), (GPU, 8)))
PLAIN = Node(name="plain", allocatable=(("cpu", 4000),))
PLUGIN = Node(name="plugin", allocatable=(("cpu", 4000), (GPU, 8)))


def test_a_device_class_is_read() -> None:
    record = decode_group(
        DEVICE_CLASS_SOURCE,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu", "uid": "u", "resourceVersion": "1"},
            "spec": {"extendedResourceName": GPU},
        },
    )
    assert named_by([record]) == NAMES


def test_the_cache_follows_device_classes() -> None:
    store = Store(lambda pod: None, time.time, CacheStats())
    store.nodes.put(PLAIN)
    store.pods.put(ASKING)
    gpus = GroupObject(DEVICE_CLASS_SOURCE, "u", "", "gpu", of=GPU)
    store.groups[DEVICE_CLASS_SOURCE].put(gpus)
    after = store.snapshot()
    assert dict(after.nodes["plain"].allocatable)[GPU] == NOT_COUNTED
    assert after.pending["p"].shape.devices
    late = Node(name="late", uid="late", allocatable=PLAIN.allocatable)
    store.nodes.put(late)
    store.pods.put(replace(ASKING, uid="q", name="q"))
    store.groups[DEVICE_CLASS_SOURCE].remove(gpus)
    end = store.snapshot()
    assert end.nodes == {"plain": PLAIN, "late": late}
    assert [pod.shape.devices for pod in end.pending.values()] == [(), ()]


def test_a_node_without_the_resource_offers_an_amount_that_is_not_counted() -> None:
    node = of_node(PLAIN, NAMES)
    assert dict(node.allocatable)[GPU] == NOT_COUNTED
    assert counted(node.allocatable) == PLAIN.allocatable
    assert of_node(node, frozenset()) == PLAIN


def test_a_node_with_a_device_plugin_stays_as_it_is() -> None:
    assert of_node(PLUGIN, NAMES) is PLUGIN


def test_a_pod_that_asks_for_it_needs_the_word_of_kube_scheduler_until_the_class_goes() -> None:
    pod = of_pod(ASKING, NAMES)
    assert pod.shape.devices == (f"extendedResource {GPU} 8",)
    assert of_pod(pod, NAMES) is pod
    assert of_pod(pod, frozenset()) == ASKING
    assert asked_of_devices(pod.shape.devices, of_node(PLAIN, NAMES))
    assert not asked_of_devices(pod.shape.devices, PLUGIN)


def test_a_pod_that_asks_for_something_else_stays_as_it_is() -> None:
    other = Pod(uid="o", namespace="default", name="o", requests=(("cpu", 1000),))
    assert of_pod(other, NAMES) is other
