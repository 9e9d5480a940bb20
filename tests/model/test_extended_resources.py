"""Extended resources that a DeviceClass names."""

from __future__ import annotations

import time

from msgspec.structs import replace

from extender.cache.stats import CacheStats
from extender.cache.store import Store
from extender.decode.from_json import decode_group
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
