"""What survives from one snapshot to the next: the census of pods, gangs, masks.

A snapshot shares every node and every node's pod tuple with the snapshot before
it unless they changed, so identity tells what must be looked at again. The result
never depends on what was kept: an empty planning gives the same answers.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import compress
from math import inf
from typing import TYPE_CHECKING

from extender.decode.interning import MOST_BYTES, Memo, Recent
from extender.fit.selector_index import SelectorIndex
from extender.fit.static import node_kinds, static_mask
from extender.gang.incremental.classes import classes_of
from extender.gang.incremental.gangs import Gangs
from extender.gang.incremental.preemptability import Preemptability
from extender.gang.incremental.victim_costs import VictimCosts
from extender.gang.incremental.victims import VictimUnit
from extender.groups.composite import unit_key
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.memory_limits import weigh
from extender.model.objects import Node, Pod, PodShape, PriorityClass, Requests
from extender.model.snapshot import Snapshot, differing
from extender.search.census import (
    FREE,
    STAYS,
    Census,
    Holder,
    NumberedAmounts,
    Offers,
    OffersQuestion,
    Seatings,
)
from extender.search.solver import open_census
from extender.settings.settings import Settings

if TYPE_CHECKING:
    from extender.search.core.census import Census as CompiledCensus
    from extender.search.core.census import Offers as CompiledOffers

MOST_AMOUNTS = 20_000
"""Different requests and node sizes that are remembered."""
MOST_CLAIM = 1 << 48
"""A pod that asks for more than this of anything counts with what makes its node full."""
MOST_NAMES = 10_000
"""Names of resources, beyond which those that nobody uses are forgotten."""
RESOURCE_BYTES = 384
NAME_BYTES = 160
"""What a resource of some amounts takes, and a node of some that are usable."""
DECISIVE_BUDGETS = 2
"""Budgets that match a pod: two are as good as any more, since the Eviction API refuses them all
(policy/v1 eviction of pkg/registry/core/pod)."""
MOST_MASKS = 200
MOST_GANGS = 4

PodClasses = tuple[tuple[Pod, ...], ...]


class Usable:
    """Some nodes by name, as a problem numbers them."""

    def __init__(self, names: tuple[str, ...], slots: array[int]) -> None:
        self.names = names
        self.slots = slots
        self.index = {name: at for at, name in enumerate(names)}


class PlanningCache:
    """Who is on each node and at what priority they go, brought up to date per snapshot."""

    def __init__(self, resolver: Resolver, settings: Settings) -> None:
        self.member_key = resolver.member_key
        self.census = open_census()
        self.gangs = Gangs(resolver)
        self.preemptability = Preemptability(settings)
        self.victim_costs = VictimCosts()
        self.names: tuple[str, ...] = ()
        """Every node of the last snapshot, sorted."""
        self.nodes: tuple[Node, ...] = ()
        """Their records, in the same order."""
        self.guards = SelectorIndex()
        """Which of the last snapshot's disruption budgets, by place, speak for a pod."""
        self._most_budgets = settings.plan.budgets_per_namespace
        self.budget_work: Counter[str] = Counter()
        """Namespace -> values of selectors and pods that were looked at for its budgets since
        ``renew``."""
        self.all_work = 0
        """Those, and the pods and nodes that were looked at for anything else."""
        self.now = 0.0
        self._last = Snapshot(generation=-1)
        least = (settings.plan.min_runtime_seconds, *settings.fairness.min_runtime_seconds.values())
        self._young = any(least)
        self._slots: dict[str, int] = {}
        self._unused: list[int] = []
        self._until: dict[str, float] = {}
        """Nodes whose pods' preemptability hold for a while only."""
        self._numbers: dict[str, int] = {}
        """Resource name -> its number in the census."""
        self._most_numbers = MOST_NAMES
        self._listed: frozenset[str] = frozenset()
        """Resources that some node has, or had. What no node has decides nothing: who asks for it
        has no place, whoever goes. And names are for whoever makes pods to make up, while each
        node's sums reach to the highest number that is asked for there."""
        self._amounts: Memo[Requests, NumberedAmounts] = Memo(MOST_AMOUNTS)
        self._classes: deque[tuple[tuple[Pod, ...], PodClasses]] = deque(maxlen=MOST_GANGS)
        # What depends on the nodes' records alone.
        self._kinds: tuple[int, ...] = ()
        self._masks: Recent[tuple[PodShape, Requests], bytes] = Recent(MOST_MASKS)
        self._usable: Recent[bytes, Usable] = Recent(MOST_MASKS, 2 * MOST_BYTES)

    def lifts(self) -> float:
        """When the first protection that holds for a while ends, on the last snapshot's clock."""
        return min(self._until.values(), default=inf)

    def renew(self, snapshot: Snapshot) -> set[str]:
        """Bring everything up to this snapshot; return the nodes that differ from the last."""
        last, now = self._last, snapshot.now
        nodes = snapshot.nodes
        self.budget_work.clear()
        changed = differing(last.nodes, nodes) | differing(last.bound, snapshot.bound)
        dirty = set(changed)
        if nodes is not last.nodes and self._take_nodes(nodes):
            dirty |= nodes.keys()
        if len(self._numbers) > self._most_numbers:
            self._number_anew()
            dirty |= nodes.keys()
        reguarded, recounted = self._take_budgets(snapshot)
        dirty |= recounted
        self.victim_costs.renew(nodes)
        self.gangs.renew(snapshot)
        dirty |= self.preemptability.renew(self.gangs, self.guards, snapshot, reguarded)
        dirty |= self._of_namespaces(differing(last.namespaces, snapshot.namespaces), snapshot)
        dirty |= self._of_namespaces(
            {name for name, _ in snapshot.stayed.items() ^ last.stayed.items()}, snapshot
        )
        dirty |= self._of_classes(snapshot)
        either: set[str] = set()
        if snapshot.unevictable is not last.unevictable:
            either |= last.unevictable.keys() | snapshot.unevictable.keys()
        if snapshot.spared is not last.spared:
            either |= last.spared.keys() | snapshot.spared.keys()
        if either:
            dirty |= {
                name
                for name, pods in snapshot.bound.items()
                if any(pod.uid in either for pod in pods)
            }
        dirty |= {name for name, until in self._until.items() if now >= until}
        if now < self.now:
            # The clock went back: what was over may hold again.
            spare = {name for name, each in snapshot.priority_classes.items() if _tolerance(each)}
            dirty |= {
                name
                for name, pods in snapshot.bound.items()
                if self._young
                or any(
                    pod.deleting or pod.uid in snapshot.spared or pod.priority_class in spare
                    for pod in pods
                )
            }
        self._last, self.now = snapshot, now
        others = sum(len(snapshot.bound.get(name, ())) for name in dirty - recounted)
        self.all_work = self.budget_work.total() + others + len(nodes)
        self._bring_up(dirty)
        if not self._most_numbers:
            # Those that are in use may be as many again before all is numbered anew.
            self._most_numbers = max(MOST_NAMES, 2 * len(self._numbers))
        return changed

    def _number_anew(self) -> None:
        """Forget resources: some are asked for by nobody any more, and names have no end."""
        self.census = open_census()
        self._amounts.clear()
        self._numbers.clear()
        self._most_numbers = 0

    def face(self, asked: int) -> None:
        """Judge everybody by what a preemptor of priority ``asked`` may do."""
        dirty = self.preemptability.face(asked)
        if dirty:
            self._bring_up(dirty)

    def _bring_up(self, dirty: set[str]) -> None:
        try:
            self._put(dirty, self.census)
        except OverflowError:
            # Amounts beyond what the compiled census takes: go on in plain Python.
            self.census = Census()
            self._put(self._last.nodes, self.census)

    def classes(self, pending: tuple[Pod, ...]) -> PodClasses:
        """Return classes_of these members, of the gangs asked for last at once."""
        for members, classes in self._classes:
            if members == pending:  # quick: the same records are told by identity
                return classes
        found = classes_of(pending)
        self._classes.append((pending, found))
        return found

    def mask(self, pod: Pod) -> bytes:
        """Return one byte a node, 1 where the pod could be by what node and pod alone say."""
        key = (pod.shape, pod.requests)
        found = self._masks.get(key)
        if found is None:
            found = static_mask(pod, self.nodes, self._kinds)
            self._masks.put(key, found, weigh(key) + len(found))
        return found

    def usable(self, mask: bytes) -> Usable:
        """Return the nodes with a 1."""
        found = self._usable.get(mask)
        if found is None:
            names = tuple(compress(self.names, mask))
            slots = array("i", map(self._slots.__getitem__, names))
            found = Usable(names, slots)
            self._usable.put(mask, found, len(mask) + NAME_BYTES * len(names))
        return found

    def numbers(self, resources: Iterable[str]) -> tuple[int, ...]:
        """Return the census' numbers of these resources."""
        numbers = self._numbers
        return tuple([numbers.setdefault(name, len(numbers)) for name in resources])

    def offers(
        self, question: OffersQuestion, slots: array[int], held: Mapping[int, Seatings]
    ) -> Offers | CompiledOffers:
        """Return what the nodes in these slots offer (Census.offers), whatever the amounts."""
        try:
            return self.census.offers(question, slots, held)
        except OverflowError:
            # Beyond what the compiled census takes: this one question in plain Python.
            plain = Census()
            self._put(self._last.nodes, plain)
            return plain.offers(question, slots, held)

    def own_number(self, gang: Gang) -> int:
        """Return the number of the gang's pods in the census; -1 when none is on a node."""
        if any(member.node for member in gang.members):
            return self.preemptability.of_gang(gang.key, self.now).number
        return -1

    def why_stays(self, name: str, preemptor: Gang) -> list[tuple[Pod, str]]:
        """Return the pods on a node that do not go for this preemptor, and why."""
        found = []
        for pod in self._last.bound.get(name, ()):
            key = self.member_key(pod)
            if key != preemptor.key:
                unit = unit_key(key, pod)
                why = self.preemptability.why_stays(pod, unit, preemptor, self.now)
                if why:
                    found.append((pod, why))
        return found

    def _take_nodes(self, nodes: Mapping[str, Node]) -> bool:
        """Return whether some node has a resource that none had before."""
        gone = self._slots.keys() - nodes.keys()
        for name in gone:
            slot = self._slots.pop(name)
            self.census.drop(slot)
            self._unused.append(slot)
            self._until.pop(name, None)
        for name in nodes:
            if name not in self._slots:
                fresh = len(self._slots) + len(self._unused)
                self._slots[name] = self._unused.pop() if self._unused else fresh
        self.names = tuple(sorted(nodes))
        self.nodes = tuple([nodes[name] for name in self.names])
        self._kinds = node_kinds(self.nodes)
        self._masks.clear()
        self._usable.clear()
        kinds = {node.allocatable for node in self.nodes}
        listed = self._listed.union(name for allocatable in kinds for name, _ in allocatable)
        if listed == self._listed:
            return False
        self._listed = listed
        self._amounts.clear()
        return True

    def _take_budgets(self, snapshot: Snapshot) -> tuple[set[str], set[str]]:
        """Note which selectors there are; return the namespaces whose selectors differ, and the
        nodes with a pod there that fewer or more budgets match, as far as that decides anything."""
        if snapshot.budgets is self._last.budgets:
            return set(), set()
        before = self.guards
        budgets = ((budget.namespace, budget.selector) for budget in snapshot.budgets)
        self.guards = after = SelectorIndex(budgets, before, self._most_budgets)
        changed = before.differing(after)
        if not changed:
            return changed, set()
        work = self.budget_work
        for namespace in changed:
            work[namespace] += after.size(namespace)
        nodes = set()
        for name, pods in snapshot.bound.items():
            for pod in pods:
                namespace = pod.namespace
                if namespace not in changed:
                    continue
                work[namespace] += 1
                old = before.count(namespace, pod.labels)
                new = after.count(namespace, pod.labels)
                if min(old, DECISIVE_BUDGETS) != min(new, DECISIVE_BUDGETS):
                    work[namespace] += len(pods)
                    nodes.add(name)
                    break
        return changed, nodes

    @staticmethod
    def _of_namespaces(changed: set[str], snapshot: Snapshot) -> set[str]:
        """Return the nodes with pods of these namespaces."""
        if not changed:
            return set()
        return {
            name
            for name, pods in snapshot.bound.items()
            if any(pod.namespace in changed for pod in pods)
        }

    def _of_classes(self, snapshot: Snapshot) -> set[str]:
        """Return the nodes with pods of classes that tolerate other preemptors than before."""
        before, after = self._last.priority_classes, snapshot.priority_classes
        changed = {
            name
            for name in differing(before, after)
            if _tolerance(before.get(name)) != _tolerance(after.get(name))
        }
        if not changed:
            return set()
        return {
            name
            for name, pods in snapshot.bound.items()
            if any(pod.priority_class in changed for pod in pods)
        }

    def _put(self, names: Iterable[str], census: Census | CompiledCensus) -> None:
        nodes, bound, now = self._last.nodes, self._last.bound, self.now
        of_pod, member_key = self.preemptability.of_pod, self.member_key
        count, some = self.guards.count, self.guards.namespaces
        for name in names:
            node = nodes.get(name)
            if node is None:
                continue
            holders: list[tuple[int, str, Holder]] = []
            soonest = inf
            for pod in bound.get(name, ()):
                try:
                    key = unit_key(member_key(pod), pod)
                    budgets = count(pod.namespace, pod.labels) if pod.namespace in some else 0
                except Exception as error:  # a mistake of ours about this pod: it stays
                    self.preemptability.aside.put((pod,), error)
                    key, budgets = None, 0
                priority, until, gang, whole = of_pod(pod, key, now, budgets)
                soonest = min(soonest, until)
                subject: Pod | VictimUnit = pod
                if priority != FREE and priority != STAYS and not whole:
                    left = None if pod.deleting else key  # no member's end any more
                    subject = VictimUnit(uid=pod.uid, pods=(pod,), priority=priority, gang=left)
                number = -1 if gang is None else gang.number
                amounts = self._amounts.get(pod.requests) or self._number_on(node, pod.requests)
                holder = Holder(
                    priority,
                    number,
                    whole=whole,
                    covered=budgets > 0 or (whole and gang is not None and gang.budgeted),
                    requests=amounts,
                    subject=subject,
                )
                holders.append((priority, pod.uid, holder))
            holders.sort()
            census.put(
                self._slots[name],
                self._amounts.get(node.allocatable) or self._number(node.allocatable),
                [holder for _, _, holder in holders],
            )
            if soonest < inf:
                self._until[name] = soonest
            else:
                self._until.pop(name, None)

    def _number_on(self, node: Node, requests: Requests) -> NumberedAmounts:
        """As ``_number``, of a pod there.

        Whoever creates a pod may write any request, and name the node itself. One that asks for
        more than the node has keeps every member off as long as it stays, however much more it
        is; counting one more than the node has says the same, and sums stay small.
        """
        if all(amount <= MOST_CLAIM for _, amount in requests):
            return self._number(requests)
        whole = dict(node.allocatable)
        listed = [(name, amount) for name, amount in requests if name in self._listed]
        numbers = self.numbers(name for name, _ in listed)
        amounts = (min(amount, whole.get(name, 0) + 1) for name, amount in listed)
        return tuple(zip(numbers, amounts, strict=True))

    def _number(self, amounts: Requests) -> NumberedAmounts:
        listed = [(name, amount) for name, amount in amounts if name in self._listed]
        numbers = self.numbers(name for name, _ in listed)
        found = tuple(zip(numbers, (amount for _, amount in listed), strict=True))
        return self._amounts.put(amounts, found, RESOURCE_BYTES * len(amounts))


def _tolerance(found: PriorityClass | None) -> tuple[int, int] | None:
    """Return what a PriorityClass tolerates, None for nothing."""
    if found is None or found.preemptable_from is None:
        return None
    return found.preemptable_from, found.tolerates_seconds
