"""Rights that nobody needs, calls that anybody could make or read, listeners that are open."""

from __future__ import annotations

from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, Object
from tests.cli.unsafe_changes import (
    EVERY,
    IN_CLUSTER,
    bound_to,
    case,
    for_group,
    on_container,
    on_entries,
    on_role,
    on_settings,
    plain_calls,
)


def _without_jobs(rules: list[Object]) -> None:
    rules[:] = [rule for rule in rules if rule["resources"] != ["jobs"]]


def _without_claims(rules: list[Object]) -> None:
    rules[:] = [rule for rule in rules if rule["resources"] != ["persistentvolumeclaims"]]


def _without_events(rules: list[Object]) -> None:
    rules[:] = [rule for rule in rules if rule["resources"] != ["events"]]


RIGHTS = [
    *case("cluster-admin", EVERY, bound_to("cluster-admin"), "error rights-admin"),
    *case("edit", EVERY, bound_to("edit"), "error rights-admin"),
    *case(
        "every verb",
        EVERY,
        on_role("ClusterRole", lambda rules: rules[0].update(verbs=["*"])),
        "error rights-wildcard",
    ),
    *case(
        "every resource",
        EVERY,
        on_role("Role", lambda rules: rules[0].update(resources=["*"])),
        "error rights-wildcard",
    ),
    *case(
        "no Jobs",
        EVERY,
        on_role("ClusterRole", _without_jobs),
        "warning job-right",
    ),
    *case(
        "no claims",
        EVERY,
        on_role("ClusterRole", _without_claims),
        "warning claim-right",
    ),
    *case(
        "no events",
        EVERY,
        on_role("ClusterRole", _without_events),
        "warning event-right",
    ),
    *case(
        "Secrets",
        EVERY,
        on_role("ClusterRole", lambda rules: rules[0]["resources"].append("secrets")),
        "error rights-beyond",
    ),
    *case(
        "making pods",
        EVERY,
        on_role(
            "ClusterRole",
            lambda rules: rules.append(
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
            ),
        ),
        "error rights-beyond",
    ),
    *case("for everybody", EVERY, for_group("system:authenticated"), "error rights-for-all"),
    *case(
        "for every account", EVERY, for_group("system:serviceaccounts:work"), "error rights-for-all"
    ),
]
CALLS = [
    *case("fails open", EVERY, on_entries(ignorable=True), "error ignorable"),
    *case("calls too short", EVERY, on_entries(httpTimeout="2s"), "error timeout-short"),
    *case("calls too long", EVERY, on_entries(httpTimeout="5m"), "warning timeout-long"),
    *case(
        "no weight",
        EVERY,
        on_entries(prioritizeVerb="prioritize"),
        "hint prioritize",
        "error weight",
    ),
    *case(
        "every node in full", EVERY, on_entries(nodeCacheCapable=None), "error node-cache-capable"
    ),
    *case("no preempt", EVERY, on_entries(preemptVerb=None), "error no-preempt"),
    *case("no filter", EVERY, on_entries(filterVerb=None), "error no-filter"),
    *case(
        "prioritize", EVERY, on_entries(prioritizeVerb="prioritize", weight=1), "hint prioritize"
    ),
    *case("binds", EVERY, on_entries(bindVerb="bind"), "error bind"),
    *case(
        "some pods only",
        EVERY,
        on_entries(managedResources=[{"name": "nvidia.com/gpu"}]),
        "error managed-resources",
    ),
    *case(
        "two that plan",
        IN_CLUSTER,
        on_settings("leadership", enabled=False),
        "error two-planners",
    ),
]
LISTENERS = [
    *case(
        "open to everybody",
        (SECOND, STATIC),
        on_settings("server", host="0.0.0.0"),
        "error open-port",
    ),
    *case(
        "open, told once",
        (SECOND, STATIC),
        on_settings("server", host="0.0.0.0", allowOpenPort=True),
        "error open-port",
    ),
    *case(
        "no TLS",
        (DEPLOYMENT,),
        on_settings(
            "server", tlsCertFile=None, tlsKeyFile=None, clientCaFile=None, allowedNames=None
        ),
        "error open-port",
        "error tls-mismatch",
    ),
    *case(
        "no client CA",
        (DEPLOYMENT,),
        on_settings("server", clientCaFile=None, allowedNames=None),
        "error open-port",
    ),
    *case(
        "no allow-list",
        (DEPLOYMENT,),
        on_settings("server", allowedNames=None),
        "error open-port",
    ),
    *case(
        "debug for everybody, without TLS",
        (SECOND,),
        on_settings("server", debug=True),
        "warning plain-tokens",
    ),
    *case(
        "metrics for everybody",
        (DEPLOYMENT,),
        on_settings("server", openMetrics=True),
        "hint open-metrics",
    ),
    *case(
        "any certificate, on loopback",
        (STATIC,),
        on_settings("server", tlsCertFile="/c", tlsKeyFile="/k", clientCaFile="/ca"),
        "warning any-certificate",
    ),
    *case("calls in plain text", (DEPLOYMENT,), plain_calls, "error tls-mismatch"),
    *case(
        "server not verified",
        (DEPLOYMENT,),
        on_entries(tlsConfig={"certFile": "/c", "keyFile": "/k"}, enableHTTPS=True),
        "warning tls-ca",
    ),
    *case(
        "no client certificate",
        (DEPLOYMENT,),
        on_entries(tlsConfig={"caFile": "/ca"}),
        "error tls-client",
    ),
    *case(
        "HTTPS on a plain address",
        (SECOND, STATIC),
        on_entries(enableHTTPS=True),
        "error https-scheme",
    ),
    *case(
        "probes where only loopback listens",
        (SECOND,),
        on_settings("server", healthHost="127.0.0.1"),
        "error probe-unanswered",
    ),
    *case(
        "probes without a listener",
        (SECOND,),
        on_settings("server", healthHost=None, healthPort=None),
        "error probe-unanswered",
    ),
    *case(
        "probes without a certificate",
        (DEPLOYMENT,),
        on_container("livenessProbe.httpGet", port="extender"),
        "error probe-unanswered",
    ),
    *case(
        "probes in plain text",
        (DEPLOYMENT,),
        on_container("startupProbe.httpGet", scheme=None),
        "error probe-unanswered",
    ),
]
