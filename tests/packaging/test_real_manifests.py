"""The manifests against real API servers and schedulers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from extender.sandbox.ports import Ports
from extender.settings.settings import Settings
from tests.controlplane.client import AGGREGATED, ApiError
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod, make_pod_group
from tests.packaging.manifests import MANIFESTS, NAMESPACE, names, pick, pod_specs, read, rules

pytestmark = pytest.mark.real

ACCOUNTS = ("rbac.yaml", "observe/rbac.yaml")
SERVICE_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:podgroup-extender"


@pytest.fixture
def home(cluster: Cluster) -> str:
    """The extender's namespace and service account, made for real."""
    client = cluster.client
    # A namespace that an earlier test used takes some seconds to go.
    client.wait_for(lambda: client.get_or_none("Namespace", NAMESPACE) is None, what="no namespace")
    client.create(pick("namespace.yaml", "Namespace"))
    for name in ACCOUNTS:
        client.create(pick(name, "ServiceAccount"))
    return NAMESPACE


def try_out(cluster: Cluster, document: dict[str, Any]) -> None:
    """Ask the API server to accept an object, all admission included, without keeping it.

    An unknown or misspelt field is an error, as with ``kubectl apply``.
    """
    client = cluster.client
    resource = client.resource(f"{document['apiVersion']}/{document['kind']}")
    path = resource.path(document["metadata"].get("namespace") or cluster.namespace)
    client.request("POST", path, document, dryRun="All", fieldValidation="Strict")


def test_everything_is_accepted(cluster: Cluster, home: str) -> None:
    """All objects, and the pods they make: the namespace enforces restricted pod security."""
    accounts = [pick(name, "ServiceAccount")["metadata"]["name"] for name in ACCOUNTS]
    there = {("Namespace", home), *(("ServiceAccount", name) for name in accounts)}
    # Krew's manifest is for a machine with kubectl; the examples have a test of their own.
    ours = [name for name in names() if not name.startswith(("examples/", "krew/"))]
    objects = [each for name in ours for each in read(name)]
    assert {each["kind"] for each in objects} >= {"Deployment", "Service", "NetworkPolicy", "Pod"}
    for document in objects:
        if (document["kind"], document["metadata"]["name"]) in there:
            assert cluster.client.get(document["kind"], document["metadata"]["name"], home)
        else:
            try_out(cluster, document)
    for name, spec in pod_specs():
        space = "kube-system" if name.startswith("static-pod/") else home
        metadata = {"name": "x", "namespace": space}
        try_out(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_namespace_refuses_a_pod_that_is_not_locked_down(cluster: Cluster, home: str) -> None:
    with pytest.raises(ApiError, match="violates PodSecurity") as refused:
        try_out(cluster, make_pod("loose", namespace=home))
    assert refused.value.status == 403


def test_example_is_accepted_and_nothing_is_dropped(cluster: Cluster) -> None:
    cluster.priority_classes(low=1, high=100000)
    path = MANIFESTS / "examples" / f"jobset-{cluster.release.minor}.yaml"
    for document in yaml.safe_load_all(path.read_text()):
        try_out(cluster, document)
        made = cluster.client.create(document)
        if document["kind"] == "PodGroup":
            assert made["spec"]["disruptionMode"] == cluster.release.disruption_all
            assert made["spec"]["priority"] in (1, 100000)
        else:
            kept = made["spec"]["template"]["spec"]
            assert (
                kept["schedulingGroup"] == document["spec"]["template"]["spec"]["schedulingGroup"]
            )


# Rights ----------------------------------------------------------------------------------------

CLUSTER_RULES = rules("rbac.yaml", "ClusterRole", "podgroup-extender")
OWN_RULES = rules("rbac.yaml", "Role", "podgroup-extender")

LEASE = Settings().leadership.name

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
SUBRESOURCES = ("pods/status", "pods/eviction", "pods/binding", "pods/exec", "pods/log")


@pytest.fixture
def bound(cluster: Cluster, home: str) -> Cluster:
    """rbac.yaml applied."""
    for document in read("rbac.yaml"):
        if document["kind"] != "ServiceAccount":
            cluster.client.create(document)
    return cluster


def allowed(
    cluster: Cluster,
    user: str,
    right: tuple[str, str, str],
    namespace: str = "",
    called: str = "",
) -> bool:
    """Ask the API server whether a user may do something."""
    verb, group, resource = right
    name, _, subresource = resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": name,
                "subresource": subresource,
                "namespace": namespace,
                "name": called,
            },
        },
    }
    answer = cluster.client.create(review, "")
    return bool(answer["status"]["allowed"])


def test_rights_are_granted_and_no_more(bound: Cluster) -> None:
    """Every verb on every served resource is asked for: only the written ones are allowed."""
    client = bound.client
    for user in (SERVICE_ACCOUNT, "podgroup-extender"):
        client.wait_for(
            functools.partial(allowed, bound, user, ("list", "", "configmaps"), NAMESPACE),
            what="roles known",
        )
        for right in CLUSTER_RULES:
            assert allowed(bound, user, right, bound.namespace), right
        for right in OWN_RULES:
            assert allowed(bound, user, right, NAMESPACE, LEASE), right
        # Of leases only one, save to create it.
        for verb in ("get", "watch", "update"):
            right = (verb, "coordination.k8s.io", "leases")
            assert not allowed(bound, user, right, NAMESPACE, "another")
            assert not allowed(bound, user, right, "kube-system", LEASE)
    resources = [("", each) for each in SUBRESOURCES]
    for root in ("/api", "/apis"):
        for group in client.request("GET", root, accept=AGGREGATED)["items"]:
            for version in group["versions"][:1]:
                resources += [
                    (group["metadata"].get("name", ""), each["resource"])
                    for each in version["resources"]
                ]
    reviews = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
    for group_name, resource in resources:
        if resource in reviews:
            continue  # Everybody may ask about himself.
        for verb in VERBS:
            right = (verb, group_name, resource)
            assert allowed(bound, SERVICE_ACCOUNT, right, bound.namespace) == (
                right in CLUSTER_RULES
            ), right


# Starting without itself -----------------------------------------------------------------------


def scheduler_document(name: str, port: int) -> dict[str, Any]:
    """A configuration of manifests/ for the test bed, with every extender at a dead port."""
    (document,) = read(name)
    document = copy.deepcopy(document)
    document.pop("clientConnection", None)
    document["leaderElection"] = {"leaderElect": False}
    document["profiles"][0]["schedulerName"] = "default-scheduler"
    for entry in document["extenders"]:
        entry["urlPrefix"] = f"http://127.0.0.1:{port}"
        entry.pop("tlsConfig", None)  # Its files lie on a control plane node.
    return document


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port where nobody listens, and nobody will."""
    ports = Ports()
    yield ports.reserve()
    ports.close()


def crowd(cluster: Cluster) -> None:
    """One node with a low pod on it and room for a small one."""
    cluster.priority_classes(low=1, high=100000)
    cluster.nodes(1, cpu=4)
    cluster.control_plane.restart_scheduler(
        {**cluster.control_plane.scheduler_document, "extenders": []}
    )
    cluster.client.create(make_pod("low", cpu=3, priority_class="low"))
    cluster.client.wait_running("low")


def failed_to_schedule(cluster: Cluster, pod: str) -> bool:
    """Whether kube-scheduler has tried the pod and said so."""
    found = cluster.client.get("Pod", pod)
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False"
        for each in found["status"].get("conditions", [])
    )


def test_split_configuration_places_what_fits_and_evicts_nobody(
    cluster: Cluster, dead_port: int
) -> None:
    crowd(cluster)
    cluster.use_scheduler(scheduler_document("kube-scheduler-config-split.yaml", dead_port))
    cluster.client.create_all(
        make_pod("urgent", cpu=3, priority_class="high"), make_pod("fits", cpu=1)
    )
    cluster.client.wait_running("fits")
    cluster.client.wait_for(lambda: failed_to_schedule(cluster, "urgent"), what="urgent tried")
    assert cluster.client.get("Pod", "low")["status"]["phase"] == "Running"
    removed = [each["objectRef"] for each in cluster.control_plane.removals()]
    assert [each["name"] for each in removed if each["namespace"] == cluster.namespace] == []


def test_closed_configuration_places_nothing_at_all(cluster: Cluster, dead_port: int) -> None:
    """Why the extender's own pod must not be placed by a scheduler that fails closed."""
    crowd(cluster)
    cluster.use_scheduler(scheduler_document("kube-scheduler-config.yaml", dead_port))
    cluster.client.create_all(
        make_pod("urgent", cpu=3, priority_class="high"), make_pod("fits", cpu=1)
    )
    for pod in ("urgent", "fits"):
        cluster.client.wait_for(functools.partial(failed_to_schedule, cluster, pod), what=pod)
    assert not cluster.client.get("Pod", "fits")["spec"].get("nodeName")
    assert cluster.client.get("Pod", "low")["status"]["phase"] == "Running"


def test_the_example_lets_one_namespace_use_the_high_class(cluster: Cluster) -> None:
    client, space = cluster.client, cluster.namespace
    cluster.priority_classes(low=1, high=100000)
    path = MANIFESTS / "examples" / "high-priority.yaml"
    quota, *policy = yaml.safe_load_all(path.read_text())

    def pod(cls: str) -> dict[str, Any]:
        return make_pod(f"of-{cls}", namespace=space, priority_class=cls)

    try_out(cluster, pod("high"))
    for document in policy:
        client.create(document)
    try:

        def refused() -> bool:
            try:
                try_out(cluster, pod("high"))
            except ApiError as error:
                return "may use class high" in str(error)
            return False

        client.wait_for(refused, what="the policy to be in force")
        with pytest.raises(ApiError, match="may use class high"):
            try_out(cluster, make_pod_group(cluster.release, "g", 2, priority_class="high"))
        try_out(cluster, pod("low"))
        labels = {"metadata": {"labels": {"podgroup-extender.io/high-priority": "allowed"}}}
        client.patch("Namespace", space, labels)
        client.wait_for(lambda: not refused(), what="the namespace to be let in")
        try_out(cluster, quota)
    finally:
        for document in policy:
            client.delete(document["kind"], document["metadata"]["name"])
