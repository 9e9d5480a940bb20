"""Finding the API server: kubeconfig files, service accounts, exec plugins."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from extender.kube import credentials
from extender.kube.api_errors import ApiError, Unavailable
from extender.kube.client import KubeClient
from extender.kube.credentials import find_access
from extender.model.errors import InvalidInput


@pytest.fixture(autouse=True)
def outside_any_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(tmp_path: Path, user: Any = None, **cluster: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "first",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "first", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "second", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c"}},
        ],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


async def test_a_plain_http_kubeconfig(tmp_path: Path) -> None:
    async with await KubeClient.connect(kubeconfig(tmp_path)) as client:
        assert client.server == "http://127.0.0.1:1"
        assert client.namespace == "team"
    path = kubeconfig(tmp_path)
    async with await KubeClient.connect(path, context="second") as client:
        assert client.namespace == "default"
    access = find_access(path, "nobody", None)
    assert access.authorization is None
    assert access.tls is None


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "hello",
        "a: !!bool perhaps",
        "clusters: 5\ncurrent-context: first",
        "current-context: first\ncontexts: [5]",
    ],
    ids=lambda text: text[:20],
)
def test_a_kubeconfig_that_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=f"kubeconfig {path}: "):
        find_access(str(path), None, None)


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({}, {"server": 5}),
        ({}, {"server": [5]}),
        ({"exec": 5}, {}),
        ({"token": []}, {"server": ""}),
    ],
)
def test_fields_of_other_types(user: Any, cluster: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        find_access(kubeconfig(tmp_path, user, **cluster), None, None)


async def test_the_default_kubeconfig_is_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        find_access(None, None, None)
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path))
    assert find_access(None, None, None).namespace == "team"
    assert find_access(None, None, "http://127.0.0.1:9").server == "http://127.0.0.1:9"
    assert find_access(kubeconfig(tmp_path), None, "http://127.0.0.1:9").namespace == "team"


async def test_a_static_token(tmp_path: Path) -> None:
    access = find_access(kubeconfig(tmp_path, {"token": "secret"}), None, None)
    assert access.authorization is not None
    assert await access.authorization() == "Bearer secret"


async def test_a_token_file_is_read_each_time_and_relative_to_the_kubeconfig(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("one")
    access = find_access(kubeconfig(tmp_path, {"tokenFile": "token"}), None, None)
    assert access.authorization is not None
    assert await access.authorization() == "Bearer one"
    (tmp_path / "token").write_text("two\n")
    assert await access.authorization() == "Bearer two"


def plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    script = tmp_path / "plugin"
    script.write_text(f"#!{sys.executable}\n{body}")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(script),
            "interactiveMode": "Never",
        }
    }


async def test_an_exec_plugin_is_asked_again_when_its_token_has_expired(tmp_path: Path) -> None:
    count = tmp_path / "count"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    body = (
        "import json, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        f"credential = json.loads({json.dumps(json.dumps(credential))})\n"
        "credential['status']['token'] = f'token-{number}'\n"
        "print(json.dumps(credential))\n"
    )
    access = find_access(kubeconfig(tmp_path, plugin(tmp_path, body)), None, None)
    assert access.authorization is not None
    first = await access.authorization()
    second = await access.authorization()
    assert first is not None
    assert second is not None
    assert first.startswith("Bearer token-")
    assert first != second


async def test_an_exec_plugin_that_fails_is_an_error_at_once(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, plugin(tmp_path, "import sys\nsys.exit(3)\n"))
    with pytest.raises(InvalidInput, match="exec plugin gave no credentials"):
        find_access(path, None, None)


FAILS = "import sys\nprint('password hunter2\\nand more', file=sys.stderr)\nsys.exit(3)\n"


def test_what_an_exec_plugin_says_of_its_failure_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kubernetes package logs it, and it may hold what the plugin was about to send."""
    with pytest.raises(InvalidInput, match="exec plugin gave no credentials"):
        find_access(kubeconfig(tmp_path, plugin(tmp_path, FAILS)), None, None)
    assert [record.getMessage() for record in caplog.records] == ["exec: process returned 3"]


async def test_nor_when_its_token_is_to_be_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    status = {"expirationTimestamp": "2020-01-01T00:00:00Z", "token": "one"}
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    user = plugin(tmp_path, f"print({json.dumps(credential)!r})\n")
    access = find_access(kubeconfig(tmp_path, user), None, None)
    plugin(tmp_path, FAILS)
    assert access.authorization is not None
    assert await access.authorization() == "Bearer one"
    assert [record.getMessage() for record in caplog.records] == ["exec: process returned 3"]


async def test_nor_is_what_the_command_of_an_auth_provider_says(tmp_path: Path) -> None:
    command = plugin(tmp_path, FAILS)["exec"]["command"]
    config = {"cmd-path": command, "cmd-args": "--key hunter2"}
    user = {"auth-provider": {"name": "gcp", "config": config}}
    with pytest.raises(InvalidInput, match=r"process returned 3$"):
        find_access(kubeconfig(tmp_path, user), None, None)
    good = {"access_token": "one", "token_expiry": "2020-01-01T00:00:00Z"}
    plugin(tmp_path, f"print({json.dumps({'credential': good})!r})\n")
    access = find_access(kubeconfig(tmp_path, user), None, None)
    plugin(tmp_path, FAILS)
    assert access.authorization is not None
    with pytest.raises(InvalidInput, match=r"process returned 3$"):
        await access.authorization()


@pytest.mark.parametrize(
    "text", ["", "not: [valid", "current-context: nowhere\n", "[]", "kind: Config\n"]
)
def test_an_unusable_kubeconfig_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="broken"):
        find_access(str(path), None, None)


def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        find_access(kubeconfig(tmp_path), "nowhere", None)


def test_certificates_that_do_not_load_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    path = kubeconfig(tmp_path, server="https://127.0.0.1:1", **{"certificate-authority": "ca.crt"})
    with pytest.raises(InvalidInput, match="certificates for https"):
        find_access(path, None, None)


def test_skipping_verification_is_honoured(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, server="https://127.0.0.1:1", **{"insecure-skip-tls-verify": True})
    tls = find_access(path, None, None).tls
    assert tls is not None
    assert not tls.check_hostname


def test_in_a_cluster_without_a_mounted_token_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(InvalidInput, match="service account of this pod"):
        find_access(None, None, None)


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What kubelet mounts and sets, with some certificate authority."""
    where = tmp_path / "serviceaccount"
    where.mkdir()
    (where / "token").write_text("first\n")
    (where / "namespace").write_text("gangs")
    trustme.CA().cert_pem.write_to_path(str(where / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", where)
    return where


async def test_in_a_cluster_the_service_account_is_used(service_account: Path) -> None:
    access = find_access(None, None, None)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "gangs"
    assert access.tls is not None
    assert access.tls.check_hostname
    assert access.authorization is not None
    assert await access.authorization() == "Bearer first"
    (service_account / "token").write_text("second")
    assert await access.authorization() == "Bearer second"
    (service_account / "namespace").unlink()
    assert find_access(None, None, None).namespace == "default"


@pytest.mark.parametrize("text", ["", "no certificate", None])
@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_mount_that_is_not_whole_is_an_error(
    service_account: Path, name: str, text: str | None
) -> None:
    path = service_account / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    if (name, text) == ("token", "no certificate"):
        assert find_access(None, None, None).authorization is not None
        return
    with pytest.raises(InvalidInput, match=f"service account of this pod.*{name}"):
        find_access(None, None, None)


def test_only_a_kubeconfig_imports_the_kubernetes_package(service_account: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from extender.kube import credentials as c; "
        "c.SERVICE_ACCOUNT = Path(sys.argv[1]); c.find_access(None, None, None); "
        "c.find_access(None, None, 'http://127.0.0.1:1'); sys.exit('kubernetes' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(service_account)]
    assert subprocess.run(command, check=False).returncode == 0


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("cluster", "user", "wrong"),
    [
        ({"server": f"https://user:{SECRET}@host"}, {}, "must have no user, password"),
        ({"server": f"https://user:{SECRET}@host"}, {"token": "t"}, "must have no user, password"),
        ({"server": f"https://{SECRET}@host"}, {}, "must have no user, password"),
        ({"server": f"https://host?key={SECRET}"}, {}, "must have no user, password, query"),
        ({"server": f"https://host#{SECRET}"}, {}, "must have no user, password, query"),
        ({"server": f"ftp://user:{SECRET}@host"}, {}, "must begin with http:// or https://"),
        ({"server": f"https://user:{SECRET}@host:port"}, {}, "must be a URL"),
        ({"server": "https://host:0"}, {}, "must be a URL"),
        ({"server": "https://"}, {}, "must begin with http"),
        ({"server": f"https://[{SECRET}"}, {}, "Invalid IPv6 URL"),
        ({"server": f"https://ho st/{SECRET}"}, {}, "must be a URL"),
        ({"proxy-url": f"socks5://user:{SECRET}@host"}, {}, "proxy-url must begin with http://"),
        ({"proxy-url": f"http://user:{SECRET}@host:port"}, {}, "proxy-url must be a URL"),
        ({"proxy-url": f"http://user:{SECRET}@[host"}, {}, "proxy-url must be a URL"),
        ({"proxy-url": f"http://us%3Aer:{SECRET}@host"}, {}, "proxy-url must have no colon in its"),
        ({}, {"token": f"{SECRET}\nX-Other: 1"}, "token holds a character"),
        ({}, {"token": f"{SECRET}\u00e9"}, "token holds a character"),
    ],
)
def test_what_would_be_logged_or_fail_with_each_request_is_refused_at_the_start(
    cluster: dict[str, Any], user: dict[str, Any], wrong: str, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path, user, **cluster)
    with pytest.raises(InvalidInput, match=f"kubeconfig {path}: .*{wrong}") as refused:
        find_access(path, None, None)
    assert SECRET not in str(refused.value)


def test_a_server_on_the_command_line_is_checked_too() -> None:
    with pytest.raises(InvalidInput, match="must have no user") as refused:
        find_access(None, None, f"https://user:{SECRET}@host")
    assert SECRET not in str(refused.value)


async def test_a_proxy_may_ask_for_a_password_which_no_error_shows(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, **{"proxy-url": f"http://user:{SECRET}@127.0.0.1:1"})
    async with await KubeClient.connect(path) as client:
        with pytest.raises(Unavailable) as failed:
            await client.get("/version")
    assert "127.0.0.1" in str(failed.value)
    assert SECRET not in str(failed.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_refuses_is_told_without_its_password(
    scheme: str, tmp_path: Path
) -> None:
    """aiohttp's errors quote the address of the proxy; the password is sent all the same."""
    heads: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Asked\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        where = {
            "server": f"{scheme}://127.0.0.1:1",
            "proxy-url": f"http://us%40er:{SECRET}%C3%A9@127.0.0.1:{port}",
        }
        async with await KubeClient.connect(kubeconfig(tmp_path, **where)) as client:
            with pytest.raises(ApiError, match="407") as failed:
                await client.get("/version")
    assert SECRET not in "".join(traceback.format_exception(failed.value))
    sent = base64.b64encode(f"us@er:{SECRET}\u00e9".encode())
    assert b"Proxy-Authorization: Basic " + sent in heads[0]


async def test_a_token_file_with_several_lines_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    async with await KubeClient.connect(kubeconfig(tmp_path, {"tokenFile": "token"})) as client:
        (tmp_path / "token").write_text(f"{SECRET}\r\nX-Other: 1")
        with pytest.raises(Unavailable, match="holds a character") as failed:
            await client.get("/version")
    assert SECRET not in str(failed.value)
