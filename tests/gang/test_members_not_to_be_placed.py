"""Members that exist and may not be placed: gated ones, and those of another scheduler."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from extender.console.capture import Capture
from extender.console.gang_rows import GangReader
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.schedulers import seated_by
from extender.gang.tell.decisions import Verb, of_refusal
from extender.gang.tell.gang_status import Facts, described
from extender.gang.tell.story import Story, story_of_gang
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Refusal
from extender.settings.settings import Settings
from tests.gang.statuses import status
from tests.gang.world import NOW, gang_key, group, node, pod, snapshot

RESOLVER = Resolver(Settings().groups)


def members(gated: int, waiting: int, ending: int = 0) -> list[Pod]:
    shut = [replace(pod(f"shut-{i}", group="high"), gated=True) for i in range(gated)]
    ends = [pod(f"ends-{i}", group="high", deleting=NOW + 9) for i in range(ending)]
    return [*shut, *ends, *(pod(f"high-{i}", group="high") for i in range(waiting))]


def refused(pods: list[Pod], least: int, *schedulers: str) -> tuple[Gang, Refusal]:
    state = snapshot([node("n0")], pods, [group("high", least)])
    gang = RESOLVER.resolve(gang_key("high"), state)
    asked = seated_by(gang, schedulers) if schedulers else gang
    answer = Planner(Settings(), RESOLVER).plan(GangQuestion(asked, state))
    assert isinstance(answer, Refusal)
    return gang, answer


def story(gang: Gang, answer: Refusal) -> Story:
    decision = asdict(of_refusal(answer, time=0.0, verb=Verb.LOOP, seconds=0.0))
    told = story_of_gang(str(gang.key), Facts([described(gang)], [], [], [decision]))
    assert told is not None
    return told


def test_gated_members_are_told_of_and_nobody_is_sent_to_make_them() -> None:
    gang, answer = refused(members(gated=1, waiting=1), 2)
    assert answer.message == "waits for members: 1 of 2 exist, 1 more is gated, nothing is evicted"
    told = story(gang, answer)
    assert told.reason == "1 of 2 members exist, 1 more is gated"
    assert "removes them (spec.schedulingGates)" in told.next
    assert "create the members" not in told.next


def test_where_members_lack_beside_gated_ones_they_have_to_be_made() -> None:
    gang, answer = refused(members(gated=2, waiting=1), 4)
    assert "1 of 4 exist, 2 more are gated, nothing" in answer.message
    assert "create the members" in story(gang, answer).next


def test_members_that_terminate_are_told_in_words_that_fit_one_and_several() -> None:
    for ending, said in ((1, "1 more terminates"), (2, "2 more terminate")):
        gang, answer = refused(members(gated=1, waiting=0, ending=ending), 3)
        assert f"0 of 3 members exist, 1 more is gated, {said}" in story(gang, answer).reason
        assert "terminate" not in answer.message


def test_members_of_another_scheduler_exist_and_are_not_to_be_made() -> None:
    gang, answer = refused(members(gated=0, waiting=2), 2, "another")
    assert answer.message == (
        "waits for members: 0 of 2 exist whose scheduler asks, nothing is evicted; "
        "2 members wait for default-scheduler, which does not call this extender"
    )
    told = story(gang, answer)
    assert "let its pods name a scheduler that calls this extender" in told.next
    assert "create the members" not in told.next
    standing = status(described(gang))
    assert (standing.state, standing.members) == ("pending", 2), "it is all there"


def test_a_gang_that_nobody_asks_for_says_so_before_anything_is_decided() -> None:
    """With schedulerNames set its members are not looked at, so no decision ever tells."""
    gang, _ = refused(members(gated=0, waiting=2), 3)
    gang = replace(gang, min_count=2)
    asked = described(gang, {"default-scheduler"})
    elsewhere = described(gang, {"another"})
    for told, why, follows in (
        (asked, "nothing is decided yet", "wait for kube-scheduler's next attempt"),
        (
            elsewhere,
            "2 members wait for default-scheduler, which does not call this extender",
            "let its pods name a scheduler that calls this extender",
        ),
    ):
        standing = status(told)
        assert (standing.state, standing.reason) == ("pending", why)
        found = story_of_gang(str(gang.key), Facts([told], [], [], []))
        assert found is not None
        assert found.next.startswith(follows)


def test_pages_say_it_and_notice_when_it_changes() -> None:
    pods = members(gated=0, waiting=2)
    state = snapshot([node("n0")], pods, [group("high", 2)])
    reader = GangReader(RESOLVER)
    for schedulers, why in (
        ({"another"}, "2 members wait for default-scheduler, which does not call this extender"),
        ({"another", "default-scheduler"}, "nothing is decided yet"),
    ):
        capture = Capture(time=NOW, snapshot=state, schedulers=frozenset(schedulers))
        (row,) = reader.read(capture)
        assert row.status.what == why
