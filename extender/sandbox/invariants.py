"""What a scenario says must never happen, checked at every event and now and then."""

from __future__ import annotations

import time

from extender.decode.quantity import parse_quantity
from extender.model.texts import counted
from extender.sandbox.pod_recorder import PodEvent, PodRecorder
from extender.sandbox.scenario import Create, Never, Scenario


class InvariantChecker:
    """Collects ``broken`` promises, each told once."""

    def __init__(self, scenario: Scenario, recorder: PodRecorder) -> None:
        self.broken: list[str] = []
        self._scenario = scenario
        self._recorder = recorder
        self._partly_since: dict[str, float] = {}
        self._was_whole: set[str] = set()
        recorder.listen(self._look)

    def check(self, *, at_end: bool = False) -> None:
        """Look at what takes time to go wrong; at the end nothing may be half done."""
        for rule in self._scenario.never:
            if rule.whole:
                self._wholeness(rule, at_end=at_end)

    def _look(self, event: PodEvent) -> None:
        for rule in self._scenario.never:
            if rule.whole:
                self._early_seat(rule, event)
                self._wholeness(rule, at_end=False)
            elif rule.seats:
                self._stolen_seat(rule, event)
            elif rule.eviction_before:
                self._early_eviction(rule, event)
            elif rule.bound and event.what == "bound" and event.pod.actor == rule.bound:
                self._tell(f"{event.pod.name} was never to get a node, but is on {event.pod.node}")
            elif rule.evictions_over is not None and event.what == "evicted":
                count = len(self._recorder.evicted())
                if count > rule.evictions_over:
                    self._tell(
                        f"{event.pod.name} is eviction number {count}; "
                        f"at most {rule.evictions_over} were allowed"
                    )

    def _exists(self, actor: str) -> int:
        return sum(pod.alive or pod.finished for pod in self._recorder.of(actor))

    def _early_seat(self, rule: Never, event: PodEvent) -> None:
        pod, create = event.pod, self._scenario.actor(rule.whole)
        quorum = create.quorum
        if event.what != "bound" or pod.actor != rule.whole or create.nodes:
            return  # Pods that are made with their node were never waiting for one.
        if self._exists(pod.actor) < quorum:
            self._tell(
                f"{pod.name} got {pod.node} when only {self._exists(pod.actor)} of the "
                f"{counted(quorum, 'pod')} that {pod.actor} needs existed"
            )

    def _wholeness(self, rule: Never, *, at_end: bool) -> None:
        actor, quorum = rule.whole, self._scenario.actor(rule.whole).quorum
        pods = self._recorder.of(actor)
        seated = sum(pod.seated for pod in pods)
        done = sum(pod.finished for pod in pods)
        if seated == 0 or seated + done >= quorum:
            self._partly_since.pop(actor, None)
            return
        now = time.monotonic()
        since = self._partly_since.setdefault(actor, now)
        if now - since > rule.settle or at_end:
            self._tell(
                f"{actor} is neither whole nor away: {counted(seated, 'pod')} on nodes, "
                f"{quorum} needed" + (", at the end" if at_end else f", for {now - since:.0f} s")
            )

    def _stolen_seat(self, rule: Never, event: PodEvent) -> None:
        actor = rule.seats
        if sum(pod.running for pod in self._recorder.of(actor)) >= self._quorum(actor):
            self._was_whole.add(actor)
        pod = event.pod
        if event.what != "bound" or pod.actor == actor or actor in self._was_whole:
            return
        members = [p for p in self._recorder.pods.values() if p.actor == actor]
        if not members or not self._recorder.evicted():
            return
        least = min(_smallest(self._scenario.actor(actor)))
        if pod.priority <= members[0].priority and pod.cpu >= least:
            self._tell(f"{pod.name} got {pod.node} while room was being made for {actor}")

    def _early_eviction(self, rule: Never, event: PodEvent) -> None:
        actor = rule.eviction_before
        if event.what == "evicted" and self._exists(actor) < self._quorum(actor):
            self._tell(
                f"{event.pod.name} was evicted when only {self._exists(actor)} of the "
                f"{counted(self._quorum(actor), 'pod')} that {actor} needs existed"
            )

    def _quorum(self, actor: str) -> int:
        return self._scenario.actor(actor).quorum

    def _tell(self, text: str) -> None:
        if text not in self.broken:
            self.broken.append(text)


def _smallest(create: Create) -> list[int]:
    """CPU of each class, in milli-cores."""
    sizes = [create.cpu if cls.cpu is None else cls.cpu for cls in create.classes]
    return [parse_quantity(str(size), 1000) for size in sizes]
