"""Command lines, kube-scheduler's and the extender's, that undo what the files say."""

from __future__ import annotations

from typing import Any

from tests.cli.installations import SECOND, STATIC
from tests.cli.unsafe_changes import (
    EVERY,
    case,
    more_flags,
    more_words,
    on_container,
    on_pod,
    on_scheduler_config,
    own_lease_left_out,
)

BESIDE = (SECOND, STATIC)
"""Where the manifest has kube-scheduler's command line."""


def flag_cases(rule: str, *lines: str, ways: tuple[str, ...] = BESIDE) -> list[Any]:
    """Each line, split into words, is an unsafe addition to kube-scheduler's command line."""
    return [each for line in lines for each in case(line, ways, more_flags(*line.split()), rule)]


FLAGS = [
    *flag_cases(
        "error flag-elect",
        "--leader-elect=false",
        "--leader-elect=0",
        "--leader_elect=false",
        "--leader-elect=true --leader-elect=F",
        "--leader-elect=$(ELECT)",
        ways=(SECOND,),
    ),
    *flag_cases("warning flag-elect", "--leader-elect=false", ways=(STATIC,)),
    *case(
        "no election in the file",
        (SECOND,),
        on_scheduler_config(leaderElection={"leaderElect": False}),
        "error flag-elect",
    ),
    *flag_cases(
        "error flag-lease",
        "--leader-elect-resource-namespace=kube-system --leader-elect-resource-name=kube-scheduler",
        ways=(SECOND,),
    ),
    *case("the cluster's lease", (SECOND,), own_lease_left_out, "error flag-lease"),
    *flag_cases(
        "error flag-open-paths",
        "--authorization-always-allow-paths=/*",
        "--authorization-always-allow-paths=*",
        "--authorization-always-allow-paths=/healthz,/debug/*",
        "--authorization-always-allow-paths=/configz",
        "--authorization_always_allow_paths /livez,/flagz",
        "--authorization-always-allow-paths=/healthz --authorization-always-allow-paths=/metrics*",
    ),
    *flag_cases("warning flag-open-paths", "--authorization-always-allow-paths=/healthz,/metrics"),
    *flag_cases(
        "error flag-proxy",
        "--requestheader-client-ca-file=/ca.crt",
        "--requestheader-client-ca-file=/ca.crt --requestheader-allowed-names=",
    ),
    *flag_cases(
        "warning flag-kept",
        "--authentication-token-webhook-cache-ttl=24h",
        "--authorization-webhook-cache-authorized-ttl=1h",
        "--authorization-webhook-cache-authorized-ttl=forever",
    ),
    *flag_cases("error flag-probe", "--secure-port=0", "--secure-port=10260", "--secure-port=x"),
    *flag_cases("error flag-probe", "--bind-address=127.0.0.1", ways=(SECOND,)),
    *flag_cases(
        "warning flag-bind", "--bind-address=0.0.0.0", "--bind-address=10.0.0.1", ways=(STATIC,)
    ),
    *case("on the node's addresses", (SECOND,), on_pod(hostNetwork=True), "warning flag-bind"),
    *flag_cases(
        "warning flag-tls",
        "--tls-min-version=VersionTLS10",
        "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA",
    ),
    *flag_cases("error flag-master", "--master=http://10.0.0.1:8080", "--master=https://api"),
    *flag_cases("error flag-ends", "--write-config-to=/tmp/x", "--version", "--help"),
    *flag_cases(
        "error flag-config",
        "--config=/tmp/mine.yaml",
        "--config=/etc/../etc/kubernetes/mine.yaml",
        "--config=/etc/kubernetes/scheduler/../mine.yaml",
    ),
    *flag_cases(
        "warning flag-config",
        "--config=/etc/kubernetes/scheduler/mine.yaml",
        ways=(SECOND,),
    ),
    *flag_cases("warning flag-config", "--config=/etc/podgroup-extender/mine.yaml", ways=(STATIC,)),
    *flag_cases("error config-flag", "--config="),
    *flag_cases(
        "warning flag-unknown", "--authorization-mode=AlwaysAllow", "--insecure-port=10251"
    ),
    *flag_cases("error feature-gate", "--feature_gates=GenericWorkload=true"),
    *flag_cases(
        "error rights-admin",
        "--authentication-kubeconfig=/etc/kubernetes/admin.conf",
        "--authorization-kubeconfig=/etc/kubernetes/super-admin.conf",
    ),
    *case(
        "open by the extender's command line",
        BESIDE,
        more_words("--host=0.0.0.0"),
        "error open-port",
        "hint flag-overrides",
    ),
    *case(
        "another port by the extender's command line",
        EVERY,
        more_words("--port", "8890"),
        "hint flag-overrides",
    ),
    *case(
        "probes elsewhere than the extender's command line says",
        EVERY,
        more_words("--health-port=1", "--port=2"),
        "error probe-unanswered",
    ),
    *case(
        "the extender's configuration from nowhere",
        EVERY,
        more_words("--config=/tmp/mine.yaml"),
        "error flag-config",
    ),
    *case(
        "the extender without its configuration",
        EVERY,
        on_container(args=["serve"]),
        "error flag-config",
    ),
]
