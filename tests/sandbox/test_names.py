"""Generated names, with a source of names that a test holds in its hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import pytest

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.resources import EVENTS, PODS, served
from extender.sandbox.rest import Api, generated
from extender.sandbox.storage import Storage
from tests.sandbox.conftest import pod


def api_with(letters: Iterator[str]) -> Api:
    return Api(Storage(keep=10), served("1.37"), names=lambda prefix: prefix + next(letters))


def named(prefix: str) -> Obj:
    return {**pod(), "metadata": {"generateName": prefix}}


def test_a_generated_name_that_is_taken_is_generated_anew() -> None:
    api = api_with(iter("aaab"))
    names = [api.create(PODS, "default", named("x-"))["metadata"]["name"] for _ in range(2)]
    assert names == ["x-a", "x-b"]


def test_after_eight_taken_names_the_create_is_refused() -> None:
    api = api_with(repeat("a"))
    api.create(PODS, "default", named("x-"))
    with pytest.raises(StatusError, match='"x-a" already exists') as refused:
        api.create(PODS, "default", named("x-"))
    assert refused.value.code == 409


def test_an_event_that_is_refused_hurts_nobody() -> None:
    api = api_with(repeat("a"))
    about = api.create(PODS, "default", pod())
    for _ in range(2):
        api.event(about, reason="Tried", message="twice in vain")
    assert len(api.storage.all(EVENTS.key)) == 1
    api.event(
        {**about, "metadata": {**about["metadata"], "namespace": "gone"}}, reason="", message=""
    )


def test_generated_names_are_names() -> None:
    names = {generated("x-") for _ in range(50)}
    assert len(names) > 40
    assert all(len(name) == 7 and name.startswith("x-") for name in names)
