"""The command line of every server of the test bed.

Pure functions from a layout (paths, ports, tokens) to an argument list, so that what a control
plane is started with can be read in one place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.releases import Release

STAGES = Path(__file__).resolve().parent / "stages.yaml"

# The API of these is what the tests use; the rest would only cost start-up time, or (node
# lifecycle, taint eviction, pod garbage collection) act on nodes that have no kubelet.
CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)


def controllers(release: Release) -> tuple[str, ...]:
    """Those that run; a name that kube-controller-manager does not know ends it."""
    return (*CONTROLLERS, "podgroup-protection-controller") if release.pod_groups else CONTROLLERS


AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["delete", "deletecollection"],
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/eviction"]}],
        },
        {"level": "None"},
    ],
}
"""Who removed which pod, and with which preconditions: rare requests, hence cheap to record."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one control plane keeps its files and listens."""

    workdir: Path
    etcd_port: int
    etcd_peer_port: int
    apiserver_port: int
    manager_port: int
    scheduler_port: int
    kwok_port: int

    @property
    def server_url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.apiserver_port}"

    @property
    def certificates(self) -> Path:
        """Where the API server puts the certificate that it signs itself."""
        return self.workdir / "certs"

    @property
    def ca_file(self) -> Path:
        """What clients trust."""
        return self.certificates / "apiserver.crt"

    @property
    def tokens(self) -> Path:
        """The ``--token-auth-file``."""
        return self.workdir / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """The key that signs service account tokens."""
        return self.workdir / "service-account.key"

    @property
    def audit_log(self) -> Path:
        """One JSON document a line for each request that removed a pod."""
        return self.workdir / "logs" / "audit.jsonl"

    @property
    def audit_policy(self) -> Path:
        """What goes into the audit log."""
        return self.workdir / "audit-policy.json"

    def log(self, name: str) -> Path:
        """The log file of a server."""
        return self.workdir / "logs" / f"{name}.log"

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of a user."""
        return self.workdir / f"{name}.kubeconfig"


def write_audit_policy(layout: Layout) -> None:
    """Write the audit policy the API server is started with."""
    layout.audit_policy.write_text(json.dumps(AUDIT_POLICY, indent=2) + "\n")


def gates(names: Sequence[str]) -> list[str]:
    """The ``--feature-gates`` argument that turns gates on; none for no gates."""
    return [f"--feature-gates={','.join(f'{name}=true' for name in names)}"] if names else []


def etcd(program: Path, layout: Layout) -> list[str]:
    """One etcd member that never waits for the disk."""
    client = f"http://127.0.0.1:{layout.etcd_port}"
    peer = f"http://127.0.0.1:{layout.etcd_peer_port}"
    return [
        str(program),
        "--name=test",
        f"--data-dir={layout.workdir / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        "--quota-backend-bytes=4294967296",
    ]


def apiserver(
    program: Path, layout: Layout, release: Release, extra: Sequence[str] = ()
) -> list[str]:
    """kube-apiserver with pod groups switched on; watch cache and all else as by default."""
    return [
        str(program),
        f"--etcd-servers=http://127.0.0.1:{layout.etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # Nobody looks the API server up in the cluster, and a loopback endpoint is refused.
        "--endpoint-reconciler-type=none",
        f"--secure-port={layout.apiserver_port}",
        f"--cert-dir={layout.certificates}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        "--allow-privileged=true",
        # It would taint every new node until the node lifecycle controller, which does not run
        # here, takes the taint away.
        "--disable-admission-plugins=TaintNodesByCondition",
        *([f"--runtime-config={release.runtime_config}"] if release.runtime_config else []),
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",
        *gates(release.apiserver_gates),
        *extra,
    ]


def manager(program: Path, layout: Layout, release: Release) -> list[str]:
    """kube-controller-manager with the few controllers the tests rely on."""
    kubeconfig = layout.kubeconfig("manager")
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.manager_port}",
        "--leader-elect=false",
        f"--controllers={','.join(controllers(release))}",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--concurrent-gc-syncs=20",
        "--concurrent-job-syncs=20",
        "--min-resync-period=1h",
        *gates(release.apiserver_gates),
    ]


def scheduler(program: Path, layout: Layout, config: Path, on: Sequence[str]) -> list[str]:
    """kube-scheduler with the caller's configuration; its pod group gates are off by default."""
    kubeconfig = layout.kubeconfig("scheduler")
    return [
        str(program),
        f"--config={config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.scheduler_port}",
        "--v=3",
        *gates(on),
    ]


def kwok(program: Path, layout: Layout) -> list[str]:
    """kwok with our own stages, for nodes annotated ``kwok.x-k8s.io/node: fake``."""
    return [
        str(program),
        f"--config={STAGES}",
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--cidr=10.64.0.0/10",
        "--node-ip=10.0.0.1",
        # Nobody watches node leases here; a thousand nodes would write a hundred a second.
        "--node-lease-duration-seconds=0",
        f"--server-address=127.0.0.1:{layout.kwok_port}",
    ]
