"""filter and prioritize on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from extender.model.errors import InvalidInput
from extender.wire.filter_json import (
    FilterArgs,
    FilterResult,
    HostPriority,
    decode_filter_args,
    encode_filter_result,
    encode_priorities,
)
from tests.wire.documents import POD, dump, filter_by_name, filter_by_node, node

NAMES = ["n1", "n2", "n3"]


def answer(result: FilterResult, args: FilterArgs) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(encode_filter_result(result, args))
    return decoded


class TestQuestion:
    def test_names(self) -> None:
        args = decode_filter_args(dump(filter_by_name(NAMES)))
        assert (args.node_names, args.names_only, args.nodes) == (NAMES, True, {})
        assert (args.pod.uid, args.pod.key, args.pod.priority) == ("uid-p", "ns/p", 7)
        assert dict(args.pod.requests)["cpu"] == 3000

    def test_whole_nodes(self) -> None:
        args = decode_filter_args(dump(filter_by_node(NAMES)))
        assert (args.node_names, args.names_only) == (NAMES, False)

    def test_no_node_on_offer(self) -> None:
        assert decode_filter_args(dump(filter_by_name([]))).node_names == []
        forms: list[dict[str, Any]] = [{"metadata": {}, "items": []}, {"items": None}, {}]
        for nodes in forms:
            args = decode_filter_args(dump({"Pod": POD, "Nodes": nodes, "NodeNames": None}))
            assert (args.node_names, args.names_only) == ([], False)

    def test_names_win_when_both_are_given(self) -> None:
        document = filter_by_node(NAMES) | {"NodeNames": ["n2"]}
        args = decode_filter_args(dump(document))
        assert (args.node_names, args.names_only) == (["n2"], True)

    @pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase])
    def test_any_letter_case(self, spell: Any) -> None:
        for document in (filter_by_name(NAMES), filter_by_node(NAMES)):
            odd = {spell(key): value for key, value in document.items()}
            usual = decode_filter_args(dump(document))
            assert decode_filter_args(dump(odd)) == replace(usual, names_json=Raw())

    def test_one_odd_name_among_proper_ones(self) -> None:
        odd = {"Pod": POD, "Nodes": None, "nodenames": NAMES}
        assert decode_filter_args(dump(odd)).node_names == NAMES

    def test_a_map_that_leaves_fields_out(self) -> None:
        assert decode_filter_args(dump({"pod": POD, "nodenames": NAMES})).node_names == NAMES

    def test_the_objects_inside_keep_their_own_spelling(self) -> None:
        odd = filter_by_name(NAMES) | {"Pod": POD | {"Spec": {"priority": 9}}}
        assert decode_filter_args(dump(odd)).pod.priority == 7

    @pytest.mark.parametrize(
        ("document", "where", "what"),
        [
            ({"Nodes": None, "NodeNames": []}, "Pod", "missing"),
            ({"Pod": None, "Nodes": None, "NodeNames": []}, "Pod", "missing"),
            ({"pod": None, "nodenames": []}, "Pod", "missing"),
            ({"Pod": 3, "NodeNames": []}, "Pod", ""),
            ({"Pod": {"metadata": {"name": "x"}}, "NodeNames": []}, "Pod.metadata.uid", "missing"),
            (
                {"Pod": {"metadata": {"uid": "u", "name": "x"}, "spec": {"priority": "high"}}},
                "Pod",
                "priority",
            ),
            ({"Pod": POD, "Nodes": None, "NodeNames": None}, "NodeNames", "neither"),
            ({"Pod": POD}, "NodeNames", "neither"),
            ({"Pod": POD, "Nodes": None, "NodeNames": ["a", 1]}, "NodeNames[1]", "Expected `str`"),
            ({"Pod": POD, "Nodes": None, "NodeNames": "a"}, "NodeNames", "Expected `array"),
            ({"Pod": POD, "NODENAMES": {"a": 1}}, "NodeNames", "Expected `array"),
            ({"Pod": POD, "Nodes": 1, "NodeNames": None}, "Nodes", "Expected `object`"),
            ({"Pod": POD, "Nodes": {"items": 1}, "NodeNames": None}, "Nodes.items", "array"),
            (
                {"Pod": POD, "Nodes": {"items": [node("a"), {}]}, "NodeNames": None},
                "Nodes.items[1]",
                "metadata",
            ),
            (
                {"Pod": POD, "Nodes": {"items": [node("")]}, "NodeNames": None},
                "Nodes.items[0].metadata.name",
                "empty",
            ),
            (
                {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": 1}}]}, "NodeNames": None},
                "Nodes.items[0].metadata.name",
                "Expected `str`",
            ),
            ([], "", "Expected `object`"),
            (None, "", "Expected `object`"),
        ],
    )
    def test_bad_input_says_what_and_where(self, document: Any, where: str, what: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            decode_filter_args(dump(document))
        assert caught.value.where == where
        assert what in caught.value.message

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"\xff\xfe",
            dump(filter_by_name(NAMES))[:-40],
            dump(filter_by_name(NAMES)) + b"{}",
            b"[" * 100_000,
            b'{"Pod":' * 100_000,
            b'{"Pod":{},"NodeNames":["\xff"]}',
            b'{"pod":{"metadata":{"name":"a\xff","uid":"u"}},"NodeNames":[]}',
        ],
    )
    def test_what_is_no_json(self, body: bytes) -> None:
        with pytest.raises(InvalidInput):
            decode_filter_args(body)


class TestAnswer:
    def test_go_names_and_nothing_else(self) -> None:
        args = decode_filter_args(dump(filter_by_name(NAMES)))
        result = FilterResult(["n1"], {"n2": "why"}, {"n3": "held"}, "")
        assert answer(result, args) == {
            "Nodes": None,
            "NodeNames": ["n1"],
            "FailedNodes": {"n2": "why"},
            "FailedAndUnresolvableNodes": {"n3": "held"},
            "Error": "",
        }

    def test_no_node_left_is_an_empty_list_not_null(self) -> None:
        args = decode_filter_args(dump(filter_by_name(NAMES)))
        assert answer(FilterResult([]), args)["NodeNames"] == []

    def test_error(self) -> None:
        args = decode_filter_args(dump(filter_by_name(NAMES)))
        assert answer(FilterResult([], error="stale"), args)["Error"] == "stale"

    def test_whole_nodes_come_back_untouched(self) -> None:
        args = decode_filter_args(dump(filter_by_node(NAMES)))
        given = answer(FilterResult(["n3", "n1"], failed_and_unresolvable={"n2": "held"}), args)
        assert given["Nodes"] == {"metadata": {}, "items": [node("n3"), node("n1")]}
        assert given["NodeNames"] is None

    def test_whole_nodes_none_left(self) -> None:
        args = decode_filter_args(dump(filter_by_node(NAMES)))
        assert answer(FilterResult([]), args)["Nodes"] == {"metadata": {}, "items": []}

    def test_a_node_that_was_not_offered_has_no_object_to_return(self) -> None:
        args = decode_filter_args(dump(filter_by_node(NAMES)))
        with pytest.raises(LookupError, match="n9"):
            encode_filter_result(FilterResult(["n1", "n9"]), args)

    def test_priorities_are_a_bare_array(self) -> None:
        scores = [HostPriority("n1", 10), HostPriority("n2", 0)]
        assert json.loads(encode_priorities(scores)) == [
            {"Host": "n1", "Score": 10},
            {"Host": "n2", "Score": 0},
        ]
        assert encode_priorities([]) == b"[]"


# A lone surrogate cannot be in a JSON document in the first place.
text = st.text(st.characters(exclude_categories=["Cs"]))
spelling = st.sampled_from([str, str.lower, str.upper, str.swapcase])


@settings(max_examples=100, deadline=None)
@given(st.lists(text), spelling, st.dictionaries(text, text, max_size=4))
def test_round_trip(names: list[str], spell: Any, failed: dict[str, str]) -> None:
    document = {spell(key): value for key, value in filter_by_name(names).items()}
    args = decode_filter_args(dump(document))
    assert args.node_names == names
    given_back = answer(FilterResult(args.node_names, failed, failed, "x"), args)
    assert given_back["NodeNames"] == names
    assert given_back["FailedNodes"] == given_back["FailedAndUnresolvableNodes"] == failed


def test_a_list_that_stays_whole_goes_back_as_it_came() -> None:
    """Not decoded and encoded anew: an escape that nobody needs is still there."""
    body = dump(filter_by_name(NAMES)).replace(b'"n1"', b'"\\u006e1"')
    args = decode_filter_args(body)
    assert args.node_names == NAMES
    assert b'"NodeNames":["\\u006e1","n2","n3"],' in encode_filter_result(
        FilterResult(args.node_names), args
    )
    assert answer(FilterResult(["n2"]), args)["NodeNames"] == ["n2"]


@pytest.mark.parametrize(
    "more",
    [
        b'"NodeNames" :["a"],"Pod":%s,"x\\"NodeNames":["b"]',
        b'"Pod":%s,"NodeNames" :["a"],"x":[{"y":0,"NodeNames":["b"]}]',
        b'"NodeNames":["a"],"x":{"y":0,"NodeNames":["b"]},"Pod":%s',
        b'"Pod":%s,"NodeNames":["b"],"NodeNames":["a"]',
        b'"Pod":%s,"NodeNames" :["a"]',
        b'"Pod":%s,"NodeNames":["a"],"x":"]}"',
        b'"Pod":%s,"NodeNames":["a"],"x":[]',
    ],
)
def test_another_list_of_that_name_is_not_what_goes_back(more: bytes) -> None:
    """Behind a quote that is escaped, in something else, or before one that counts."""
    args = decode_filter_args(b'{"Nodes":null,%s}' % more % b'{"metadata":{"name":"p","uid":"u"}}')
    assert args.node_names == ["a"]
    assert answer(FilterResult(args.node_names), args)["NodeNames"] == ["a"]


# As they could be taken for the list of the document, and are not.
alike = st.sampled_from([',"NodeNames":["x"]}', "]}", "[", 'a,"NodeNames":["x"', "n1", '"'])
inner = st.recursive(
    alike | st.lists(alike, max_size=2),
    lambda below: st.dictionaries(st.sampled_from(["NodeNames", "y"]), below, max_size=2),
    max_leaves=4,
)
members = st.tuples(st.just("NodeNames"), st.lists(alike, max_size=2) | st.none()) | st.tuples(
    st.sampled_from(['x"NodeNames', 'x,"NodeNames', "NODENAMES", "Nodes", "z"]), inner
)


@settings(max_examples=400, deadline=None)
@given(st.lists(members, max_size=4), st.integers(0, 4), st.sampled_from(["", "\n", " \t"]))
def test_whatever_else_a_document_has_the_names_that_go_back_are_those_that_were_read(
    held: list[tuple[str, Any]], at: int, end: str
) -> None:
    """Keys that stand twice or deeper, and names that look like a part of a document."""
    pairs: list[tuple[str, Any]] = [*held[:at], ("Pod", POD), ("Nodes", None), *held[at:]]
    text = ",".join(
        f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in pairs
    )
    try:
        args = decode_filter_args(f"{{{text}}}{end}".encode())
    except InvalidInput:
        return
    if args.names_only:
        assert answer(FilterResult(args.node_names), args)["NodeNames"] == args.node_names


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
top = st.dictionaries(
    st.sampled_from(["Pod", "pod", "Nodes", "nodes", "NodeNames", "NODENAMES", "x"]),
    values
    | st.just(POD)
    | st.fixed_dictionaries({"items": st.lists(values, max_size=3)})
    | st.fixed_dictionaries(
        {"metadata": st.dictionaries(st.sampled_from(["name", "uid"]), values), "spec": values}
    ),
    max_size=5,
)


@settings(max_examples=400, deadline=None)
@given(values.map(dump) | top.map(dump) | st.binary(max_size=64))
def test_anything_is_a_question_or_invalid_input(body: bytes) -> None:
    try:
        args = decode_filter_args(body)
    except InvalidInput:
        return
    encode_filter_result(FilterResult(args.node_names), args)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_documents(data: st.DataObject) -> None:
    body = bytearray(dump(data.draw(st.sampled_from([filter_by_name, filter_by_node]))(NAMES)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_filter_args(bytes(body))
    except InvalidInput:
        pass  # the only error allowed
