"""The commands against a real server, also found by label and forwarded to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import trustme
import yaml

from extender.app.main import main
from extender.sandbox.process import write_kubeconfig
from tests.cli.live_bed import Kubelet, Live, free_port, pod, serving

GANG = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: new, namespace: team}
spec: {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: %s}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template:
    spec:
      priorityClassName: %s
      schedulingGroup: {podGroupName: new}
      containers: [{name: c, resources: {requests: {cpu: "%s"}}}]
"""


@pytest.fixture
async def live(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Live]:
    async with serving(tmp_path, capsys) as made:
        yield made


async def planned(live: Live) -> None:
    """Have the waiting gang planned for and its victims evicted; they stay terminating."""
    await live.preempt("high-0", "n0", "n1", "n2", "n3")
    async with asyncio.timeout(60):
        while "waiting" not in (await live.ask("gangs", "high"))[1]:
            await asyncio.sleep(0.05)


async def test_a_gang_in_preemption(live: Live, tmp_path: Path) -> None:
    await planned(live)
    status, out, _ = await live.ask("gangs")
    assert status == 0
    header, *rows = out.splitlines()
    assert header.split() == ["GANG", "STATE", "PRIORITY", "BOUND", "AGE", "WHY"]
    high = next(row for row in rows if row.startswith("pod-group:team/high"))
    assert high.split()[:4] == ["pod-group:team/high", "waiting", "100000", "0/4"]
    assert re.fullmatch(r"\d+[smhd]", high.split()[4])
    header, *rows = (await live.ask("gangs", "-o", "wide"))[1].splitlines()
    columns = "GANG STATE PRIORITY BOUND MEMBERS SEATS VICTIMS AGE WHY"
    assert " ".join(header.split()) == columns
    high = next(row for row in rows if row.startswith("pod-group:team/high"))
    assert high.split()[:7] == ["pod-group:team/high", "waiting", "100000", "0/4", "4", "4", "4"]

    status, out, _ = await live.ask("seats", "high")
    assert status == 0
    assert out.count("team/high-") == 4
    assert out.count("its gang is evicted as a whole") == 4
    assert "all evictions are sent, victims terminate" in out

    status, out, _ = await live.ask("why", "high")
    assert status == 0
    assert "gang pod-group:team/high: waiting" in out
    assert "reason: waits for pod-group:team/low (4 pods) to end" in out
    assert "plan for pod-group:team/high" in out
    assert "next: no action is needed: the victims have their grace period" in out

    status, out, _ = await live.ask("why", "high-1", "-n", "team", "--short")
    assert status == 0
    assert "pod team/high-1: waiting" in out
    assert "its seat is n" in out
    assert "possible victims" not in out

    status, out, _ = await live.ask("why", "team/low-0")
    assert status == 0
    assert "pod team/low-0: evicted" in out
    assert "it is evicted for pod-group:team/high" in out
    assert "chosen because its room on n0 is needed and its gang is evicted as a whole" in out

    status, out, _ = await live.ask("decisions", "high", "--long")
    assert status == 0
    assert out.count("  victim team/low-") == 4
    assert "cost gangs@1: 1 (at least 1)" in out
    assert (await live.ask("decisions", "--outcome", "refusal"))[1] == "no decisions\n"

    # What was evicted is found by its name when it has gone.
    await live.client.delete("/api/v1/namespaces/team/pods/low-0", grace=0)
    async with asyncio.timeout(60):
        while "gone" not in (await live.ask("why", "low-0", "--short"))[1]:
            await asyncio.sleep(0.05)
    status, out, _ = await live.ask("why", "team/low-0", "--short")
    assert "a victim for pod-group:team/high at 2" in out
    assert " (priority 1 of pod-group:team/low)" in out
    assert "next: it has no owner, so it is not created again" in out
    assert "why pod-group:team/low" in out
    status, out, _ = await live.ask("why", "low", "--short")
    assert "gang pod-group:team/low: leaving" in out
    assert "create the members" not in out
    assert "leaving" in (await live.ask("gangs", "low"))[1]

    status, out, _ = await live.ask("why", "pod-group:team/high", "-o", "yaml")
    story = yaml.safe_load(out)["stories"][0]
    assert story["state"] == "waiting"
    assert story["decision"]["proof"] == "optimal"
    assert json.loads((await live.ask("seats", "-o", "json"))[1])["reservations"]

    for i in range(1, 4):
        await live.client.delete(f"/api/v1/namespaces/team/pods/low-{i}", grace=0)
    async with asyncio.timeout(60):
        while "gone" not in (await live.ask("why", "low", "--short"))[1]:
            await asyncio.sleep(0.05)
    status, out, _ = await live.ask("why", "low", "--short")
    assert status == 0
    assert "4 of its pods were evicted at 2" in out
    assert "for pod-group:team/high" in out


def gangs_of(value: Any) -> Iterator[Any]:
    """Yield what stands under "gang", wherever it is."""
    if isinstance(value, dict):
        for name, inner in value.items():
            assert name.isalnum(), f"{name} is no camelCase"
            yield from [inner] if name == "gang" else gangs_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from gangs_of(inner)


async def test_one_form_of_a_gang_over_all_commands(live: Live, tmp_path: Path) -> None:
    await planned(live)
    high = {
        "key": "pod-group:team/high",
        "dialect": "pod-group",
        "namespace": "team",
        "name": "high",
    }
    low = high | {"key": "pod-group:team/low", "name": "low"}
    dump = tmp_path / "snapshot.json"
    async with aiohttp.ClientSession() as http, http.get(f"{live.url}/debug/snapshot") as answer:
        dump.write_bytes(await answer.read())
    for words, rows, others in (
        (("gangs", "high"), "gangs", []),
        (("seats", "high"), "reservations", [low]),
        (("decisions", "high"), "decisions", [low]),
        (("why", "high"), "stories", [low]),
        (("why", "high-0"), "stories", [low]),
        (("why", "low-0"), "stories", [low, high]),
        (("what-if", "--gang", "high"), "", [low]),
    ):
        status, out, _ = await live.ask(*words, "-o", "json")
        assert status == 0, out
        document = json.loads(out)
        found = document[rows][0] if rows else next(iter(document.values()))
        assert found["gang"] == (low if words[-1] == "low-0" else high), words
        assert all(one in [high, *others, None] for one in gangs_of(document)), words
    _, out, _ = await live.ask("why", "low-0", "-o", "json")
    assert json.loads(out)["stories"][0]["pod"] == {"namespace": "team", "name": "low-0"}
    status, out, _ = await live.run("plan", str(dump), "--gang", "high", "-o", "json")
    assert next(gangs_of(json.loads(out))) == high


async def test_a_pod_that_goes_alone_is_called_by_its_name(live: Live) -> None:
    for i in range(1, 4):
        await live.client.delete(f"/api/v1/namespaces/team/pods/low-{i}", grace=0)
    await live.client.delete("/api/v1/namespaces/team/pods/low-0", grace=0)
    for i in range(4):
        await pod(live.client, f"alone-{i}", "", f"n{i}")
    async with asyncio.timeout(60):
        while (await live.ask("why", "alone-3"))[0]:
            await asyncio.sleep(0.05)
    await planned(live)
    _, out, _ = await live.ask("why", "alone-0", "--short")
    uid = (await live.client.get("/api/v1/namespaces/team/pods/alone-0"))["metadata"]["uid"]
    assert "pod team/alone-0: evicted" in out
    assert "it is evicted for pod-group:team/high (alone; now: " in out
    for words in (("why", "alone-0"), ("why", "high"), ("seats",), ("decisions", "--long")):
        assert uid not in (await live.ask(*words))[1]


async def test_a_gang_that_is_refused_and_one_that_is_incomplete(live: Live) -> None:
    for i in range(4):
        await live.client.delete(f"/api/v1/namespaces/team/pods/high-{i}", grace=0)
        await pod(live.client, f"high-{i}x", "high", cpu="5")
    await live.preempt("high-0x", "n0", "n1")
    status, out, _ = await live.ask("why", "high")
    assert status == 0
    assert "gang pod-group:team/high: refused" in out
    assert "reason: no node accepts any member" in out
    assert "next: nodes that accept 4 more of high-" in out
    assert "`what-if -f FILE` tries a change without making it" in out
    assert (await live.ask("why", "high-2x", "--short"))[1].startswith("pod team/high-2x: refused")
    status, out, _ = await live.ask("gangs", "--waiting")
    assert "pod-group:team/low" not in out

    await live.client.delete("/api/v1/namespaces/team/pods/high-0x", grace=0)
    async with asyncio.timeout(60):
        while "incomplete" not in (await live.ask("gangs", "high"))[1]:
            await asyncio.sleep(0.05)
    status, out, _ = await live.ask("why", "high")
    assert "3 of 4 members exist" in out
    assert "next: create the members that are missing" in out


@pytest.mark.parametrize("command", ["gangs", "seats", "decisions"])
async def test_namespaces_are_chosen_as_kubectl_does(live: Live, command: str) -> None:
    await planned(live)
    for words, listed in (
        ([], True),
        (["-A"], True),
        (["--all-namespaces"], True),
        (["-n", "team"], True),
        (["-n", "elsewhere"], False),
    ):
        status, out, _ = await live.ask(command, *words)
        assert status == 0
        assert ("team/high" in out) is listed, (words, out)
    assert (await live.ask(command, "-A", "-n", "team"))[0] == 2


async def test_pods_of_no_gang_and_pods_that_run(live: Live) -> None:
    await pod(live.client, "alone", "", cpu="4")
    await pod(live.client, "gated", "", schedulingGates=[{"name": "example.com/wait"}])
    async with asyncio.timeout(60):
        while (await live.ask("why", "gated"))[0]:
            await asyncio.sleep(0.05)
    assert "it has scheduling gates" in (await live.ask("why", "gated"))[1]
    status, out, _ = await live.ask("why", "alone")
    assert status == 0
    assert "pod of no gang: kube-scheduler places it" in out
    assert "has not tried it yet" in out
    status, out, _ = await live.ask("why", "low-1")
    assert "pod team/low-1: running" in out
    assert "it has a node, n1" in out


async def test_what_if_asks_and_changes_nothing(live: Live, tmp_path: Path) -> None:
    manifest = tmp_path / "gang.yaml"
    manifest.write_text(GANG % ("high", "high", "3"))
    status, out, err = await live.ask("what-if", "-f", str(manifest))
    assert (status, err) == (0, "")
    assert "plan for pod-group:team/new, priority 100000: optimal" in out
    assert "team/low-0 on n0" in out
    status, out, _ = await live.ask("what-if", "--gang", "high", "-o", "json")
    assert status == 0
    assert len(json.loads(out)["plan"]["seats"]) == 4
    status, out, _ = await live.ask("what-if", "--gang", "high", "--cost-order", "fewest-gangs")
    assert status == 0
    assert "as it is, cost order default:" in out
    assert "with cost order fewest-gangs:" in out
    assert "what the change makes of it: The same 4 pods would be evicted." in out
    status, out, _ = await live.ask(
        "what-if", "--gang", "high", "--cost-order", "fewest-pods", "-o", "json"
    )
    told = json.loads(out)
    assert list(told) == ["plan", "changed", "difference"]
    assert told["changed"]["costOrder"] == "fewest-pods"
    assert told["difference"]["added"] == told["difference"]["spared"] == []
    status, _, err = await live.ask("what-if", "--gang", "high", "--cost-order", "cheapest")
    assert status == 2
    assert "'cheapest' does not exist (known: default, gangs-by-priority" in err
    manifest.write_text(GANG % ("low", "low", "3"))
    status, out, _ = await live.ask("what-if", "-f", str(manifest))
    assert status == 1
    assert "no plan for pod-group:team/new (infeasible)" in out
    manifest.write_text(GANG % ("none", "none", "3"))
    status, _, err = await live.ask("what-if", "-f", str(manifest))
    assert status == 2
    assert "PriorityClass 'none' is not in the cluster" in err
    assert (await live.ask("what-if"))[0] == 2
    assert (await live.ask("seats"))[1] == "no seats are held\n"
    pods = await live.client.get("/api/v1/namespaces/team/pods")
    assert len(pods["items"]) == 8
    assert not any("deletionTimestamp" in item["metadata"] for item in pods["items"])


async def test_another_server_exits_with_three(live: Live) -> None:
    status, _, err = await live.run("gangs", "--url", live.api.url)
    assert status == 3
    assert "/debug/" in err


async def asked(answer: Callable[[str], tuple[str, str]], *arguments: str) -> int:
    """Run a command against what answers a request (its head) with status line and body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status, body = answer((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return await asyncio.to_thread(main, [*arguments, "--url", url])


async def test_a_server_that_is_not_ready_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    def standby(request: str) -> tuple[str, str]:
        if "/readyz" in request:
            return "503 Service Unavailable", '{"error": "not ready: another replica leads"}'
        return "200 OK", '{"reservations": []}'

    assert await asked(standby, "seats") == 0
    err = capsys.readouterr().err
    assert "note: the server is not ready, what it says may be old: not ready: another" in err


@pytest.mark.parametrize("given", ["option", "file", "environment"])
async def test_a_token_is_shown_and_a_refusal_is_told(
    given: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = []

    def answer(request: str) -> tuple[str, str]:
        shown.append(request)
        return "403 Forbidden", '{"error":"\\u001b[2Jwho are you?"}'

    options = ["--token", "secret"] if given == "option" else []
    if given == "file":
        (tmp_path / "token").write_text("secret\n")
        options = ["--token-file", str(tmp_path / "token")]
    elif given == "environment":
        monkeypatch.setenv("PODGROUP_EXTENDER_TOKEN", "secret")
    assert await asked(answer, "seats", *options) == 3
    err = capsys.readouterr().err
    assert "403: ?[2Jwho are you? (on a shared listener: show a token" in err
    assert all("Authorization: Bearer secret\r\n" in request for request in shown)
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--url", "127.0.0.1:8888"], "must read http://HOST:PORT"),
        (["--url", "http://127.0.0.1:1/debug"], "at the root only"),
        (["--url", "http://127.0.0.1:1/#x"], "at the root only"),
        (["--url", "http://me:secret@127.0.0.1:1"], "a name or password in the address"),
        (["--url", "http://me:secret@[x]:1"], "a name or password in the address"),
        (["--url", "http://example.com", "--token", "t"], "is not sent to http://example.com"),
        (["--url", "https://127.0.0.1:1", "--ca", "/nowhere"], "--ca, --cert or --key"),
        (["--url", "http://127.0.0.1:1", "--ca", "/nowhere"], "are for TLS"),
        (["--url", "http://127.0.0.1:1", "--token-file", "/nowhere"], "/nowhere: cannot be read"),
        (["--url", "http://127.0.0.1:1", "--token", "a b"], "no blanks"),
        (["--kubeconfig", "/nowhere"], "kubeconfig /nowhere: no such file"),
    ],
)
async def test_bad_options_exit_with_two(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(main, ["gangs", *options]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "secret" not in err


NAMESPACE = "podgroup-extender"


class Cluster:
    """A live server behind an API server that forwards ports, and a kubeconfig for both."""

    def __init__(self, live: Live, kubelet: Kubelet, kubeconfig: Path) -> None:
        self.live = live
        self.kubelet = kubelet
        self.kubeconfig = kubeconfig
        self.port = urlsplit(live.url).port or 0

    async def pod(self, name: str, phase: str = "Running", **labels: str) -> None:
        """A pod of the extender."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        await self.live.client.create(
            path,
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": {"app.kubernetes.io/name": "podgroup-extender", **labels},
                },
                "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}]},
            },
        )
        await self.live.client.patch(f"{path}/{name}/status", {"status": {"phase": phase}})

    async def ask(self, *arguments: str) -> tuple[int, str, str]:
        return await self.live.run(*arguments, "--kubeconfig", str(self.kubeconfig))


@contextlib.asynccontextmanager
async def forwarding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], **server: Any
) -> AsyncIterator[Cluster]:
    async with serving(tmp_path, capsys, **server) as live, Kubelet(live.api) as kubelet:
        kubeconfig = tmp_path / "forwarding"
        write_kubeconfig(kubeconfig, kubelet.url)
        document = json.loads(kubeconfig.read_text())
        document["users"][0]["user"] = {"token": "for-the-api-server"}
        kubeconfig.write_text(json.dumps(document))
        yield Cluster(live, kubelet, kubeconfig)


@pytest.fixture
async def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Cluster]:
    async with forwarding(tmp_path, capsys) as made:
        yield made


async def test_the_pod_that_leads_is_asked(cluster: Cluster) -> None:
    await cluster.pod("a")
    await cluster.pod("b", **{"podgroup-extender.io/leader": "true"})
    await cluster.pod("c", phase="Succeeded")
    cluster.kubelet.ports = {"a": free_port(), "b": cluster.port}
    status, out, err = await cluster.ask("gangs")
    assert (status, err) == (0, "")
    assert "pod-group:team/low" in out
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"b"}
    assert {port for _, port, _ in cluster.kubelet.asked} == {"8888"}
    assert {protocol for _, _, protocol in cluster.kubelet.asked} == {"v4.channel.k8s.io"}
    # The API server's own credentials reach the API server, and it only.
    assert set(cluster.kubelet.headers) == {"Bearer for-the-api-server"}


async def test_without_a_label_the_first_that_is_ready_is_asked(cluster: Cluster) -> None:
    await cluster.pod("a")
    await cluster.pod("b")
    cluster.kubelet.ports = {"a": free_port(), "b": cluster.port}
    status, out, _ = await cluster.ask("what-if", "--gang", "high")
    assert status == 0
    assert "plan for pod-group:team/high" in out


async def test_of_one_that_acts_and_one_that_observes_each_is_asked_its_own(
    cluster: Cluster,
) -> None:
    """Both have the program's label, and one that observes is always ready."""
    await cluster.pod("acts", **{"app.kubernetes.io/component": "scheduler"})
    await cluster.pod("aaa-observes", **{"app.kubernetes.io/component": "observer"})
    cluster.kubelet.ports = {"acts": cluster.port, "aaa-observes": cluster.port}
    assert (await cluster.ask("gangs"))[0] == 0
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"acts"}
    cluster.kubelet.asked.clear()
    assert (await cluster.ask("report"))[0] == 1, "it acts, which is what the bed has"
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"aaa-observes"}
    cluster.kubelet.asked.clear()
    await cluster.live.client.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/acts")
    assert (await cluster.ask("gangs"))[0] == 0
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"aaa-observes"}


async def test_what_kubelet_says_is_told(cluster: Cluster) -> None:
    status, _, err = await cluster.ask("gangs")
    assert status == 3
    assert f"no running pod with labels app.kubernetes.io/name={NAMESPACE}" in err
    assert "kubectl describe" not in err
    await cluster.pod("old", phase="Pending")
    status, _, err = await cluster.ask("gangs")
    assert status == 3
    assert ": old is Pending, see `kubectl describe pod` (" in err
    await cluster.pod("a")
    cluster.kubelet.ports = {"a": free_port()}
    status, _, err = await cluster.ask("gangs", "--extender-port", "99")
    assert status == 3
    assert "error forwarding port 99" in err
    status, _, err = await cluster.ask("gangs", "--extender-pod", "nobody")
    assert status == 3
    assert "port 8888 of pod podgroup-extender/nobody" in err


async def test_tls_at_a_url_and_through_the_api_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "podgroup-extender.podgroup-extender.svc")
    ca, pair = tmp_path / "ca.pem", tmp_path / "pair.pem"
    authority.cert_pem.write_to_path(ca)
    issued.private_key_and_cert_chain_pem.write_to_path(pair)
    trusting = ssl.create_default_context(cafile=str(ca))
    async with forwarding(
        tmp_path, capsys, tls=trusting, tls_cert_file=str(pair), tls_key_file=str(pair)
    ) as cluster:
        status, out, _ = await cluster.live.ask("gangs", "--ca", str(ca))
        assert status == 0
        assert "pod-group:team/low" in out
        status, _, err = await cluster.live.ask("gangs")
        assert status == 3
        assert "certificate" in err
        await cluster.pod("a")
        cluster.kubelet.ports = {"a": cluster.port}
        status, out, _ = await cluster.ask("gangs", "--tls", "--ca", str(ca))
        assert status == 0
        status, _, err = await cluster.ask(
            "gangs", "--tls", "--ca", str(ca), "--server-name", "other"
        )
        assert status == 3
        assert "certificate" in err
        assert (await cluster.ask("gangs"))[0] == 3
