"""The words of the report's file and of observe mode's decisions, byte for byte."""

from __future__ import annotations

import msgspec
import pytest

from extender.gang.tell.decisions import Decision, ObservedEnd, Outcome, Verb
from extender.model.errors import InvalidInput
from extender.observe.file import decode_as
from extender.observe.sums import OurAnswer, Told, Waited


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (Told("g"), b'{"gang":"g"}'),
        (Told("g", outcome=Waited.WAITING, answer=OurAnswer.NONE), b'{"gang":"g"}'),
        (Told("g", outcome=Waited.WHOLE), b'{"gang":"g","outcome":"whole"}'),
        (Told("g", outcome=Waited.GONE), b'{"gang":"g","outcome":"gone"}'),
        (Told("g", answer=OurAnswer.PLAN), b'{"gang":"g","answer":"plan"}'),
        (Told("g", answer=OurAnswer.REFUSAL), b'{"gang":"g","answer":"refusal"}'),
    ],
)
def test_what_is_told_of_a_gang_is_kept_as_ever(told: Told, kept: bytes) -> None:
    assert msgspec.json.encode(told) == kept
    assert decode_as(kept, Told) == told


def test_a_file_may_state_what_is_left_out_by_default() -> None:
    stated = b'{"gang":"g","outcome":"waiting","answer":""}'
    assert decode_as(stated, Told) == Told("g")


@pytest.mark.parametrize("field", ["outcome", "answer"])
def test_a_word_that_nobody_knows_is_no_report(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"is no report of observe mode.*{field}"):
        decode_as(f'{{"gang":"g","{field}":"odd"}}'.encode(), Told)


def test_codes_of_decisions_are_the_words_as_ever() -> None:
    words = {"whole", "gone", "broken", "half-broken"}
    assert {str(code) for code in ObservedEnd} == words
    for code in ObservedEnd:
        decision = Decision(
            time=1.0,
            gang="g",
            verb=Verb.OBSERVE,
            outcome=Outcome.OBSERVED,
            message="",
            code=code,
        )
        assert f'"code":"{code}"'.encode() in msgspec.json.encode(decision)
        assert type(msgspec.to_builtins(decision)["code"]) is str


def test_no_word_of_what_waited_is_another_one_in_decisions() -> None:
    """Ends of a wait are told as decisions by the same word."""
    assert {str(end) for end in Waited} - {str(code) for code in ObservedEnd} == {"waiting"}
