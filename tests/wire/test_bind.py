"""ExtenderBindingArgs as kube-scheduler and others write them."""

from __future__ import annotations

import json

import pytest

from extender.model.errors import InvalidInput
from extender.wire.bind_json import BindArgs, BindResult, decode_bind_args, encode_bind_result
from tests.wire.documents import dump

ASKED = {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"}


def test_go_s_spelling() -> None:
    assert decode_bind_args(dump(ASKED)) == BindArgs("p", "ns", "uid-p", "n1")


def test_any_letter_case_and_other_fields() -> None:
    body = {key.lower(): value for key, value in ASKED.items()} | {"More": 1}
    assert decode_bind_args(dump(body)) == BindArgs("p", "ns", "uid-p", "n1")


@pytest.mark.parametrize("missing", list(ASKED))
def test_each_field_is_needed(missing: str) -> None:
    for body in ({**ASKED, missing: ""}, {k: v for k, v in ASKED.items() if k != missing}):
        with pytest.raises(InvalidInput) as found:
            decode_bind_args(dump(body))
        assert found.value.where == missing


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"PodName": 1}', b"\xff"])
def test_malformed(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_bind_args(body)


def test_answers() -> None:
    assert json.loads(encode_bind_result(BindResult())) == {"Error": ""}
    assert json.loads(encode_bind_result(BindResult("no"))) == {"Error": "no"}
