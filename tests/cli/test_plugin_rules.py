"""``check`` on a kube-scheduler that is built with the plugin: arguments, profile, others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from extender.check import config
from extender.check.catalogue import RULES
from extender.check.documents import Document
from extender.check.findings import Finding
from extender.check.kubescheduler import configuration
from extender.check.plugin_rules import PLUGIN_RULES
from extender.check.scheduler_rules import configuration_findings
from tests.cli.configurations import OTHER, SAFE
from tests.controlplane.scheduler import BINDER, PLUGIN, plugin_config

Object = dict[str, Any]
Change = Callable[[Object], object]

SOCKET = "unix:/run/podgroup-extender/grpc.sock"
ON = "grpc: {listen: 'unix:/run/podgroup-extender/grpc.sock'}"
BINDS = ON + "\nbind: {enabled: true}"
NARROW = {"minCandidateNodesPercentage": 100}
TCP = """
grpc:
  listen: 0.0.0.0:9443
  tlsCertFile: /c
  tlsKeyFile: /k
  clientCaFile: /ca
  allowedNames: [kube-scheduler]
"""
TLS = {"caFile": "/ca", "certFile": "/c", "keyFile": "/k"}
ARGS = "profiles[0].pluginConfig[0].args"


def safe(**args: Any) -> Object:
    """What docs/plugin.md shows."""
    return plugin_config(SOCKET, **{**NARROW, **args})


def examine(document: Object, settings: str = ON, url: str | None = None) -> list[Finding]:
    found = configuration([Document("s", document)], "s")
    return list(configuration_findings(found, config.parse(settings), "s", url))


def told(findings: list[Finding]) -> list[str]:
    return [f"{f.severity} {f.rule} {f.place.removeprefix('s: ')}" for f in findings]


def plugins(**points: Any) -> Change:
    """Change plugins of the profile; None removes a point."""

    def change(document: Object) -> None:
        listed = document["profiles"][0]["plugins"]
        listed.update(points)
        for point in [point for point, value in points.items() if value is None]:
            del listed[point]

    return change


def names(*enabled: str, off: tuple[str, ...] = ()) -> Object:
    """A set of plugins."""
    return {
        "enabled": [{"name": name} for name in enabled],
        "disabled": [{"name": name} for name in off],
    }


ONE_BY_ONE = {
    point: names(PLUGIN)
    for point in ("preEnqueue", "preFilter", "filter", "reserve", "permit", "postBind")
} | {"postFilter": names(PLUGIN, off=("DefaultPreemption",)), "multiPoint": None}


def case(name: str, change: Change | Object, *expected: str, settings: str = ON) -> Any:
    """A change to the safe configuration, or more arguments, and what must be found; @ is ARGS."""
    return pytest.param(change, settings, [line.replace("@", ARGS) for line in expected], id=name)


def no_plugin_config(document: Object) -> None:
    del document["profiles"][0]["pluginConfig"]


def other_profile(document: Object) -> None:
    document["profiles"].append({"schedulerName": "other"})


def second_profile(document: Object) -> None:
    document["profiles"].append({**document["profiles"][0], "schedulerName": "other"})


def beside(*entries: Object) -> Change:
    return lambda document: document.update(extenders=list(entries))


def bound(*enabled: str, off: tuple[str, ...] = ()) -> Change:
    """barrier: Bind with these at bind."""

    def change(document: Object) -> None:
        document["profiles"][0]["pluginConfig"][0]["args"]["barrier"] = "Bind"
        document["profiles"][0]["plugins"]["bind"] = names(*enabled, off=off)

    return change


OURS = SAFE["extenders"][0]

CASES = [
    case("as documented", {}),
    case("as documented, over TLS", {"address": "extender.example:9443", **TLS}, settings=TCP),
    case("with the bind barrier", {"barrier": "Bind"}, settings=BINDS),
    case("every extension point by itself", plugins(**ONE_BY_ONE)),
    # Arguments.
    case("no arguments", no_plugin_config, "error plugin-args profiles[0].pluginConfig"),
    case("no address", {"address": None}, "error plugin-args @.address"),
    case("unknown argument", {"adress": SOCKET}, "error plugin-args @"),
    case("its own kind", {"kind": "PodGroupExtenderArgs"}, "error plugin-args @"),
    case("number for a duration", {"callTimeout": 5}, "error plugin-args @"),
    case("no unit", {"callTimeout": "5"}, "error plugin-args @.callTimeout"),
    case("negative", {"barrierTimeout": "-1s"}, "error plugin-args @.barrierTimeout"),
    case("too many heartbeats", {"heartbeat": "50ms"}, "error plugin-args @.heartbeat"),
    case("no such way", {"whenCut": "hold"}, "error plugin-args @.whenCut"),
    case("no such barrier", {"barrier": "None"}, "error plugin-args @.barrier"),
    case("key without certificate", {"keyFile": "/k"}, "error plugin-args @.certFile"),
    case(
        "certificate without authority",
        {"certFile": "/c", "keyFile": "/k"},
        "error plugin-args @.caFile",
    ),
    case(
        "share out of range",
        {"minCandidateNodesPercentage": 101},
        "error plugin-args @.minCandidateNodesPercentage",
    ),
    case("http address", {"address": "http://127.0.0.1:9"}, "error plugin-args @.address"),
    case("address without a port", {"address": "127.0.0.1"}, "error plugin-args @.address"),
    case("relative socket", {"address": "unix:sock"}, "error plugin-args @.address"),
    case("beyond range", {"address": "127.0.0.1:70000"}, "error plugin-args @.address"),
    # Where it leads.
    case(
        "in the clear to elsewhere",
        {"address": "extender.example:9443"},
        "error plugin-plain @.address",
        "error plugin-tls @.caFile",
        settings=TCP,
    ),
    case("gRPC is not served", {}, "error plugin-unserved @.address", settings=""),
    case("another socket", {"address": "unix:/run/other.sock"}, "error plugin-address @.address"),
    case("three slashes", {"address": "unix:///run/podgroup-extender/grpc.sock"}),
    case("a port for a socket", {"address": "127.0.0.1:9"}, "error plugin-address @.address"),
    case("a socket for a port", {}, "error plugin-address @.address", settings=TCP),
    case(
        "another port",
        {"address": "extender.example:1", **TLS},
        "hint plugin-port @.address",
        settings=TCP,
    ),
    case(
        "from elsewhere to loopback",
        {"address": "10.0.0.9:9", **TLS},
        "error plugin-address @.address",
        "error plugin-tls @.caFile",
        settings="grpc: {listen: '127.0.0.1:9'}",
    ),
    case("TLS to a socket", TLS, "error plugin-tls @.caFile"),
    case(
        "no certificate",
        {"address": "extender.example:9443", "caFile": "/ca"},
        "error plugin-tls @.certFile",
        settings=TCP,
    ),
    # Times.
    case("gives a search up", {"callTimeout": "3s"}, "error plugin-call-short @.callTimeout"),
    case("close to a search", {"callTimeout": "3500ms"}, "warning plugin-call-short @.callTimeout"),
    case("long", {"callTimeout": "1m"}, "warning plugin-call-long @.callTimeout"),
    case(
        "seats go back before the barrier ends",
        {"barrierTimeout": "60s"},
        "warning plugin-barrier-long @.barrierTimeout",
    ),
    case(
        "a held bind is given up",
        {"barrier": "Bind", "barrierTimeout": "36s"},
        "error plugin-barrier-short @.barrierTimeout",
        settings=BINDS,
    ),
    # What it is told to do.
    case("goes on when cut", {"whenCut": "Elsewhere"}, "warning plugin-elsewhere @.whenCut"),
    case("nobody binds", {"barrier": "Bind"}, "error plugin-bind @.barrier"),
    case("nobody is asked to bind", {}, "warning plugin-bind-unused @.barrier", settings=BINDS),
    case(
        "a share of the nodes",
        {"minCandidateNodesPercentage": None},
        "hint candidate-nodes @.minCandidateNodesPercentage",
    ),
    # The profile.
    case(
        "configured and not enabled",
        plugins(multiPoint=names(off=("DefaultPreemption",))),
        "error plugin-points profiles[0].plugins",
    ),
    case(
        "kept from filter",
        plugins(filter=names(off=(PLUGIN,))),
        "error plugin-points profiles[0].plugins",
    ),
    case(
        "everything kept from permit",
        plugins(permit=names(off=("*",))),
        "error plugin-points profiles[0].plugins",
    ),
    case("everything replaced", plugins(multiPoint=names(PLUGIN, off=("*",)))),
    case(
        "one point is missing",
        plugins(**{**ONE_BY_ONE, "postBind": None}),
        "error plugin-points profiles[0].plugins",
    ),
    case(
        "DefaultPreemption is on",
        plugins(multiPoint=names(PLUGIN)),
        "error plugin-preemption profiles[0].plugins",
    ),
    case(
        "DefaultPreemption is on again",
        plugins(postFilter=names("DefaultPreemption")),
        "error plugin-preemption profiles[0].plugins",
    ),
    case(
        "DefaultPreemption is off at its point",
        plugins(multiPoint=names(PLUGIN), postFilter=names(off=("DefaultPreemption",))),
    ),
    case(
        "DefaultBinder comes first",
        bound("DefaultBinder", PLUGIN),
        "error plugin-binder profiles[0].plugins.bind",
        settings=BINDS,
    ),
    case(
        "bind by multiPoint alone",
        bound(),
        "error plugin-binder profiles[0].plugins.bind",
        settings=BINDS,
    ),
    case("DefaultBinder is off", bound(off=("DefaultBinder",)), settings=BINDS),
    case(
        "a profile without it",
        other_profile,
        "error plugin-profile profiles[1]",
        "hint candidate-nodes profiles[1].pluginConfig",
    ),
    case("two profiles with it", second_profile, "hint plugin-profiles profiles"),
    # Beside it.
    case("asked twice", beside(OURS), "error plugin-twice extenders[0]"),
    case(
        "another extender that filters", beside(OTHER), "hint plugin-filter extenders[0].filterVerb"
    ),
    case(
        "another extender that preempts",
        beside({"urlPrefix": "http://127.0.0.1:1", "preemptVerb": "p"}),
        "warning preempt-other extenders[0].preemptVerb",
    ),
    case("another extender that binds", beside(BINDER | {"urlPrefix": "http://127.0.0.1:1"})),
    case(
        "another extender that binds before the barrier",
        lambda d: (bound(PLUGIN)(d), beside(BINDER | {"urlPrefix": "http://127.0.0.1:1"})(d)),
        "error plugin-other-binder extenders[0].bindVerb",
        settings=BINDS,
    ),
]


@pytest.mark.parametrize(("change", "settings", "expected"), CASES)
def test_plugin(change: Change | Object, settings: str, expected: list[str]) -> None:
    if isinstance(change, dict):
        given = {**change}
        document = safe(**{key: value for key, value in given.items() if key != "address"})
        args = document["profiles"][0]["pluginConfig"][0]["args"]
        args.update(given)
        for key in [key for key, value in args.items() if value is None]:
            del args[key]
    else:
        document = safe()
        change(document)
    assert told(examine(document, settings)) == expected


def test_an_entry_is_ours_by_its_address() -> None:
    document = safe()
    document["extenders"] = [{**OURS, "urlPrefix": "http://10.0.0.1:80"}]
    assert told(examine(document)) == ["hint plugin-filter extenders[0].filterVerb", *MORE]
    found = told(examine(document, url="http://10.0.0.1:80/"))
    assert "error plugin-twice extenders[0]" in found


MORE = ["warning preempt-other extenders[0].preemptVerb"]


def test_scheduler_names_are_compared_too() -> None:
    found = told(examine(safe(), ON + "\nschedulerNames: [other]"))
    assert found == ["error scheduler-name profiles", "warning scheduler-unknown profiles"]


def test_a_stock_kube_scheduler_is_told_nothing_of_it() -> None:
    assert told(examine(copy.deepcopy(SAFE), "")) == []


def test_each_rule_is_known_and_tried() -> None:
    assert PLUGIN_RULES.keys() <= RULES.keys()
    tried = {expected.split()[1] for each in CASES for expected in each.values[2]}
    assert PLUGIN_RULES.keys() <= tried
