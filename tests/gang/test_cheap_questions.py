"""What a question about a member costs does not grow with how many victims are on their way."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from extender.gang.core.reservations import Reservations
from extender.gang.core.victim_group import Answer, Claimed
from extender.model.objects import GangKey
from extender.verbs.preempt import Waits
from tests.gang.rig import Rig
from tests.gang.test_many_units import Machine, claimed, seated


def seconds_of(question: Callable[[], object]) -> float:
    """Return how long it takes at its best: a busy machine makes some tries slow."""
    took = []
    for _ in range(50):
        began = time.perf_counter()
        question()
        took.append(time.perf_counter() - began)
    return min(took)


def test_a_question_does_not_look_through_all_victims_of_all_plans() -> None:
    """Each question about a member of any gang once took 0.5 ms more for ten thousand victims."""
    took = {}
    for count in (10, 10_000):
        reservations, (preemption, _) = Reservations(), seated(1)
        named = claimed("big", count).victims
        preemption.victims = {each.uid: replace(each, unit="big") for each in named}
        reservations.open_preemption(preemption, [])
        assert reservations.takes_unit("big")
        assert not reservations.takes_unit("other")
        took[count] = seconds_of(partial(reservations.takes_unit, "big")) + seconds_of(
            partial(reservations.takes_unit, "other")
        )
        for uid in list(preemption.victims)[1:]:
            del preemption.victims[uid]
            assert reservations.takes_unit("big")
        preemption.victims.clear()
        assert not reservations.takes_unit("big")
    assert took[10_000] < 20 * took[10]


def test_nor_through_all_victims_of_a_group_that_goes() -> None:
    """Whether a group that terminates still owes a pod took 1 ms with ten thousand pods."""
    took = {}
    for count in (10, 10_000):
        machine = Machine()
        machine.feed(claimed("big", count)._replace(begun=True))
        assert machine.tables.owes("big")
        machine.answer_all(Answer.ACCEPTED)
        assert not machine.tables.owes("big")
        took[count] = seconds_of(partial(machine.tables.owes, "big"))
    assert took[10_000] < 20 * took[10]


def test_a_unit_is_taken_as_long_as_one_of_the_plans_that_take_it_is_in_preemption() -> None:
    reservations = Reservations()
    preemptions = []
    for name in ("one", "other"):
        preemption, _ = seated(1)
        preemption.plan = replace(preemption.plan, gang=GangKey("pod-group", "ns", name))
        preemption.victims = {"v": replace(claimed("v", 1).victims[0], uid="v", unit="shared")}
        reservations.open_preemption(preemption, [])
        preemptions.append(preemption)
    reservations.close(preemptions[0].key)
    assert reservations.takes_unit("shared")
    reservations.close(preemptions[1].key)
    assert not reservations.takes_unit("shared")


async def test_nor_through_all_whose_eviction_is_accepted(rig: Rig) -> None:
    """Each question about a member without a seat took 22 ms with ten thousand on their way, and
    so did each preempt of a pod of no gang."""
    await rig.pod("b", cls="low", on="n0", cpu="1m")
    await rig.gang("high", 2, "high")
    await rig.until(lambda: rig.cache.pod_named("default", "b") is not None)
    await rig.stop_rounds()
    executor, context = rig.coordinator.executor, rig.verbs.context
    one, waits = rig.cached("b"), rig.cached("high-0")
    took = {}
    for count in (10, 10_000):
        made = claimed(f"u{count}", count, str(count))
        for victim in made.victims:
            alone = replace(victim, node=one.node, unit="")
            sent = frozenset({victim.uid})
            executor.feed(Claimed(replace(made.claim, uids=sent), (alone,), sent=sent))
        assert context.waiting_gang(waits) is not None
        took[count] = seconds_of(partial(context.waiting_gang, waits))
        took[count] += seconds_of(partial(rig.verbs._preempt._sorted, waits, {}, Waits()))
    assert took[10_000] < 20 * took[10]
