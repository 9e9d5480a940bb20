"""Pods with volumes, or devices, beside seats of members that need some and for whom pods go.

The cases are those of the scheduler plugin, which is told of the seats by WatchSeats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from extender.decode.from_json import decode_node, decode_pod
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.preemption_state import PreemptionState
from extender.grpc_api.seats import SeatBoard
from extender.model.extended_resources import of_node, of_pod
from extender.model.objects import Node, Pod
from extender.model.plan import Plan, Seat, Victim
from extender.verbs.room_beside_reservations import Spare
from tests.gang.world import gang_key
from tests.grpc_api.test_seats import Terms

SHARED = Path(__file__).parents[2] / "plugin" / "core" / "testdata" / "limited.json"
CASES: list[dict[str, Any]] = json.loads(SHARED.read_text())
LOW = Victim(uid="low", namespace="default", name="low", node="n1", priority=0)


class Rooms:
    """A node with room for anything, which offers these resources itself."""

    generation = 0

    def __init__(self, offers: dict[str, str] | None = None, named: Iterable[str] = ()) -> None:
        document = {"metadata": {"name": "n1", "uid": "n1"}, "status": {"allocatable": offers}}
        self._node = of_node(decode_node(document), frozenset(named))

    def node(self, name: str) -> Node | None:
        """Return the node."""
        return self._node if name == "n1" else None

    def short(self, node: str, wants: Iterable[tuple[str, int]]) -> None:
        """Nothing is short."""

    def pod(self, uid: str) -> None:
        """No pod is known."""


def read(uid: str, spec: dict[str, Any], named: Iterable[str] = ()) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i"}], "priority": 10, **spec}
    metadata = {"uid": uid, "name": uid, "namespace": "default"}
    document = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
    return of_pod(decode_pod(json.dumps(document).encode()), frozenset(named))


def held_for(member: Pod, victims: tuple[Victim, ...], *, before: bool = False) -> Preemption:
    seat = Seat(uid=member.uid, namespace="default", name=member.name, node="n1")
    plan = Plan(gang=gang_key("g"), priority=10, seats=(seat,), victims=victims)
    return Preemption(
        plan=plan,
        pods={member.uid: member},
        seats={member.uid: "n1"},
        victims={victim.uid: victim for victim in victims},
        evicted_before=frozenset({"n1"} if before else ()),
        state=PreemptionState.WAITING,
        since=0.0,
    )


def why_not(reservations: Reservations, pod: Pod, rooms: Rooms) -> str | None:
    spare = Spare(reservations, rooms, Clocks(lambda: 0.0))
    return spare.why_not(pod, "n1")


@pytest.mark.parametrize("case", CASES, ids=[each["case"] for each in CASES])
async def test_the_filter_and_the_plugin_are_told_the_same(case: dict[str, Any]) -> None:
    terms, named = Terms(), case.get("named", ())
    rooms = Rooms(case.get("offers"), named)
    terms.term.cluster = rooms
    member, pod = read("u", case["member"], named), read("p", case["pod"], named)
    victims = (LOW,) if case["evicts"] else ()
    terms.reservations.open_preemption(held_for(member, victims), [])
    board = SeatBoard(terms, "x")
    await board.renew()
    (node,) = board.everything()
    seat = node.seats[0]
    assert (seat.volumes, seat.devices) == ("volumes" in case["told"], "devices" in case["told"])
    kept = case["kept"]
    needs = f"its room is held for {gang_key('g')}, whose members need {kept} too"
    assert why_not(terms.reservations, pod, rooms) == (needs if kept else None)


def test_a_plan_in_the_place_of_one_that_evicted_keeps_them_off_too() -> None:
    """It names no victims where those of the plan before have gone."""
    reservations = Reservations()
    spec = CASES[0]["member"]
    reservations.open_preemption(held_for(read("u", spec), (), before=True), [])
    assert "need volumes too" in (why_not(reservations, read("p", CASES[0]["pod"]), Rooms()) or "")
