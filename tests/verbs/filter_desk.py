"""The filter verb with everybody it asks as a line to be changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from extender.gang.core.reservations import Preemption
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.errors import NotReady, UnknownPod
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Code, Refusal
from extender.verbs.context import Context
from extender.verbs.filter import Filter
from extender.verbs.pod_lookup import PodLookup
from extender.wire.filter_json import FilterArgs, FilterResult
from tests.gang.world import bare_plan, gang_key, node, pod, snapshot

PLAIN = pod("p", priority=9)
MEMBER = pod("m", priority=9, group="g")
KEY = gang_key("g")
NO = Refusal(gang=KEY, code=Code.INCOMPLETE, message="waits for members")


MANY = tuple(f"n{i}" for i in range(1, 101))
"""So many names of more nodes may be a sample."""


def flying(seat: str | None = "n0", state: PreemptionState = PreemptionState.OPEN) -> Preemption:
    """A plan under way without victims and seats taken."""
    seats = {} if seat is None else {MEMBER.uid: seat}
    return Preemption(plan=bare_plan(KEY), pods={}, seats=seats, state=state, since=0.0)


ASKED = 7.0
"""When the question came, monotonic."""


class Desk:
    """Filter, and what the others would say; ``said`` is what they were told, in order."""

    def __init__(self, preemption: Preemption | None = None, nodes: int = 4) -> None:
        self.nodes = nodes
        self.preemption = preemption
        """The plan that the pod is a member of."""
        self.known: Any = None
        """What is known of the gang already."""
        self.ensured: Any = NO
        self.waits = True
        """Whether the member's gang waits for it."""
        self.ready = True
        self.acts = True
        self.stale = 0.0
        self.behind: str | None = None
        """Why gangs cannot be decided now."""
        self.unknown: UnknownPod | None = None
        self.held: set[str] = set()
        self.full: set[str] = set()
        self.crowded = False
        self.given = True
        self.going: set[str] = set()
        """Units that are being evicted."""
        self.starts = True
        """Whether the start may begin with the member."""
        self.swap: str | None = None
        """The seat after another was found not to be offered; "" for none."""
        self.sampled = False
        """Whether a list that was refused is to be tried again."""
        self.said: list[tuple[Any, ...]] = []
        self.filter = Filter(self._context(), cast(PodLookup, SimpleNamespace(pod=self._asked)))

    async def __call__(self, told: Pod, *names: str) -> FilterResult:
        return await self.filter.answer(FilterArgs(told, list(names)))

    def _say(self, *words: Any) -> None:
        self.said.append(words)

    def _starts_with(self, preemption: Any, pod: Pod, *, alone: bool) -> bool:
        return self.starts

    async def _asked(self, told: Pod) -> Pod:
        if self.unknown is not None:
            raise self.unknown
        return told

    def _not_offered(self, preemption: Any, pod: Pod, others: frozenset[str]) -> None:
        self._say("not offered", *sorted(others))
        if self.swap is not None:
            preemption.seats = {pod.uid: self.swap} if self.swap else {}

    def _given(self, preemption: Any, pod: Pod) -> bool:
        self._say("given", preemption.seats[pod.uid])
        return self.given

    async def _ensure(self, key: object, verb: object, *, offered: Any = None, asked: float) -> Any:
        assert asked == ASKED
        self._say("ensure", None if offered is None else sorted(offered[MEMBER.uid]))
        return self.ensured

    def _require_ready(self) -> None:
        if not self.ready:
            raise NotReady("not yet")

    def _context(self) -> Context:
        say = self._say
        lines: dict[str, Any] = {
            "cluster": SimpleNamespace(
                snapshot=lambda: snapshot([node(f"n{i}") for i in range(self.nodes)], []),
                stale_for=lambda: self.stale,
            ),
            "asking": SimpleNamespace(
                require_ready=self._require_ready,
                known=lambda key: self.known,
                ensure=self._ensure,
                crowded=lambda preemption: self.crowded,
                stale=lambda: self.behind,
                starts_with=self._starts_with,
                takes_unit=lambda name: name in self.going,
                seat_given=self._given,
                turned_away=lambda preemption, pod, alone: say("turned away", pod.uid),
                seat_not_tried=lambda preemption, pod: say("not tried"),
                seat_not_offered=self._not_offered,
            ),
            "reservations": SimpleNamespace(
                of_member=lambda uid: self.preemption,
                nodes=lambda: self.held,
            ),
            "evidence": SimpleNamespace(
                accepts=lambda pod, names: say("accepts", *names), now=lambda: ASKED
            ),
            "hints": SimpleNamespace(
                held_back=SimpleNamespace(
                    note=lambda pod, unit="": say("held back", *([unit] if unit else ())),
                    wake=lambda pods: say("wake"),
                    tried=lambda pod: None,
                )
            ),
            "offers": SimpleNamespace(
                settled=lambda uid: say("settled", uid),
                note=lambda pod, names: say("offered", names),
            ),
            "resolver": SimpleNamespace(
                member_key=lambda pod: KEY if pod.pod_group else None,
                unit_key=lambda pod: KEY if pod.pod_group else None,
                resolve=lambda key, state: self._gang(),
            ),
            "enforcement": SimpleNamespace(
                everybody=False,
                acts_for=lambda namespace, state: self.acts,
                may_evict=lambda namespace, state: True,
            ),
            "spare": SimpleNamespace(
                why_not=lambda pod, name: f"{name} is full" if name in self.full else None,
                offered=lambda pod, name: say("spare", name),
            ),
            "samples": SimpleNamespace(
                offered=lambda uid: say("sample", uid),
                withhold=lambda uid: say("withhold", uid),
                forget=lambda uid: say("forget", uid),
                refused=lambda uid, names, nodes: say("refused", names, nodes) or self.sampled,
            ),
            "shown": lambda: None,
            "takes": lambda uid: False,
            "spared": dict,
        }
        return Context(**lines)

    def _gang(self) -> Gang | None:
        return Gang(key=KEY, members=(MEMBER,), min_count=1) if self.waits else None
