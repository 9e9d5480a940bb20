"""Watch, one team, all: the chart's own objects at each step, with the real program and scheduler.

Helm installs into a real API server. What it has put there is what runs: the configuration of its
ConfigMaps, with the rights of its service account.
"""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from extender.check import config
from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import ServerSettings
from tests.controlplane.client import ApiError
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import User, write_kubeconfig
from tests.controlplane.objects import make_pod
from tests.install.charts import CHART, Helm, Object

RELEASE = "podgroup-extender"
ACCOUNT = "system:serviceaccount:{}:podgroup-extender"
TEAMS = ("asks", "waits")
"""The namespace that has the label, and the one that has not."""
STEPS: dict[str, tuple[Object, set[str]]] = {
    "observe": ({"mode": "observe"}, set()),
    "team": (
        {
            "mode": "enforce",
            "enforce": {
                "namespaces": {"matchLabels": {"podgroup-extender.io/enforce": "true"}},
            },
        },
        {"asks"},
    ),
    "all": ({"mode": "enforce"}, set(TEAMS)),
}
"""Values of ``config``, and for whom the extender then evicts."""
SAID = {"observe": "It observes", "team": "It acts for the namespaces"}
"""What Helm prints at a step, and at no other one."""
QUIET_SECONDS = 2.0
SECONDS = 60.0


class Site:
    """A cluster with a release, and one team's namespace for each of TEAMS."""

    def __init__(self, cluster: Cluster, helm: Helm, folder: Path) -> None:
        self.cluster, self.helm, self.folder = cluster, helm, folder
        self.pods: dict[str, Cluster] = {}
        cluster.priority_classes(low=1, high=1000)
        for team in TEAMS:
            labels = {"podgroup-extender.io/enforce": "true"} if team == "asks" else {}
            space = Cluster(cluster.control_plane, cluster.client.fork(team), team)
            space.make_namespace()
            cluster.client.patch("Namespace", team, {"metadata": {"labels": labels}})
            space.nodes(2, prefix=team, labels={"team": team})
            self.pods[team] = space

    def step(self, values: Object) -> str:
        """``helm upgrade --install``, as the README has it; what it prints."""
        given = {"config": {**values, "seats": {"recordNamespace": self.cluster.namespace}}}
        done = self.helm.run(
            *("upgrade", "--install", RELEASE, str(CHART), "--values", "-"),
            *("--namespace", self.cluster.namespace),
            stdin=json.dumps(given),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def process(self) -> ExtenderProcess:
        """The program with the release's configuration, as its service account."""
        settings = config.parse(self._file("podgroup-extender-config", "config.yaml"))
        # Where the pod listens, others do on this machine.
        settings = replace(settings, server=ServerSettings())
        if settings.observe.file:
            observed = replace(settings.observe, file=str(self.folder / "observe.json"))
            settings = replace(settings, observe=observed)
        return ExtenderProcess(self.folder, self._kubeconfig(), settings)

    def scheduler(self, url: str) -> Object:
        """The release's configuration of kube-scheduler, with the extender where it runs here."""
        document: Object = yaml.safe_load(
            self._file("podgroup-scheduler-config", "kube-scheduler-config.yaml")
        )
        document = copy.deepcopy(document)
        document["leaderElection"] = {"leaderElect": False}
        for entry in document["extenders"]:
            entry["urlPrefix"] = url
        return document

    def play(self) -> None:
        """In each namespace a gang runs, and a more urgent one comes, a member at a time."""
        for team, space in self.pods.items():
            space.client.delete_all("Pod", grace=0)
            space.client.wait_for(
                lambda space=space: not space.client.list("Pod"),  # type: ignore[misc]
                what="no pods",
            )
            for name, urgency in (("old", "low"), ("new", "high")):
                if space.client.get_or_none("PodGroup", name) is None:
                    space.pod_group(name, 2, disruption="all", priority_class=urgency)
            for index in range(2):
                node = f"{team}{index}"
                space.client.create(
                    make_pod(
                        f"old-{index}", cpu=3, priority_class="low", pod_group="old", node=node
                    )
                )
            space.client.wait_running("old-0", "old-1")
        for team, space in self.pods.items():
            for index in range(2):
                spec = {
                    "schedulerName": "podgroup-scheduler",
                    "nodeSelector": {"team": team},
                }
                space.client.create(
                    make_pod(
                        f"new-{index}", cpu=3, priority_class="high", pod_group="new", spec=spec
                    )
                )
        for space in self.pods.values():
            space.client.wait_running("new-0", "new-1", timeout=SECONDS)

    def evicted(self, since: float) -> dict[str, set[str]]:
        """Who has removed running pods of each team since then, but for the test itself."""
        found: dict[str, set[str]] = {team: set() for team in TEAMS}
        for record in self.cluster.control_plane.removals(since):
            what, user = record["objectRef"], record["user"]["username"]
            name = str(what.get("name", ""))
            if what["namespace"] in found and name.startswith("old-"):
                found[what["namespace"]].add(user)
        return found

    def may_not_evict(self) -> None:
        """The API server refuses what the program does not even try.

        Pods may be deleted: kube-scheduler preempts so, and both are in one pod with one account.
        """
        for space in self.pods.values():
            with space.client.fork(token=self._token()) as account:
                assert account.list("Pod", space.namespace)
                with pytest.raises(ApiError) as refused:
                    account.evict("new-0", space.namespace)
                assert refused.value.status == 403

    def _file(self, name: str, key: str) -> str:
        return str(self.cluster.client.get("ConfigMap", name)["data"][key])

    def _kubeconfig(self) -> Path:
        layout = self.cluster.control_plane.layout
        account = User(RELEASE, (), self._token())
        path = self.folder / "account"
        return write_kubeconfig(path, layout.server_url, layout.ca_file, account)

    def _token(self) -> str:
        space = self.cluster.namespace
        path = f"/api/v1/namespaces/{space}/serviceaccounts/{RELEASE}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.cluster.client.request("POST", path, asked)["status"]["token"])


@pytest.fixture
def site(cluster: Cluster, helm_program: Path, tmp_path: Path) -> Iterator[Site]:
    helm = Helm(helm_program, tmp_path, cluster.control_plane.kubeconfig)
    made = Site(cluster, helm, tmp_path)
    yield made
    helm.run("uninstall", RELEASE, "--namespace", cluster.namespace, "--ignore-not-found")


async def test_each_step_does_what_the_page_says(site: Site) -> None:
    ours = ACCOUNT.format(site.cluster.namespace)
    for name, (values, acted_for) in STEPS.items():
        told = await asyncio.to_thread(site.step, values)
        assert {step for step, words in SAID.items() if words in told} == SAID.keys() & {name}
        extender = await asyncio.to_thread(site.process)
        try:
            await extender.start()
            await asyncio.to_thread(site.cluster.use_scheduler, site.scheduler(extender.url))
            began = time.time()
            await asyncio.sleep(1.1)  # The audit log's times are compared by the second.
            await asyncio.to_thread(site.play)
            await asyncio.sleep(QUIET_SECONDS)
            by: dict[str, Any] = await asyncio.to_thread(site.evicted, began)
            assert {team for team in TEAMS if ours in by[team]} == acted_for, (name, by)
            if name == "observe":
                assert set(extender.asked) == {"GET"}
                await asyncio.to_thread(site.may_not_evict)
            for team in acted_for:
                left = {p["metadata"]["name"] for p in site.pods[team].client.list("Pod")}
                assert left == {"new-0", "new-1"}, (name, team)
            extender.check()
        finally:
            await extender.close()
