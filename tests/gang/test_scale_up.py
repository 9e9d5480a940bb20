"""What the words of autoscalers on a gang's pods come to."""

from __future__ import annotations

import pytest

from extender.gang.plan.scale_up import Awaited, Word, answer, told, waits
from extender.model.objects import GangKey
from extender.model.plan import Code, Victim
from tests.gang.world import bare_plan

CA, KARPENTER = "cluster-autoscaler", "karpenter"
NOW = 1000.0
MEMBERS = {"a": NOW - 10, "b": NOW - 9, "c": NOW - 20}
"""When each was created."""


def yes(uid: str, at: float, by: str = CA, last: float | None = None) -> Word:
    return Word(uid, yes=True, by=by, first=at, last=at if last is None else last)


def no(uid: str, at: float, by: str = CA) -> Word:
    return Word(uid, yes=False, by=by, first=at, last=at, why="max node group size reached")


NO = f"{CA} adds no node: max node group size reached"


@pytest.mark.parametrize(
    ("words", "until", "refused"),
    [
        pytest.param([], 0.0, "", id="nothing is known"),
        pytest.param([yes("a", 990)], 1110.0, "", id="one yes is enough"),
        pytest.param([yes("z", 990)], 0.0, "", id="a yes for a pod of others"),
        pytest.param([yes("a", 880)], 0.0, "", id="it is over at the deadline"),
        pytest.param([yes("a", 881)], 1001.0, "", id="it is not, a second before"),
        pytest.param([no("a", 990)], 0.0, NO, id="a no alone"),
        pytest.param([yes("a", 980), no("a", 990)], 0.0, NO, id="a no after a yes"),
        pytest.param([no("a", 980), yes("a", 990)], 1110.0, "", id="a yes after a no"),
        pytest.param([yes("a", 990), no("a", 990)], 0.0, NO, id="a no in the same second"),
        pytest.param([yes("a", 980), no("b", 990)], 0.0, NO, id="a no for one of them"),
        pytest.param([no("b", 980), yes("a", 990)], 0.0, NO, id="an older no for one of them"),
        pytest.param([no("b", 400), yes("a", 990)], 1110.0, "", id="a no of ten minutes ago"),
        pytest.param(
            [no("a", 990, KARPENTER), yes("a", 980)],
            1100.0,
            "",
            id="one of two autoscalers says no",
        ),
        pytest.param([yes("a", 980), yes("b", 990)], 1100.0, "", id="the first yes counts"),
        pytest.param([yes("a", 890, last=995)], 1010.0, "", id="a yes said again counts once"),
        pytest.param([yes("a", 400, last=995)], 1115.0, "", id="a yes said again much later"),
        pytest.param([yes("a", 740), yes("a", 990)], 1110.0, "", id="a new yes long after"),
        pytest.param(
            [yes("a", 860), yes("a", 970)], 0.0, "", id="a yes during the wait prolongs nothing"
        ),
        pytest.param([yes("a", 1005)], 1125.0, "", id="a clock that is a little ahead"),
        pytest.param([yes("a", 2000)], 0.0, "", id="a time that is not believed"),
        pytest.param([yes("a", 2000, last=990)], 1110.0, "", id="times in the wrong order"),
    ],
)
def test_words(words: list[Word], until: float, refused: str) -> None:
    for order in (words, words[::-1]):
        found = answer(order, MEMBERS, NOW, 120.0)
        assert (found.until, found.refused) == (until, refused)


@pytest.mark.parametrize(
    ("words", "until"),
    [([], 1001.0), ([no("z", 990)], 1001.0), ([no("a", 990)], 0.0), ([yes("a", 700)], 0.0)],
)
def test_a_first_word_is_waited_for(words: list[Word], until: float) -> None:
    assert answer(words, MEMBERS, NOW, 120.0, 10.0).until == until
    assert not answer(words, MEMBERS, NOW + 1, 120.0, 10.0).until


def test_a_clock_that_is_set_back_prolongs_no_wait() -> None:
    """An hour back: pods and words are of the future, and were waited for as long."""
    for words in ([], [yes("a", NOW)]):
        assert not answer(words, MEMBERS, NOW - 3600, 120.0, 10.0).until


def test_a_yes_that_is_repeated_for_ever_leaves_the_gang_its_turn() -> None:
    """Between two waits there is as much time: the search for a large gang is not made often."""
    words = [yes("a", at) for at in range(0, 2000, 5)]
    waited = "".join(
        "-w"[bool(answer(words[: now // 5 + 1], MEMBERS, now, 120.0).until)] for now in range(2000)
    )
    assert max(map(len, waited.split("-"))) <= 121
    assert all(len(each) >= 115 for each in waited.strip("-").split("w") if each)


def test_what_is_told() -> None:
    victims = [
        Victim(uid=uid, namespace="ns", name=uid, node="n", priority=1, grace=0) for uid in "pq"
    ]
    plan = bare_plan(GangKey("pod-group", "ns", "g"), victims)
    refusal = waits(plan, Awaited(1_800_000_190.0, CA), 7)
    assert waits(plan, Awaited(0.0), 7).message.startswith(
        "waits for an autoscaler's answer, until"
    )
    assert refusal.code is Code.SCALE_UP
    assert refusal.until == 1_800_000_190.0
    assert refusal.message == (
        "waits for a node that cluster-autoscaler has announced, until 08:03:10 UTC; "
        "then 2 pods would be evicted"
    )


def test_what_others_wrote_is_one_short_line() -> None:
    assert told("a\n\tb\u202ec") == "a b?c"
    assert len(told("x" * 10_000)) == 200
