"""Every interleaving of a preemption in small worlds; each mistake put back is found."""

from __future__ import annotations

import pytest

from tests.explorer.breadth_first import explore
from tests.explorer.mistakes import Mistake
from tests.explorer.plan_mistakes import PLAN_MISTAKES
from tests.explorer.preemption_world import PreemptionWorld, Setting

WORLDS = (
    Setting(rehearsals=1, records=1, deletions=1, doubts=1),
    Setting(refusals=1, deletions=1, nodes=1),
    Setting(deletions=1, nodes=1, returns=1, late=1),
    Setting(doubts=1, crowds=1, returns=1),
    Setting(rules=1, returns=1),
    Setting(rules=1, kills=1),
    Setting(lost=1, refusals=1),
    Setting(lost=1, nodes=1),
    Setting(lost=1, deletions=1),
    Setting(lost=1, late=1),
    Setting(records=1, leases=1),
    Setting(records=1, kills=1),
    Setting(returns=1, kills=1),
    Setting(lost=1, doubts=1),
    Setting(rehearsals=1, kills=1),
    Setting(doubts=1, kills=1),
    Setting(deletions=1, kills=1),
    Setting(refusals=1, kills=1),
    Setting(nodes=1, kills=1),
    Setting(nodes=1, leases=1),
    Setting(budgets=2, doubts=1, deletions=1),
    Setting(budgets=1, kills=1),
    Setting(equal=1, refusals=1),
    Setting(equal=1, doubts=1),
    Setting(equal=1, nodes=1),
    Setting(equal=1, lost=1),
    Setting(equal=1, late=1, records=1),
    Setting(urgent=1, deletions=1),
    Setting(urgent=1, kills=1),
)


@pytest.mark.parametrize("setting", WORLDS, ids=str)
def test_all_holds_in_every_state(setting: Setting) -> None:
    found = explore(PreemptionWorld(setting))
    assert not found.wrong, "\n".join([found.wrong, *found.story])
    assert found.states > 500
    assert found.at_rest > 1


@pytest.mark.parametrize("mistake", PLAN_MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found(mistake: Mistake) -> None:
    """By the shortest way to it, which is told."""
    with mistake.made():
        found = explore(mistake.setting.world())
    assert found.wrong
    assert found.wrong != "too many states"
    assert found.story
    print(f"{mistake.name}: {found.wrong}")
    print("".join(f"  {number}. {told}\n" for number, told in enumerate(found.story, 1)))
