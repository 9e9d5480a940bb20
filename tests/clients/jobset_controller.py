"""JobSet's own controller beside a control plane, with its definition and its webhooks.

All of it is JobSet's: the manager is built from the pinned module, and the definition and the
webhooks are read from that module's ``config`` folder. Only where the webhooks are is ours: on a
loopback port, with a certificate of ours, as there is no network for the Service that they name.
"""

from __future__ import annotations

import base64
import functools
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import trustme
import yaml

from extender.sandbox.ports import Ports
from tests.controlplane.build import sources_of
from tests.controlplane.client import ApiError, Client
from tests.controlplane.harness import ControlPlane
from tests.controlplane.objects import make_pod
from tests.controlplane.processes import Process
from tests.install.programs import JOBSET, ensure

Obj = dict[str, Any]
SECONDS = 120.0
NAME = "jobset.sigs.k8s.io/jobset-name"
"""Label and annotation of each pod: the JobSet's name."""
PRIORITY = "jobset.sigs.k8s.io/priority"
"""Label that the webhook gives each pod."""
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@functools.cache
def _config(name: str) -> list[Obj]:
    """The documents of a file in JobSet's ``config/components``."""
    path = sources_of(JOBSET, "sigs.k8s.io/jobset") / "config" / "components" / name
    # The definition has ten thousand lines.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(path.read_text(), loader) if each]


class JobSetController:
    """The manager as a process, for one test's cluster."""

    def __init__(self, folder: Path, control_plane: ControlPlane, client: Client) -> None:
        self._folder = folder
        self._control_plane = control_plane
        self._client = client
        self._ports = Ports()
        self._hooks, self._health = self._ports.reserve(), self._ports.reserve()
        self._process: Process | None = None

    def start(self) -> None:
        """Make the definition, start the manager, then let its webhooks be asked."""
        program = ensure(JOBSET)
        (definition,) = _config("crd/bases/jobset.x-k8s.io_jobsets.yaml")
        self._client.create(definition)
        self._client.wait_for(self._served, SECONDS, "JobSets are served")
        authority = trustme.CA()
        self._folder.mkdir()
        certificate = authority.issue_cert("127.0.0.1")
        certificate.private_key_pem.write_to_path(self._folder / "tls.key")
        for blob in certificate.cert_chain_pems:
            blob.write_to_path(self._folder / "tls.crt", append=True)
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._configuration()))
        command = [program, f"--config={config}", "--zap-log-level=2"]
        command += [f"--kubeconfig={self._control_plane.kubeconfig}"]
        log = self._control_plane.layout.log("jobset")
        self._process = Process("jobset", [str(each) for each in command], log)
        self._process.wait_ready(self._ready, SECONDS)
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        for document in _config("webhook/manifests.yaml"):
            self._client.create(self._hook(document, bundle))
        self._client.wait_for(self._labels_pods, SECONDS, "JobSet's webhooks are asked")

    def stop(self) -> None:
        """Take the webhooks away, without which no pod can be made, and end the manager."""
        for kind in HOOKS:
            for each in self._client.list(kind, ""):
                self._client.delete(kind, each["metadata"]["name"], "", missing_ok=True)
        self._client.wait_for(lambda: not self._labels_pods(), SECONDS, "no webhook is asked")
        if self._process is not None:
            self._process.stop(grace=0)
        self._ports.close()

    def _configuration(self) -> Obj:
        return {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "webhook": {"host": "127.0.0.1", "port": self._hooks, "certDir": str(self._folder)},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "leaderElection": {"leaderElect": False},
            # It would make certificates for the name of a Service.
            "internalCertManagement": {"enable": False},
        }

    def _hook(self, document: Obj, bundle: str) -> Obj:
        """A webhook configuration as JobSet ships it, but for where it is."""
        hooks = []
        for hook in document["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            url = f"https://127.0.0.1:{self._hooks}{path}"
            hooks.append({**hook, "clientConfig": {"url": url, "caBundle": bundle}})
        meta = {"name": f"jobset-{document['metadata']['name']}"}
        return {**document, "metadata": meta, "webhooks": hooks}

    def _served(self) -> bool:
        try:
            self._client.list("jobset.x-k8s.io/v1alpha2/JobSet", "")
        except (ApiError, LookupError):
            return False
        return True

    def _ready(self) -> bool:
        url = f"http://127.0.0.1:{self._health}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _labels_pods(self) -> bool:
        """Whether a pod would be given the label that JobSet's webhook gives."""
        pod = make_pod("probe", labels={NAME: "none"}, annotations={NAME: "none"})
        path = self._client.resource("v1/Pod").path(self._client.namespace)
        try:
            made = self._client.request("POST", path, pod, dryRun="All")
        except ApiError:
            return False
        return PRIORITY in made["metadata"]["labels"]
