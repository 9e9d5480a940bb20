"""What survives from one snapshot to the next: per-node sums, gangs, offers.

A snapshot shares every node and every node's pod tuple with the snapshot before
it unless they changed, so identity tells what must be summed again. The result
never depends on what was kept: an empty ledger gives the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.gang.gangs import Gangs
from extender.gang.nodesum import NodeSum
from extender.gang.offers import Offers, Question
from extender.groups.resolver import Resolver
from extender.model.objects import Node
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

MOST_QUESTIONS = 4
"""Kinds of preemptor whose offers are kept; a few gangs compete at a time."""


class Ledger:
    """Sums and offers by node name, brought up to date per snapshot."""

    def __init__(self, resolver: Resolver, settings: Settings) -> None:
        self._member_key = resolver.member_key
        self._settings = settings
        self._offers: dict[Question, Offers] = {}
        self._asked: dict[Question, int] = {}
        """The version of the sums that each was last brought up to."""
        self._last: Mapping[str, Node] = {}
        self.sums: dict[str, NodeSum] = {}
        """Every node of the last snapshot, by name."""
        self.names: tuple[str, ...] = ()
        """Their names, sorted."""
        self.nodes: tuple[Node, ...] = ()
        """Their records, in the same order."""
        self.gangs = Gangs(resolver)
        self.now = 0.0
        self._version = 0
        self._changed: set[str] = set()
        """Names of nodes that came, changed or went with the last renew."""

    def renew(self, snapshot: Snapshot) -> None:
        """Bring everything up to this snapshot."""
        self.now = snapshot.now
        old, new = self.sums, {}
        bound = snapshot.bound
        changed: set[str] = set()
        for name, node in snapshot.nodes.items():
            source = bound.get(name, ())
            kept = old.get(name)
            if kept is None or kept.source is not source or kept.node is not node:
                kept = NodeSum(node, source, self._member_key)
                changed.add(name)
            new[name] = kept
        if len(old) + len(changed - old.keys()) != len(new):
            changed |= old.keys() - new.keys()
        self.sums, self._changed = new, changed
        self._version += 1
        if snapshot.nodes is not self._last:
            self._last = snapshot.nodes
            self.names = tuple(sorted(new))
            self.nodes = tuple(snapshot.nodes[name] for name in self.names)
        self.gangs.renew(snapshot)

    def offers(self, question: Question) -> Offers:
        """Return what every node offers to such a preemptor, as of the last renew."""
        kept = self._offers.pop(question, None) or Offers(question, self._settings)
        self._offers[question] = kept
        if len(self._offers) > MOST_QUESTIONS:
            oldest = next(iter(self._offers))
            del self._offers[oldest]
            del self._asked[oldest]
        last = self._asked.pop(question, -1)
        self._asked[question] = self._version
        if last == self._version:
            changed: set[str] | None = set()
        else:
            changed = self._changed if last == self._version - 1 else None
        kept.renew(self.sums, changed, self.gangs, self.now)
        return kept
