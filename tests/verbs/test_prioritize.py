"""prioritize gives advice where there is some, and is silent where all nodes are alike."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from extender.wire.filter_json import FilterArgs
from tests.gang.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Gang low on n0 and n1; n2 and n3 are free."""
    async with Rig() as made:
        await made.nodes(4)
        await made.classes(low=1, high=100)
        await made.gang("low", 2, "low", on="n")
        yield made


async def scores(rig: Rig, name: str, *nodes: str) -> dict[str, int]:
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None, name)
    answer = await rig.verbs.prioritize(FilterArgs(rig.cached(name), list(nodes)))
    assert [each.host for each in answer] in ([], list(nodes)), "each node once, as asked"
    return {each.host: each.score for each in answer}


async def test_a_pod_of_no_gang_without_seats_in_its_way_gets_an_empty_list(rig: Rig) -> None:
    await rig.pod("plain", cpu="500m")
    assert await scores(rig, "plain", "n0", "n1", "n2", "n3") == {}


async def test_a_pod_of_no_gang_is_led_away_from_held_seats(rig: Rig) -> None:
    await rig.pod("plain", cpu="500m")
    await rig.gang("high", 3, "high")
    await rig.preempt("high-0", n0=["low-0"])
    held = rig.coordinator.reservations.nodes()
    assert len(held) == 3
    found = await scores(rig, "plain", "n0", "n1", "n2", "n3")
    assert {name for name, score in found.items() if score == 0} == held
    assert {score for name, score in found.items() if name not in held} == {10}
    # Where every node on offer is held, or none is, there is nothing to choose by.
    assert await scores(rig, "plain", *sorted(held)) == {}
    assert await scores(rig, "plain", *({"n0", "n1", "n2", "n3"} - held)) == {}


async def test_a_member_beyond_its_quorum_is_led_to_its_gang(rig: Rig) -> None:
    await rig.pod("low-2", cls="low", group="low", cpu="500m")
    found = await scores(rig, "low-2", "n0", "n1", "n2", "n3")
    assert found == {"n0": 10, "n1": 10, "n2": 5, "n3": 5}


async def test_a_member_with_a_seat_has_nothing_to_choose(rig: Rig) -> None:
    await rig.gang("high", 3, "high")
    await rig.preempt("high-0", n0=["low-0"])
    assert await scores(rig, "high-0", "n0", "n1", "n2", "n3") == {}
