"""preempt on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.model.errors import InvalidInput
from extender.wire.preempt_json import (
    NodeVictims,
    PreemptArgs,
    PreemptResult,
    decode_preempt_args,
    encode_preempt_result,
)
from tests.wire.documents import POD, dump, preempt_meta, preempt_whole

VICTIMS = {"n1": ["a", "b"], "n2": [], "n3": ["c"]}
EXPECTED = {
    "n1": NodeVictims(("a", "b"), 1),
    "n2": NodeVictims((), 0),
    "n3": NodeVictims(("c",), 0),
}


def respell(value: Any, spell: Callable[[str], str], names: set[str]) -> Any:
    """Spell the protocol's own field names in another way, at any depth."""
    if isinstance(value, dict):
        return {
            spell(k) if k in names else k: v if k == "Pod" else respell(v, spell, names)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [respell(inner, spell, names) for inner in value]
    return value


FIELDS = {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims", "Pods", "UID", "NumPDBViolations"}


@pytest.mark.parametrize("form", [preempt_meta, preempt_whole])
class TestBothForms:
    def test_candidates(self, form: Callable[[Any], Any]) -> None:
        args = decode_preempt_args(dump(form(VICTIMS)))
        assert args.candidates == EXPECTED
        assert args.pod.uid == "uid-p"

    @pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase])
    def test_any_letter_case(self, form: Callable[[Any], Any], spell: Callable[[str], str]) -> None:
        odd = respell(form(VICTIMS), spell, FIELDS)
        assert decode_preempt_args(dump(odd)).candidates == EXPECTED

    def test_one_odd_name_deep_inside(self, form: Callable[[Any], Any]) -> None:
        for name in sorted(FIELDS):
            odd = respell(form(VICTIMS), str.lower, {name})
            assert decode_preempt_args(dump(odd)).candidates == EXPECTED, name

    def test_no_candidate(self, form: Callable[[Any], Any]) -> None:
        assert decode_preempt_args(dump(form({}))).candidates == {}


def test_null_and_absent_count_as_empty() -> None:
    document = {
        "Pod": POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            "n1": None,
            "n2": {"Pods": None, "NumPDBViolations": 0},
            "n3": {},
            "n4": {"Pods": [{"UID": "a"}], "NumPDBViolations": None},
        },
    }
    candidates = decode_preempt_args(dump(document)).candidates
    assert candidates == {
        "n1": NodeVictims(()),
        "n2": NodeVictims(()),
        "n3": NodeVictims(()),
        "n4": NodeVictims(("a",)),
    }


def test_of_two_maps_the_filled_one_counts() -> None:
    filled = preempt_whole({"n1": ["a"]}) | {"NodeNameToMetaVictims": {}}
    assert decode_preempt_args(dump(filled)).candidates == {"n1": NodeVictims(("a",))}
    both = preempt_whole({"n1": ["a"]}) | {
        "NodeNameToMetaVictims": preempt_meta({"n2": ["b"]})["NodeNameToMetaVictims"]
    }
    assert decode_preempt_args(dump(both)).candidates == {"n2": NodeVictims(("b",))}


META = "NodeNameToMetaVictims"
WHOLE = "NodeNameToVictims"


@pytest.mark.parametrize(
    ("document", "where", "what"),
    [
        ({META: {}, WHOLE: None}, "Pod", "missing"),
        ({"Pod": POD}, META, "neither"),
        ({"Pod": POD, META: None, WHOLE: None}, META, "neither"),
        ({"Pod": POD, META: [], WHOLE: None}, META, "Expected `object"),
        ({"Pod": POD, META: {"n": []}, WHOLE: None}, f"{META}[...]", "Expected `object"),
        (
            {"Pod": POD, META: {"n": {"Pods": [{"UID": 1}]}}, WHOLE: None},
            f"{META}[...].Pods[0].UID",
            "Expected `str",
        ),
        (
            {"Pod": POD, META: {"n": {"pods": [{"uid": "a"}, {"uid": ""}]}}},
            f"{META}['n'].Pods[1].UID",
            "missing or empty",
        ),
        (
            {"Pod": POD, META: {"n": {"Pods": [{}]}}},
            f"{META}['n'].Pods[0].UID",
            "missing or empty",
        ),
        ({"Pod": POD, META: {"n": {"Pods": [None]}}}, f"{META}[...].Pods[0]", "Expected `object"),
        (
            {"Pod": POD, WHOLE: {"n": {"Pods": [{"metadata": {}}]}}},
            f"{WHOLE}['n'].Pods[0].metadata.uid",
            "missing or empty",
        ),
        (
            {"Pod": POD, META: {"n": {"NumPDBViolations": -1}}},
            f"{META}[...].NumPDBViolations",
            ">= 0",
        ),
        (
            {"Pod": POD, META: {"n": {"NumPDBViolations": 2**64}}},
            f"{META}[...].NumPDBViolations",
            "",
        ),
        (
            {"Pod": POD, META: {"n": {"NumPDBViolations": "1"}}},
            f"{META}[...].NumPDBViolations",
            "Expected `int",
        ),
    ],
)
def test_bad_input_says_what_and_where(document: Any, where: str, what: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode_preempt_args(dump(document))
    assert caught.value.where == where
    assert what in caught.value.message


def test_answer() -> None:
    result = PreemptResult({"n1": NodeVictims(("a", "b"), 1)})
    assert json.loads(encode_preempt_result(result)) == {
        META: {"n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}}
    }
    assert encode_preempt_result(PreemptResult()) == b'{"NodeNameToMetaVictims":{}}'


text = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(text, st.lists(text.filter(bool), max_size=3), max_size=4),
    st.sampled_from([preempt_meta, preempt_whole]),
    st.sampled_from([str, str.lower, str.upper]),
)
def test_round_trip(victims: dict[str, list[str]], form: Any, spell: Any) -> None:
    document = form(victims)
    odd = {spell(key): value for key, value in document.items()}
    args: PreemptArgs = decode_preempt_args(dump(odd))
    assert {node: list(one.uids) for node, one in args.candidates.items()} == victims
    echoed = json.loads(encode_preempt_result(PreemptResult(args.candidates)))
    assert echoed[META] == preempt_meta(victims)[META]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(text | st.sampled_from(sorted(FIELDS)), inner, max_size=3)
    ),
    max_leaves=8,
)
top = st.dictionaries(
    st.sampled_from([*sorted(FIELDS), "pod", "nodenametovictims"]),
    values | st.just(POD),
    max_size=5,
)


@settings(max_examples=400, deadline=None)
@given(values.map(dump) | top.map(dump) | st.binary(max_size=64))
def test_anything_is_a_question_or_invalid_input(body: bytes) -> None:
    try:
        decode_preempt_args(body)
    except InvalidInput:
        pass  # the only error allowed


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_documents(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([preempt_meta, preempt_whole]))
    body = bytearray(dump(form(VICTIMS)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_preempt_args(bytes(body))
    except InvalidInput:
        pass  # the only error allowed
