"""The list of gangs."""

from __future__ import annotations

from typing import Any

from extender.console.gang_rows import IN_FLIGHT, ORDER, STUCK, chosen
from extender.console.paging import page_of
from extender.console.picture import Picture
from extender.console.query import Query
from extender.gang.tell.gang_status import GangState

PAGE = 50
CHOICES = {
    "moving": IN_FLIGHT,
    "waiting": frozenset(ORDER) - IN_FLIGHT - {GangState.RUNNING},
    "stuck": STUCK,
    "running": frozenset((GangState.RUNNING,)),
}
"""Choice -> states."""


def gangs(picture: Picture, query: Query) -> dict[str, Any]:
    """Return what the page shows."""
    text, namespace, choice = query.text("q"), query.text("namespace"), query.text("show")
    states = CHOICES.get(choice, frozenset())
    rows = list(chosen(picture.rows, text, states, namespace))
    counts = picture.states
    return {
        "text": text,
        "namespace": namespace,
        "choice": choice if choice in CHOICES else "",
        "choices": {
            name: sum(counts.get(state, 0) for state in among) for name, among in CHOICES.items()
        },
        "all": len(picture.rows),
        "states": [(state, counts[state]) for state in ORDER if counts.get(state)],
        "page": page_of(rows, query.page(), PAGE),
        "seats": sum(map(len, picture.seats.values())),
        "leaving": sum(map(len, picture.leaving.values())),
    }
