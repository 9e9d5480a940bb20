"""Bookings over a cluster of nodes that batch pods fill, worked by hand; searches are real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from extender.gang.booking.bookings import Answer, Bookings, Effects
from extender.gang.core.reservations import Reservations
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.runtime.clocks import Clocks
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import DEFAULT_SCHEDULER, GangKey, GroupObject, Node, Pod, PodShape
from extender.model.plan import Code, Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings
from extender.settings.mode import EnforceSettings
from extender.settings.policy import NamespaceSelector
from extender.settings.settings import Settings
from tests.gang.world import NOW, gang_key, group, node, pod, snapshot

OURS = {"enforced": "yes"}


class Desk:
    """Bookings over a cluster of nodes that batch pods fill; all its gangs were refused."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod], **settings: float) -> None:
        self.nodes = list(nodes)
        self.pods = list(pods)
        self.groups: list[GroupObject] = []
        self.seconds = 0.0
        self.clock = 0.0
        """By how much the wall clock was set."""
        self.asked: list[GangKey] = []
        self.failed: list[str] = []
        self.search_seconds = 0.0
        """For how long the planner works on a question."""
        self.code = Code.INFEASIBLE
        """What the gangs were told last."""
        self.left_alone: set[str] = set()
        """Namespaces that are not enforced."""
        self.unreadable: set[str] = set()
        """Gangs that cannot be resolved."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Called while the planner works."""
        self._generation = 0
        self._resolver = Resolver(Settings().groups)
        self._planner = Planner(Settings(), self._resolver)
        self.reservations = Reservations()
        self.state = self.look()
        wanted = {
            "patience_seconds": 0.0,
            "idle_share": 1.0,
            "namespace_idle_share": 1.0,
            "booked_per_namespace": 8,
            **settings,
        }
        cluster: Any = self
        self.bookings = Bookings(
            Settings(
                fairness=FairnessSettings(booking=True, **wanted),  # type: ignore[arg-type]
                enforce=EnforceSettings(namespaces=NamespaceSelector(match_labels=OURS)),
            ),
            self.reservations,
            planning=cluster,
            gangs=cluster,
            source=cluster,
            clocks=Clocks(lambda: self.seconds, lambda: NOW + self.seconds + self.clock),
        )

    def shown(self) -> Snapshot:
        """The cluster as planning sees it."""
        return self.state

    def snapshot(self) -> Snapshot:
        """The cluster as it is, with the labels of its namespaces."""
        names = [each.namespace for each in self.pods] + [each.namespace for each in self.groups]
        labels = {name: {} if name in self.left_alone else OURS for name in names}
        return replace(self.state, namespaces=labels)

    def look(self) -> Snapshot:
        """The cluster as it is now."""
        self._generation += 1
        self.state = snapshot(
            self.nodes,
            self.pods,
            self.groups,
            generation=self._generation,
            now=NOW + self.seconds + self.clock,
        )
        return self.state

    def resolve(self, key: GangKey, state: Snapshot) -> Gang:
        if key.name in self.unreadable:
            raise ValueError("unreadable")
        return self._resolver.resolve(key, state)

    def search(self, question: GangQuestion) -> Plan | Refusal:
        self.asked.append(question.gang.key)
        self.seconds += self.search_seconds
        answer = self._planner.plan(question)
        self.meanwhile()
        return answer

    def gang(
        self, name: str, count: int, priority: int, zone: str = "", namespace: str = "default"
    ) -> None:
        """A gang whose members need a whole node each; ``zone``: of those with that label."""
        shape = PodShape(node_selector=(("zone", zone),)) if zone else None
        self.groups.append(group(name, count, priority=priority, namespace=namespace))
        for i in range(count):
            one = pod(
                f"{name}-{i}", group=name, priority=priority, shape=shape, namespace=namespace
            )
            self.pods.append(replace(one, created=min(one.created, NOW + self.seconds)))
        self.look()

    def change(self, name: str, **how: object) -> None:
        """Every pod whose name begins so is another one now."""
        self.pods = [
            replace(each, **how) if each.name.startswith(name) else each for each in self.pods
        ]
        self.look()

    def remove(self, name: str) -> None:
        """A pod is gone."""
        [gone] = (each for each in self.pods if each.name == name)
        self.pods.remove(gone)
        self.look()
        self.bookings.observe(gone, None)

    def round(self, seconds: float = 0.0) -> None:
        """One round, after so long."""
        self.seconds += seconds
        self.look()
        self.look_after()

    def look_after(self) -> None:
        """One round on the cluster as it was looked at last."""
        keys = [gang_key(each.name, each.namespace) for each in self.groups]
        told = {key: Refusal(gang=key, code=self.code, message="it fits nowhere") for key in keys}
        for effects in played(self.bookings, told, self.search):
            self.failed += [f"{key.name}: {error}" for key, error in effects.failed]

    @property
    def booked(self) -> set[str]:
        told = self.bookings.describe()
        return {each["gang"].split("/")[-1] for each in told if each["booked"]}

    def why(self, name: str) -> str:
        """Why the gang is not booked."""
        told = self.bookings.describe()
        [why] = (each["why"] for each in told if each["gang"].endswith("/" + name))
        return str(why)


def played(
    bookings: Bookings,
    refusals: dict[GangKey, Refusal],
    search: Callable[[GangQuestion], Plan | Refusal],
) -> Iterator[Effects]:
    """Play a round of gangs that were refused; yield its effects after each step."""
    asking = bookings.round(list(refusals), refusals, (DEFAULT_SCHEDULER,))
    answer: Answer = None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration:
            return
        finally:
            yield bookings.effects()
        try:
            answer = search(question)
        except Exception as error:
            answer = error


def kept_on(reservations: Reservations, node: str) -> list[Hold]:
    """What booked starts keep of a node now."""
    claims = reservations.booked.get(node, ())
    return [claim.hold for claim in claims if claim.hold.requests]


def batch(name: str, on: str, **how: object) -> Pod:
    """A pod that is made to end, nobody knows when, and that no gang here may evict."""
    return replace(pod(name, on=on, priority=9, cpu=4), **how)


def full(count: int, **how: object) -> tuple[list[Node], list[Pod]]:
    nodes = [node(f"n{i}", labels={"zone": "even" if i % 2 == 0 else "odd"}) for i in range(count)]
    return nodes, [batch(f"b{i}", f"n{i}", **how) for i in range(count)]
