"""Kueue's own manager beside a control plane, with its definitions and its webhooks.

All of it is Kueue's: the manager is built from the pinned module, and definitions and webhooks are
read from that module's ``config`` folder, as its kustomization puts them together. It makes its own
certificates and tells the API server of them. Two things stand in for a cluster's network and
kubelet: the Service that its webhooks name leads to a loopback port, and this copies the
certificates from their Secret to the folder that a kubelet would mount.
"""

from __future__ import annotations

import base64
import functools
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from extender.sandbox.ports import Ports
from tests.controlplane.build import sources_of
from tests.controlplane.client import ApiError, Client
from tests.controlplane.harness import ControlPlane
from tests.controlplane.objects import make_pod
from tests.controlplane.processes import Process
from tests.install.programs import KUEUE, ensure

Obj = dict[str, Any]
SECONDS = 180.0
API = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"
QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of each pod that Kueue is to manage."""
GATE = "kueue.x-k8s.io/admission"
MANAGED = "kueue.x-k8s.io/managed"
"""Label and finalizer."""
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Definitions whose versions Kueue's webhook converts, of ``crd/kustomization.yaml``."""
MADE = ("Workload", "LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor")
"""Kinds that Kueue lets go of itself, and so before it ends."""


@functools.cache
def _documents(name: str) -> list[Obj]:
    """The documents of a file or a folder in Kueue's ``config/components``."""
    path = sources_of(KUEUE, "sigs.k8s.io/kueue") / "config" / "components" / name
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    # The definitions have forty thousand lines.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for file in files for each in yaml.load_all(file.read_text(), loader) if each]


class KueueController:
    """The manager as a process, for one test's cluster."""

    def __init__(self, folder: Path, control_plane: ControlPlane, client: Client) -> None:
        self._folder = folder
        self._control_plane = control_plane
        self._client = client
        self._ports = Ports()
        self._hooks, self._health = self._ports.reserve(), self._ports.reserve()
        self._process: Process | None = None

    def start(self) -> None:
        """Make its objects, start the manager, give it its certificates, wait for its webhooks."""
        program = ensure(KUEUE)
        client = self._client
        self._folder.mkdir()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        meta = {"namespace": NAMESPACE}
        # That of the test before takes some seconds to go.
        client.wait_gone("Namespace", NAMESPACE, "")
        client.create(namespace)
        client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {**meta, "name": SERVICE},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            }
        )
        client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": SECRET}})
        for document in _documents("crd/bases"):
            client.create(self._definition(document))
        for document in _documents("webhook/manifests.yaml"):
            client.create(self._hook(document))
        client.wait_for(self._served, SECONDS, "Workloads are served")
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._configuration()))
        command = [program, f"--config={config}", "--zap-log-level=2"]
        command += [f"--kubeconfig={self._control_plane.kubeconfig}"]
        log = self._control_plane.layout.log("kueue")
        self._process = Process("kueue", [str(each) for each in command], log)
        self._process.wait_ready(self._mounted, SECONDS)
        self._process.wait_ready(self._ready, SECONDS)
        client.wait_for(self._labels_pods, SECONDS, "Kueue's webhooks are asked")

    def stop(self) -> None:
        """Take away what only Kueue can let go of, then its webhooks, and end the manager."""
        try:
            if self._process is not None and self._process.running:
                self._clear()
        finally:
            for kind in HOOKS:
                for each in self._client.list(kind, ""):
                    self._client.delete(kind, each["metadata"]["name"], "", missing_ok=True)
            if self._process is not None:
                self._process.stop(grace=0)
            self._ports.close()

    def _clear(self) -> None:
        self._client.delete_all("Pod", grace=0)
        for kind in MADE:
            name = f"{API}/{kind}"
            spaces = [self._client.namespace] if kind in ("Workload", "LocalQueue") else [""]
            for space in spaces:
                self._client.delete_all(name, space)
            self._client.wait_for(
                functools.partial(self._none, name), SECONDS, f"no {name} is left"
            )

    def _none(self, kind: str) -> bool:
        return not self._client.list(kind, "")

    def _configuration(self) -> Obj:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "webhook": {"host": "127.0.0.1", "port": self._hooks, "certDir": str(self._folder)},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {
                "enable": True,
                "webhookServiceName": SERVICE,
                "webhookSecretName": SECRET,
            },
            "integrations": {"frameworks": ["pod", "batch/job"]},
            # Its server's port is fixed.
            "featureGates": {"VisibilityOnDemand": False},
        }

    def _where(self, path: str) -> Obj:
        service = {"namespace": NAMESPACE, "name": SERVICE, "path": path, "port": self._hooks}
        return {"service": service}

    def _definition(self, document: Obj) -> Obj:
        """A definition with what crd/patches add to it."""
        if document["spec"]["names"]["plural"] not in CONVERTED:
            return document
        webhook = {
            "clientConfig": self._where("/convert"),
            "conversionReviewVersions": ["v1"],
        }
        conversion = {"strategy": "Webhook", "webhook": webhook}
        return {**document, "spec": {**document["spec"], "conversion": conversion}}

    def _hook(self, document: Obj) -> Obj:
        """A webhook configuration as Kueue's kustomization writes it."""
        elsewhere = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NAMESPACE],
        }
        hooks = []
        for hook in document["webhooks"]:
            made = {**hook, "clientConfig": self._where(hook["clientConfig"]["service"]["path"])}
            if hook["rules"][0]["apiGroups"] != ["kueue.x-k8s.io"]:
                made["namespaceSelector"] = {"matchExpressions": [elsewhere]}
            hooks.append(made)
        meta = {"name": f"kueue-{document['metadata']['name']}"}
        return {**document, "metadata": meta, "webhooks": hooks}

    def _served(self) -> bool:
        try:
            return bool(self._client.resource(f"{API}/Workload"))
        except LookupError:
            return False

    def _mounted(self) -> bool:
        """Copy the certificates, once they are made."""
        data = self._client.get("Secret", SECRET, NAMESPACE).get("data") or {}
        if "tls.crt" not in data:
            return False
        for name in ("ca.crt", "tls.key", "tls.crt"):
            (self._folder / name).write_bytes(base64.b64decode(data[name]))
        return True

    def _ready(self) -> bool:
        url = f"http://127.0.0.1:{self._health}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _labels_pods(self) -> bool:
        """Whether a pod would be gated by Kueue's webhook, and a queue be taken."""
        pod = make_pod("probe", labels={QUEUE: "none"})
        path = self._client.resource("v1/Pod").path(self._client.namespace)
        try:
            made = self._client.request("POST", path, pod, dryRun="All")
        except ApiError:
            return False
        return bool(made["metadata"]["labels"].get(MANAGED) == "true")
