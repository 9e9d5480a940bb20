"""One binding: what each answer of the API server leads to, and what is read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from extender.gang.controller.requests import Binder, Binding, BindingOutcome, Ended
from extender.gang.runtime.clocks import Clocks
from extender.kube.api import KubeApi
from extender.kube.api_errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unavailable,
)

ONE = Binding("u", "ns", "p", "n1")
LOST = Unavailable(0, "ConnectionLost", "the other end closed the connection")
BUSY = TooManyRequests(429, "TooManyRequests", "later", 1.0)
TAKEN = Conflict(409, "Conflict", "is already assigned")
Step = ApiError | None


class Api:
    """Answers creations from a list, the last one over and over, and reads of one pod."""

    def __init__(self, answers: Sequence[Step], pod: dict[str, Any] | ApiError) -> None:
        self.answers = list(answers)
        self.pod = pod
        self.posted: list[tuple[str, dict[str, Any], bool]] = []
        self.reads = 0

    async def create(self, path: str, body: Any, *, dry_run: bool = False) -> dict[str, Any]:
        self.posted.append((path, body, dry_run))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return {}

    async def get(self, path: str) -> dict[str, Any]:
        self.reads += 1
        if isinstance(self.pod, ApiError):
            raise self.pod
        return self.pod


def pod(node: str = "", uid: str = "u", deleting: str = "") -> dict[str, Any]:
    meta = {"uid": uid} | ({"deletionTimestamp": deleting} if deleting else {})
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}}


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def bound(api: Api, allowed: Any = lambda: True) -> Ended:
    time = Time()
    binder = Binder(cast("KubeApi", api), 10.0, clocks=Clocks(lambda: time.now, sleep=time.sleep))
    return await binder.bind(ONE, allowed)


async def test_the_request_names_the_pod_s_uid() -> None:
    api = Api([None], pod())
    assert (await bound(api)).ending is BindingOutcome.BOUND
    ((path, body, dry_run),) = api.posted
    assert path == "/api/v1/namespaces/ns/pods/p/binding"
    assert body["metadata"] == {"name": "p", "namespace": "ns", "uid": "u"}
    assert body["target"] == {"kind": "Node", "name": "n1"}
    assert not dry_run


@pytest.mark.parametrize(
    ("answers", "found", "ending", "posts"),
    [
        ([LOST, None], pod(), BindingOutcome.BOUND, 2),
        ([LOST], pod("n1"), BindingOutcome.BOUND, 1),
        ([LOST], pod("n2"), BindingOutcome.REFUSED, 1),
        ([LOST], pod(uid="other"), BindingOutcome.REFUSED, 1),
        ([LOST], pod(deleting="now"), BindingOutcome.REFUSED, 1),
        ([LOST], NotFound(404, "NotFound", "gone"), BindingOutcome.REFUSED, 1),
        ([TAKEN], pod("n1"), BindingOutcome.BOUND, 1),
        ([TAKEN], pod("n2"), BindingOutcome.REFUSED, 1),
        ([TAKEN, None], pod(), BindingOutcome.BOUND, 2),
        ([BUSY, BUSY, None], pod(), BindingOutcome.BOUND, 3),
        ([Forbidden(403, "Forbidden", "no")], pod(), BindingOutcome.REFUSED, 1),
        ([NotFound(404, "NotFound", "gone")], pod(), BindingOutcome.REFUSED, 1),
    ],
)
async def test_answers(
    answers: list[Step], found: dict[str, Any] | ApiError, ending: BindingOutcome, posts: int
) -> None:
    api = Api(answers, found)
    ended = await bound(api)
    assert (ended.ending, len(api.posted)) == (ending, posts)
    assert bool(ended.why) is (ending is not BindingOutcome.BOUND)


@pytest.mark.parametrize("answer", [LOST, BUSY, TAKEN])
async def test_it_ends_in_time(answer: ApiError) -> None:
    """Unknown to the end: the last request may yet be done, so it is not called refused."""
    api = Api([answer], pod())
    ended = await bound(api)
    assert ended.ending is BindingOutcome.LATE
    assert "not accepted within 10 s" in ended.why
    assert 3 <= len(api.posted) <= 20


async def test_what_cannot_be_read_back_is_tried_again() -> None:
    api = Api([LOST, LOST, None], LOST)
    assert (await bound(api)).ending is BindingOutcome.BOUND
    assert (len(api.posted), api.reads) == (3, 2)


async def test_nothing_is_sent_that_is_not_allowed() -> None:
    api = Api([None], pod())
    assert (await bound(api, lambda: False)).ending is BindingOutcome.STOPPED
    assert not api.posted


async def test_stopped_after_an_unclear_answer_it_may_yet_be_done() -> None:
    api = Api([LOST], LOST)
    left = iter([True, False])
    assert (await bound(api, lambda: next(left))).ending is BindingOutcome.LATE


async def rehearsed(api: Api, *bindings: Binding) -> list[Ended]:
    time = Time()
    binder = Binder(cast("KubeApi", api), 10.0, clocks=Clocks(lambda: time.now, sleep=time.sleep))
    return await binder.rehearse(bindings or [ONE], lambda: True)


async def test_a_rehearsal_binds_nobody_and_tells_who_is_refused() -> None:
    api = Api([None, Forbidden(403, "Forbidden", "no")], pod())
    other = Binding("u2", "ns", "q", "n2")
    failed = await rehearsed(api, ONE, other)
    assert [each.binding for each in failed] == [other]
    assert all(dry_run for _, _, dry_run in api.posted)


async def test_a_webhook_that_takes_no_dry_runs_is_not_rehearsed() -> None:
    words = 'admission webhook "w.example.com" does not support dry run'
    assert await rehearsed(Api([ApiError(400, "BadRequest", words)], pod())) == []


async def test_an_unclear_rehearsal_is_only_repeated() -> None:
    """It changes nothing, so there is nothing to read back."""
    api = Api([LOST, None], pod())
    assert await rehearsed(api) == []
    assert api.reads == 0
