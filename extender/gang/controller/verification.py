"""Asks kube-scheduler's own filters about a plan that evicts pods, after our rules said yes.

Without an answer no pod is evicted, and it is said. A seat that they refuse is left out for members
like that one, as one that kube-scheduler itself has refused (core/refused_seats.py).
"""

from __future__ import annotations

import structlog

from extender.gang.core.preemption import Checked
from extender.gang.core.refused_seats import alike
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.verdicts import NoVerdict, SeatVerdict, Verifier, VerifierQuestion

log = structlog.get_logger("gang")
MOST_TOLD = 3


class Verification:
    """Asks ``verifier``; None: nobody, and our own rules are enough."""

    def __init__(
        self, verifier: Verifier | None, reservations: Reservations, evidence: NodeLists
    ) -> None:
        self._verifier = verifier
        self._reservations = reservations
        self._evidence = evidence

    async def checked(self, preemption: Preemption) -> Checked:
        """Return what comes of a plan that our own rules accept."""
        yes, open_already = Checked(preemption.id, ""), preemption.state is PreemptionState.OPEN
        if self._verifier is None or not preemption.plan.victims or open_already:
            return yes
        before = preemption.state is PreemptionState.PLANNED
        try:
            refusals = await self._verifier.refusals(self._question(preemption))
        except NoVerdict as error:
            log.warning("the verifier gives no answer", gang=str(preemption.key), error=str(error))
            if not before:
                return yes  # a seat that opens evicts nobody, and kube-scheduler judges it itself
            told = f"no pod is evicted: the verifier gives no answer: {error}"
            return Checked(preemption.id, None, told=told)
        if not refusals:
            return yes
        masks: dict[str, frozenset[str]] = {}
        for refusal in refusals:
            pod = preemption.pods.get(refusal.uid)
            if pod is None or refusal.any_node:
                continue
            self._evidence.refuses(pod, refusal.node, why=_words(refusal))
            for uid, twin in preemption.pods.items():
                if uid == pod.uid or alike(twin, pod):
                    masks[uid] = masks.get(uid, frozenset()) | {refusal.node}
        told = "; ".join(self._told(preemption, each) for each in refusals[:MOST_TOLD])
        if len(refusals) > MOST_TOLD:
            told += f"; and {len(refusals) - MOST_TOLD} more"
        why = f"kube-scheduler's own filters refuse the plan: {told}"
        log.info("the verifier refuses a plan", gang=str(preemption.key), why=told)
        return Checked(preemption.id, why, masks=masks)

    def _told(self, preemption: Preemption, refusal: SeatVerdict) -> str:
        pod = preemption.pods.get(refusal.uid)
        who = pod.name if pod else refusal.uid
        return f"{who} on {refusal.node}: {_words(refusal)}"

    def _question(self, preemption: Preemption) -> VerifierQuestion:
        others = [other for other in self._reservations if other is not preemption]
        plans = (preemption, *others)
        return VerifierQuestion(
            seats=[(preemption.pods[uid], node) for uid, node in preemption.seats.items()],
            gone=[
                victim
                for plan in plans
                for victim in (*plan.victims.values(), *plan.waits.values())
            ],
            held=[(other.pods[uid], node) for other in others for uid, node in other.seats.items()],
        )


def _words(refusal: SeatVerdict) -> str:
    says = f"{refusal.plugin}: " if refusal.plugin else ""
    return says + (", ".join(refusal.reasons) or "no reason is given")
