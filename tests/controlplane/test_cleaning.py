"""Definitions whose removal the API server no longer tries, and what a failure to clean tells."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.cleaning import Baseline
from tests.controlplane.client import ApiError, Client, Object


class _GivesUp(Client):
    """An API server with one definition that is looked at again only when it is changed."""

    def __init__(self, reason: str) -> None:
        self.namespace = "default"
        self._reason = reason
        self._there: list[Object] = []
        self.changes: list[Any] = []

    def define(self) -> None:
        self._there = [{"metadata": {"name": "a.b", "uid": "1", "resourceVersion": "7"}}]

    def list(self, kind: str, namespace: str | None = None, **query: Any) -> list[Object]:
        return self._there if kind == "CustomResourceDefinition" else []

    def delete(self, kind: str, name: str, *arguments: Any, **more: Any) -> None:
        condition = {"type": "Terminating", "reason": self._reason}
        self._there[0]["status"] = {"conditions": [condition]}

    def patch(self, kind: str, name: str, patch: Any, *arguments: Any, **more: Any) -> Object:
        self.changes.append(patch["metadata"]["annotations"])
        self._there = []
        # As it is where the API server was faster.
        raise ApiError(404, f"PATCH {name}", {})


def test_a_definition_whose_removal_is_no_longer_tried_is_changed() -> None:
    client = _GivesUp("InstanceDeletionFailed")
    baseline = Baseline(client)
    client.define()
    baseline.clean(timeout=1)
    assert client.changes == [{"example.com/look-again": "7"}]


def test_what_did_not_go_is_told_by_name() -> None:
    client = _GivesUp("InstanceDeletionInProgress")
    baseline = Baseline(client)
    client.define()
    with pytest.raises(TimeoutError, match=r"left: CustomResourceDefinition /a\.b$"):
        baseline.clean(timeout=0.1)
    assert client.changes == []
