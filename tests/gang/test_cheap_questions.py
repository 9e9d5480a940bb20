"""What a question about a member costs does not grow with how many victims are on their way."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from extender.gang.core.reservations import Reservations
from extender.gang.core.unit import Fate
from extender.model.objects import GangKey
from extender.verbs.preempt import Waits
from tests.gang.rig import Rig
from tests.gang.test_many_units import seated, unit


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
        named = unit("big", count).victims.values()
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


def test_nor_through_all_victims_of_a_unit_that_goes() -> None:
    """Whether a unit that terminates still owes somebody took 1 ms with ten thousand pods."""
    took = {}
    for count in (10, 10_000):
        going = unit("big", count, touched=True)
        assert going.owes(0.0)
        for uid in going.victims:
            going.fates[uid] = Fate.ACCEPTED
        assert not going.owes(0.0)
        took[count] = seconds_of(partial(going.owes, 0.0))
    assert took[10_000] < 20 * took[10]


def test_a_unit_owes_who_must_go_and_is_not_asked_for_or_may_be_refused_in_vain() -> None:
    half = unit("a", 2)
    assert not half.owes(0.0)
    half.must_go.add("a-0")
    assert half.owes(0.0)
    half.fates["a-0"] = Fate.REFUSED
    assert not half.owes(0.0)
    half.doubtful_until = 60.0
    assert half.owes(59.0)
    assert not half.owes(60.0)
    half.fates["a-1"] = Fate.ASKED
    assert half.owes(60.0)
    del half.fates["a-1"]
    assert not half.owes(60.0)
    half.fates.pop("a-0")
    assert not half.owes(0.0)
    assert not half.fates.those(Fate.REFUSED)
    assert half.fates == {}


def test_a_unit_is_taken_as_long_as_one_of_the_plans_that_take_it_is_in_preemption() -> None:
    reservations = Reservations()
    preemptions = []
    for name in ("one", "other"):
        preemption, _ = seated(1)
        preemption.plan = replace(preemption.plan, gang=GangKey("pod-group", "ns", name))
        preemption.victims = {"v": replace(unit("v", 1).victims["v-0"], uid="v", unit="shared")}
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
    evictions, context = rig.coordinator.preemptions.evictions, rig.verbs.context
    evictions._dispatch.add = lambda unit: None  # type: ignore[method-assign]
    plan = seated(1)[0].plan
    one, waits = rig.cached("b"), rig.cached("high-0")
    took = {}
    for count in (10, 10_000):
        for victim in unit(f"u{count}", count).victims.values():
            alone = replace(victim, node=one.node, unit="")
            evictions.begin(plan, str(count), [alone], frozenset(), "", sent=[victim.uid])
        assert context.waiting_gang(waits) is not None
        took[count] = seconds_of(partial(context.waiting_gang, waits))
        took[count] += seconds_of(partial(rig.verbs._preempt._sorted, waits, {}, Waits()))
    assert took[10_000] < 20 * took[10]
