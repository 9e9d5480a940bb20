"""The status ConfigMap: when it is written, by whom, and what a refusal costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from structlog.testing import capture_logs

from extender.gang.runtime.clocks import Clocks
from extender.gang.status.status_map import KEY, SELDOM_SECONDS, TELL_SECONDS, StatusMap
from extender.kube.client import KubeClient
from extender.model.errors import InvalidInput
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from extender.settings.status import MARK_LABEL, StatusSettings

BASE = "/api/v1/namespaces/kube-system/configmaps"
PATH = f"{BASE}/podgroup-extender-status"
SECONDS = StatusSettings().seconds


class Lease:
    acts = True
    epoch = 1


class Stage:
    """A status map on the sandbox's API server, with a clock that is set by hand."""

    def __init__(self, api: ApiServer, client: KubeClient) -> None:
        self.api = api
        self.client = client
        self.now = 1000.0
        self.lease = Lease()
        self.text: str | None = "gangs: 1\n"
        self.asked: list[float] = []
        self.source: Any = SimpleNamespace(text=self.read)
        self.map = self.another(self.lease)

    def another(self, lease: Lease) -> StatusMap:
        clocks = Clocks(lambda: self.now, lambda: self.now)
        return StatusMap(
            self.client, "kube-system", StatusSettings(), lease, self.source, clocks=clocks
        )

    async def read(self, since: float) -> str | None:
        self.asked.append(since)
        return self.text

    async def after(self, seconds: float) -> None:
        self.now += seconds
        await self.map.look()

    async def version(self) -> str:
        return str((await self.client.get(PATH))["metadata"]["resourceVersion"])

    async def said(self) -> Any:
        return yaml.safe_load((await self.client.get(PATH))["data"][KEY])


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    api = ApiServer()
    await api.start()
    async with await KubeClient.connect(server=api.url) as client:
        yield Stage(api, client)
    await api.close()


async def test_it_is_written_when_it_says_something_else_and_not_too_often(stage: Stage) -> None:
    await stage.map.look()
    assert await stage.said() == {"time": "1970-01-01T00:16:40Z", "gangs": 1}
    first = await stage.version()
    stage.text = "gangs: 2\n"
    await stage.after(SECONDS - 1)
    assert await stage.version() == first, "sooner than status.seconds"
    assert len(stage.asked) == 1, "and read for nothing"
    await stage.after(1)
    assert (await stage.said())["gangs"] == 2
    second = await stage.version()
    await stage.after(SECONDS)
    assert await stage.version() == second, "written although nothing has changed"
    await stage.after(StatusSettings().heartbeat_seconds)
    assert await stage.version() != second, "no heartbeat"
    assert set(stage.asked) == {1000.0}, "since when we lead"


async def test_neither_a_standby_nor_who_has_lost_the_lease_writes(stage: Stage) -> None:
    stage.lease.acts = False
    await stage.map.look()
    assert (await stage.client.get(BASE))["items"] == []
    assert stage.asked == []
    stage.lease.acts = True
    await stage.after(SECONDS)
    first = await stage.version()

    # It reads as long as it leads; the lease was deleted when the write would leave.
    async def fenced(since: float) -> str:
        stage.lease.acts = False
        return "gangs: 3\n"

    stage.source.text = fenced
    await stage.after(SECONDS)
    assert await stage.version() == first
    # A term of its own begins with a time of its own.
    stage.source.text = stage.read
    await stage.after(SECONDS)
    stage.lease.acts = True
    await stage.after(SECONDS)
    assert stage.asked[-1] == stage.now


async def test_the_lease_is_asked_when_the_turn_of_the_write_comes(stage: Stage) -> None:
    """The read before it is answered while the lease holds, and the write is not sent."""
    await stage.map.look()
    first = await stage.version()
    real = stage.client.get

    async def get(path: str, **more: Any) -> dict[str, Any]:
        found = await real(path, **more)
        stage.lease.acts = False
        return found

    stage.client.get = get  # type: ignore[method-assign]
    stage.text = "gangs: 4\n"
    with capture_logs() as logs:
        await stage.after(SECONDS)
    stage.client.get = real  # type: ignore[method-assign]
    assert await stage.version() == first
    assert logs == [], "that is no trouble"


@pytest.mark.parametrize(
    ("status", "pause"), [(403, SELDOM_SECONDS), (409, SECONDS), (429, 200.0), (503, SECONDS)]
)
async def test_a_refusal_is_told_once_and_tried_again_later(
    stage: Stage, status: int, pause: float
) -> None:
    after = 200 if status == 429 else None
    fault = Fault(10**6, path="configmaps", status=status, reason="No", retry_after=after)
    stage.api.faults.plan(fault)
    with capture_logs() as logs:
        await stage.map.look()
        assert fault.hits == 1
        await stage.after(pause - 1)
        assert fault.hits == 1, "a retry storm"
        tries = 1
        while stage.now < 1000 + TELL_SECONDS - pause:
            await stage.after(pause)
            tries += 1
        assert fault.hits == tries > 1
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert "kube-system/podgroup-extender-status" in logs[0]["config_map"]
    stage.api.faults.clear()
    await stage.after(SELDOM_SECONDS)
    assert (await stage.said())["gangs"] == 1


async def test_who_wrote_in_between_is_not_overwritten_unseen(stage: Stage) -> None:
    await stage.map.look()
    other = stage.another(Lease())
    real = stage.client.get

    async def get(path: str, **more: Any) -> dict[str, Any]:
        found = await real(path, **more)
        stage.client.get = real  # type: ignore[method-assign]
        stage.text = "gangs: other\n"
        await other.look()
        return found

    stage.text = "gangs: mine\n"
    stage.client.get = get  # type: ignore[method-assign]
    await stage.after(SECONDS)
    assert (await stage.said())["gangs"] == "other"
    await stage.after(SECONDS)
    assert (await stage.said())["gangs"] == "other", "the text of now"


async def test_what_somebody_else_has_under_that_name_stays(stage: Stage) -> None:
    theirs = {"metadata": {"name": "podgroup-extender-status"}, "data": {"a": "b"}}
    await stage.client.create(BASE, theirs)
    with capture_logs() as logs:
        await stage.map.look()
        await stage.after(SELDOM_SECONDS)
    assert (await stage.client.get(PATH))["data"] == {"a": "b"}
    assert len(logs) == 1
    assert "belongs to others" in logs[0]["error"]
    # An empty one is made for us, where we may not create.
    await stage.client.delete(PATH)
    await stage.client.create(BASE, {"metadata": {"name": "podgroup-extender-status"}})
    await stage.after(SELDOM_SECONDS)
    found = await stage.client.get(PATH)
    assert found["metadata"]["labels"] == {MARK_LABEL: "true"}
    assert KEY in found["data"]


async def test_a_defect_in_what_is_told_ends_nothing(stage: Stage) -> None:
    async def broken(since: float) -> str:
        raise ZeroDivisionError("a defect")

    rounds = 0

    async def sleep(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        stage.now += SELDOM_SECONDS
        if rounds == 3:
            stage.source.text = stage.read
        if rounds == 5:
            raise KeyboardInterrupt

    stage.source.text = broken
    stage.map._clocks = replace(stage.map._clocks, sleep=sleep)
    with capture_logs() as logs, pytest.raises(KeyboardInterrupt):
        await stage.map.run()
    assert [entry["kind"] for entry in logs] == ["defect"]
    assert (await stage.said())["gangs"] == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "Status"}, "status.name must be a DNS subdomain"),
        ({"name": "podgroup-extender-suspended"}, "status.name must not begin with"),
        ({"name": "podgroup-plan-1-2"}, "status.name must not begin with"),
        ({"seconds": 0.5}, "status.seconds must be at least 1"),
        ({"heartbeat_seconds": 29.0}, "status.heartbeatSeconds must not be below"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        validate(Settings(status=replace(StatusSettings(), **change)))
