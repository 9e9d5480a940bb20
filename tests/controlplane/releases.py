"""The Kubernetes releases the test bed knows, and what differs between them.

Everything that depends on the release (module, feature gates, served API version, the spelling
of ``disruptionMode``) is decided here, so that no other file compares version strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Release:
    """One Kubernetes minor: where it is pinned and how pod groups are switched on."""

    minor: str
    """What users write, e.g. ``1.37``."""
    version: str
    """The pinned tag, stamped into the binaries."""
    module: Path
    """The Go module that pins the release."""
    group_api: str = ""
    """apiVersion of PodGroup and Workload, "" where there are none."""
    apiserver_gates: tuple[str, ...] = ()
    """Gates without which kube-apiserver drops pod group fields."""
    wap_gates: tuple[str, ...] = ()
    """Gates that turn the scheduler's own workload-aware preemption on (off by default)."""
    disruption_single: Any = None
    """``disruptionMode``: every member is a victim of its own."""
    disruption_all: Any = None
    """``disruptionMode``: the whole group goes or stays."""
    pod_groups: bool = True
    """Whether scheduling.k8s.io has PodGroups."""

    @property
    def runtime_config(self) -> str:
        """The ``--runtime-config`` that serves the pod group API, "" for none."""
        return f"{self.group_api}=true" if self.group_api else ""


RELEASES: dict[str, Release] = {
    release.minor: release
    for release in (
        Release(
            minor="1.36",
            version="v1.36.3",
            module=HERE / "v1_36",
            group_api="scheduling.k8s.io/v1alpha2",
            apiserver_gates=("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"),
            wap_gates=("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"),
            disruption_single="Pod",
            disruption_all="PodGroup",
        ),
        Release(
            minor="1.37",
            version="v1.37.0",
            module=HERE / "v1_37",
            group_api="scheduling.k8s.io/v1beta1",
            apiserver_gates=("GenericWorkload",),
            wap_gates=("GenericWorkload",),
            disruption_single={"single": {}},
            disruption_all={"all": {}},
        ),
    )
}

"""Those with PodGroups: what is built and tested unless others are named."""

OLDER: dict[str, Release] = {
    release.minor: release
    for release in (
        Release(minor="1.34", version="v1.34.4", module=HERE / "v1_34", pod_groups=False),
        Release(
            minor="1.35",
            version="v1.35.4",
            module=HERE / "v1_35",
            # Workload alone: spec.workloadRef of a pod names a part of one.
            group_api="scheduling.k8s.io/v1alpha1",
            apiserver_gates=("GenericWorkload",),
            pod_groups=False,
        ),
    )
}
"""Supported for single pods and for gangs that labels, CRDs and owners declare; built and tested
when they are named (``--kube``), and by ``./run nightly``."""

KWOK_MODULE = HERE / "kwok"


def release(minor: str) -> Release:
    """Look a release up by its minor; a wrong name says which ones exist."""
    known = OLDER | RELEASES
    try:
        return known[minor]
    except KeyError:
        names = ", ".join(known)
        raise ValueError(f"no Kubernetes release {minor!r} here; known: {names}") from None
