"""Every reason that the engine gives for a refusal comes with a next step."""

from __future__ import annotations

from extender.gang.tell.gang_status import PREEMPTION_STATES
from extender.gang.tell.next_steps import NEXT_BY_CODE, NEXT_BY_STATE
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Code


def test_every_code_and_every_state_has_a_next_step() -> None:
    assert {code.value for code in Code} <= set(NEXT_BY_CODE)
    states = {state.value for state in PreemptionState if state is not PreemptionState.ENDED}
    assert set(NEXT_BY_STATE) == set(PREEMPTION_STATES) == states
