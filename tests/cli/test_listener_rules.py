"""Who may reach the verbs: the same rule for ``check`` and for ``serve``.

See docs/security.md, row 1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.app import main as command
from extender.check.listener_rules import grpc_findings, listener_findings, require_closed
from extender.model.errors import InvalidInput
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from extender.settings.settings_rules import validate

PAIR = {"tls_cert_file": "c", "tls_key_file": "k"}
CALLERS = PAIR | {"client_ca_file": "ca"}
NAMED = CALLERS | {"allowed_names": ("system:kube-scheduler",)}


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({}, []),
        ({"host": "::1"}, []),
        ({"host": "localhost"}, []),
        ({"host": "127.8.0.1"}, []),
        ({"host": "0.0.0.0"}, ["open-port", "plain-tokens"]),
        ({"host": ""}, ["open-port", "plain-tokens"]),
        ({"host": "::"}, ["open-port", "plain-tokens"]),
        ({"host": "10.0.0.7"}, ["open-port", "plain-tokens"]),
        ({"host": "scheduler.example"}, ["open-port", "plain-tokens"]),
        ({"host": "0.0.0.0"} | PAIR, ["open-port"]),
        ({"host": "0.0.0.0"} | CALLERS, ["open-port"]),
        ({"host": "0.0.0.0"} | NAMED, []),
        ({"host": "0.0.0.0", "open_metrics": True} | NAMED, ["open-metrics"]),
        (CALLERS, ["any-certificate"]),
        ({"health_port": 8889, "health_host": "0.0.0.0"}, ["plain-tokens"]),
        (
            {"health_port": 8889, "health_host": "0.0.0.0", "open_metrics": True},
            ["open-metrics"],
        ),
        (
            {"health_port": 8889, "health_host": "0.0.0.0", "open_metrics": True, "debug": True},
            ["open-metrics", "plain-tokens"],
        ),
        ({"health_port": 8889, "health_host": "0.0.0.0"} | PAIR, []),
    ],
)
def test_findings(given: dict[str, Any], rules: list[str]) -> None:
    server = ServerSettings(**given)
    validate(Settings(server=server))
    assert [finding.rule for finding in listener_findings(server, "f")] == rules
    if "open-port" not in rules:
        require_closed(server, allowed=False)
        return
    with pytest.raises(InvalidInput, match=r"server\.host"):
        require_closed(server, allowed=False)


def test_an_open_port_has_to_be_allowed_twice() -> None:
    shut = ServerSettings(host="0.0.0.0")
    told = ServerSettings(host="0.0.0.0", allow_open_port=True)
    for server, allowed in ((shut, True), (told, False)):
        with pytest.raises(InvalidInput, match="allowOpenPort"):
            require_closed(server, allowed=allowed)
    require_closed(told, allowed=True)


@pytest.mark.parametrize("words", [["--host", "0.0.0.0"], []])
def test_serve_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({} if words else {"server": {"host": "0.0.0.0"}}))
    assert command.main(["serve", "--config", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert "server.host: is '0.0.0.0', and no certificate is asked" in said
    assert "--allow-open-port" in said


def test_check_calls_it_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"server": {"host": "0.0.0.0", "openMetrics": True}}))
    assert command.main(["check", "--json", "--config", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(each["severity"], each["rule"]) for each in found] == [
        ("error", "open-port"),
        ("hint", "open-metrics"),
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"allowed_names": ("a",)}, "server.allowedNames needs server.clientCaFile"),
        (CALLERS | {"allowed_names": ("",)}, "must not hold an empty name"),
        ({"health_port": 8888}, "server.healthPort must be another port"),
        ({"health_port": 70000}, "server.healthPort must be 0..65535"),
        ({"health_host": "0.0.0.0"}, "server.healthHost needs server.healthPort"),
        ({"max_header_bytes": 10}, "server.maxHeaderBytes"),
        ({"max_connections": 1}, "server.maxConnections"),
        ({"max_bytes_in_flight": 1}, "server.maxBytesInFlight"),
        ({"head_seconds": 0}, "server.headSeconds"),
        ({"body_seconds": 0}, "server.bodySeconds"),
        ({"pod_wait_seconds": 1.5}, "server.podWaitSeconds"),
    ],
)
def test_values_out_of_range(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        validate(Settings(server=ServerSettings(**given)))


@pytest.mark.parametrize(
    ("listen", "more", "rules"),
    [
        ("", {}, []),
        ("127.0.0.1:1", {}, []),
        ("127.0.0.1:1", CALLERS, ["any-certificate"]),
        ("127.0.0.1:1", NAMED, []),
        ("unix:/s", {}, []),
    ],
)
def test_findings_about_grpc(listen: str, more: dict[str, Any], rules: list[str]) -> None:
    settings = Settings(grpc=GrpcSettings(listen=listen, **more))
    validate(settings)
    assert [finding.rule for finding in grpc_findings(settings, "f")] == rules
