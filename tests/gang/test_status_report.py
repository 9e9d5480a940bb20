"""What the status ConfigMap says: readable, bounded, the same for equal moments."""

from __future__ import annotations

from typing import Literal

import yaml

from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.gang_status import GangStatus
from extender.gang.tell.last_hour import LONGEST, Lately, Trouble
from extender.gang.tell.status_report import MOST_BYTES, GangSeen, PlanSeen, Said, Whole, text_of
from extender.model.plan import Code

BARE = Whole(
    leader="pod-a", leading_since=0, epoch=3, version="1", mode="enforce", namespaces="all"
)
HOSTILE = "\x1b[31m: {x}\n- '\"#\u202e\ud800" + "\U0001f600" * 100_000


def gang(number: int, why: str = "infeasible: cpu is short") -> GangSeen:
    status = GangStatus(
        f"pod-group:team/g{number}",
        "refused",
        why,
        priority=1000 - number,
        pending=4,
        min_count=4,
    )
    return GangSeen(status, 60.0)


def test_nothing_to_tell_is_told_too() -> None:
    said = yaml.safe_load(text_of(BARE))
    assert said["leader"] == {"identity": "pod-a", "since": "1970-01-01T00:00:00Z", "epoch": 3}
    assert said["ready"] is True
    assert said["gangs"]["mostUrgentWaiting"] == []
    assert said["lastError"] is None


def test_lists_tell_how_much_they_leave_out() -> None:
    whole = Whole(
        leader="",
        leading_since=0,
        epoch=0,
        version="1",
        mode="enforce",
        namespaces="all",
        problems=["plan records are not read"],
        states={"refused": 50},
        waiting=[gang(number) for number in range(50)],
        suspended=[Said("a", "three plans were given up")],
    )
    said = yaml.safe_load(text_of(whole))
    assert said["leader"]["identity"] == "the only replica"
    assert said["ready"] is False
    assert said["problems"] == ["plan records are not read"]
    assert said["gangs"]["waiting"] == 50
    names = [each["gang"] for each in said["gangs"]["mostUrgentWaiting"]]
    assert names == [f"pod-group:team/g{number}" for number in range(10)]
    assert said["gangs"]["suspended"]["number"] == 1


def test_whatever_strangers_write_it_stays_small_and_yaml() -> None:
    whole = Whole(
        leader=HOSTILE,
        leading_since=0,
        epoch=0,
        version="1",
        mode="enforce",
        namespaces=HOSTILE,
        problems=[HOSTILE] * 100,
        down=[Said(HOSTILE, HOSTILE)] * 100,
        waiting=[gang(number, HOSTILE) for number in range(1000)],
        plans=[
            PlanSeen(
                gang=HOSTILE,
                plan="abc",
                priority=1,
                state="open",
                since=0,
                seats=1,
                victims=1,
                waits=1,
            )
        ]
        * 100,
        broken=[Said(HOSTILE, HOSTILE)] * 100,
        suspended=[Said(HOSTILE, HOSTILE)] * 100,
        trouble=Trouble(0, HOSTILE),
    )
    text = text_of(whole)
    assert len(text.encode()) <= MOST_BYTES
    assert "\x1b" not in text
    said = yaml.safe_load(text)
    assert said["gangs"]["waiting"] == 1000
    assert said["plans"]["inFlight"] == 100
    assert said["lastError"]["what"]


def test_an_hour_ends() -> None:
    lately = Lately()
    for minute in range(200):
        lately.evicted("evicted", minute * 60.0)
    lately.evicted("refused", 199 * 60.0)
    assert lately.evictions(199 * 60.0) == {"evicted": 60, "refused": 1}
    assert lately.evictions(258 * 60.0) == {"evicted": 1, "refused": 1}
    assert lately.evictions(259 * 60.0) == {}
    lately.evicted("gone", 0.0)  # the clock was set back
    assert lately.evictions(199 * 60.0)["gone"] == 1


def test_the_last_thing_that_went_wrong_is_kept() -> None:
    lately = Lately()

    def decided(outcome: Outcome, code: Code | Literal[""] = "") -> None:
        lately.decided(
            Decision(
                time=5, gang="g", verb=Verb.LOOP, outcome=outcome, message="m" * 10**6, code=code
            )
        )

    for outcome in (Outcome.PLAN, Outcome.REFUSAL, Outcome.DONE, Outcome.OBSERVED):
        decided(outcome)
    assert lately.trouble is None
    for outcome in (Outcome.GAVE_UP, Outcome.BROKEN, Outcome.IN_PART):
        decided(outcome)
        assert lately.trouble is not None
        assert lately.trouble.what.startswith(f"g: {outcome}: m")
        assert len(lately.trouble.what) <= LONGEST
    lately.failed("wake team/a", "no (403 Forbidden)", 7)
    assert lately.trouble == Trouble(7, "wake team/a: no (403 Forbidden)")
