"""What the extender may do on a test bed: the rules that manifests/rbac.yaml grants, no others."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.controlplane.client import Client
from tests.controlplane.credentials import EXTENDER_USER

RBAC = Path(__file__).parents[2] / "manifests" / "rbac.yaml"
BARRIER = RBAC.parent / "barrier" / "rbac.yaml"
OBSERVE = RBAC.parent / "observe" / "rbac.yaml"
OTHERS = RBAC.parent / "rbac-other-groups.yaml"
GROUP = "rbac.authorization.k8s.io"


def grant_manifest(
    client: Client, *, barrier: bool = False, observe: bool = False, others: bool = False
) -> None:
    """Make the manifest's roles and bind them to the user ``extender``; the barrier's too.

    ``observe``: those of observe mode instead, which only read. ``others``: what other systems'
    objects say may be read too.

    Its Role, which is about plan records, goes to the client's namespace.
    """
    user = {"kind": "User", "name": EXTENDER_USER, "apiGroup": GROUP}
    files = (RBAC, BARRIER) if barrier else (OBSERVE,) if observe else (RBAC,)
    files = (*files, OTHERS) if others else files
    for document in (each for path in files for each in yaml.safe_load_all(path.read_text())):
        kind = document["kind"]
        if kind not in ("ClusterRole", "Role"):
            continue
        meta = {"name": document["metadata"]["name"]}
        if kind == "Role":
            meta["namespace"] = client.namespace
        client.create({**document, "metadata": meta})
        client.create(
            {
                "apiVersion": document["apiVersion"],
                "kind": f"{kind}Binding",
                "metadata": meta,
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": meta["name"]},
                "subjects": [user],
            }
        )
