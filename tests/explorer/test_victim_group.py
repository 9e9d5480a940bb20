"""Every interleaving of a victim group in small worlds; each mistake put back is found."""

from __future__ import annotations

import pytest

from tests.explorer.breadth_first import explore
from tests.explorer.mistakes import MISTAKES, Mistake
from tests.explorer.victim_world import Setting, VictimWorld

WORLDS = (
    Setting(plans=2, kills=0, lost=0, strangers=0, refusals=0),
    Setting(plans=1, kills=1, lost=1, strangers=0, refusals=0),
    Setting(plans=1, kills=0, lost=1, strangers=1, refusals=0),
    Setting(plans=1, kills=1, lost=0, strangers=1, refusals=1),
    Setting(plans=2, kills=0, lost=0, strangers=1, refusals=0),
    Setting(plans=1, kills=0, lost=0, strangers=1, refusals=0, late=True),
    Setting(pods=3, plans=1, kills=0, lost=0, strangers=1, refusals=0),
    Setting(pods=3, plans=1, kills=0, lost=1, strangers=0, refusals=0),
)


@pytest.mark.parametrize("setting", WORLDS, ids=str)
def test_all_holds_in_every_state(setting: Setting) -> None:
    found = explore(VictimWorld(setting))
    assert not found.wrong, "\n".join([found.wrong, *found.story])
    assert found.states > 500
    assert found.at_rest > 1


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found(mistake: Mistake) -> None:
    """By the shortest way to it, which is told."""
    with mistake.made():
        found = explore(mistake.setting.world())
    assert found.wrong
    assert found.wrong != "too many states"
    assert found.story
    print(f"{mistake.name}: {found.wrong}")
    print("".join(f"  {number}. {told}\n" for number, told in enumerate(found.story, 1)))
