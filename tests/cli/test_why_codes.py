"""Every reason that the engine gives for a refusal comes with a next step."""

from __future__ import annotations

import re

from extender.gang.act.book import State
from extender.gang.tell.standing import FLIGHT_STATES
from extender.gang.tell.story import NEXT_BY_CODE, NEXT_BY_STATE
from tests.packaging.manifests import ROOT


def test_every_code_and_every_state_has_a_next_step() -> None:
    text = "".join(path.read_text() for path in (ROOT / "extender" / "gang").rglob("*.py"))
    codes = set(re.findall(r'(?:\bcode=|\brefusal\(\s*)"([a-z-]+)"', text))
    assert {"infeasible", "penalty"} <= codes <= set(NEXT_BY_CODE)
    states = {state.value for state in State if state is not State.ENDED}
    assert set(NEXT_BY_STATE) == set(FLIGHT_STATES) == states
