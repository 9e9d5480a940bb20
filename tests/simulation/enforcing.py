"""``MORE["enforcing"]``: whom the extender acts for changes under its plans (docs/observe.md).

The label that ``enforce.namespaces`` selects is given to the namespace and taken again, and the
process is started again with another configuration: with ``mode: observe`` for a while, without a
selector, with other victims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from extender.sandbox.resources import NAMESPACES
from extender.settings.mode import EnforceSettings
from extender.settings.policy import NamespaceSelector
from tests.simulation.chance import Chance
from tests.simulation.happening import Happening
from tests.simulation.host import Host
from tests.simulation.moments import near, with_happenings
from tests.simulation.objects import MERGE
from tests.simulation.script import Script

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LABEL = "podgroup-extender.io/enforce"
SELECTED = NamespaceSelector(match_labels={LABEL: "true"})
KINDS = ("unlabel", "unlabel", "unlabel", "flick-label", "observe", "observe", "reconfigure")
STARTS = (0.1, 2.0)
"""How long a process that is started anew takes."""


def enforcing(script: Script, chance: Chance) -> Script:
    """One to three changes of whom it acts for; in some seeds nobody is chosen at first."""
    victims = chance.pick("enforce-victims", ("enforced", "enforced", "all"))
    found = [
        near(
            chance,
            "enforce",
            Happening(
                kind=chance.pick("enforce", KINDS),
                at=0.0,
                number=chance.pick("enforce-number", (0.05, 0.5, 2.0, 8.0, 30.0, 90.0)),
            ),
        )
        for _ in range(chance.number("enforcings", 1, 3))
    ]
    if chance.hit("enforce-late", 0.15):
        kind = chance.pick("enforce-first", ("unlabel", "observe"))
        seconds = chance.pick("enforce-begin", (2.0, 8.0, 20.0))
        found.append(Happening(kind=kind, at=0.0, number=seconds))
    enforce = EnforceSettings(namespaces=SELECTED)
    if victims == "all":
        enforce = replace(enforce, victims="all")
    settings = replace(script.settings, enforce=enforce)
    return with_happenings(replace(script, settings=settings), found, lasting=95.0)


class Enforcing:
    """Each happening is named by its kind. The namespace is labelled at the beginning."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        if not simulation.script.settings.enforce.everybody:
            self._label("true")

    def _label(self, value: str | None) -> None:
        sim = self._sim
        sim.story.tell("world", "the namespace is", "chosen" if value else "not chosen any more")
        # Who starts meanwhile starts as kube-scheduler has it.
        sim.calm.disturbed.append((sim.loop.time(), ""))
        patch = {"metadata": {"labels": {LABEL: value}}}
        sim.server.api.patch(NAMESPACES, "", "default", patch, MERGE)

    def unlabel(self, happening: Happening) -> None:
        """The label is taken from the namespace, and given again ``number`` seconds later."""
        self._label(None)
        self._sim.loop.call_later(happening.number, self._label, "true")

    def flick_label(self, happening: Happening) -> None:
        """The label comes and goes."""
        for turn in range(4):
            value = "true" if turn % 2 else None
            self._sim.loop.call_later(turn * min(happening.number, 2.0), self._label, value)

    def observe(self, happening: Happening) -> None:
        """The process is started with ``mode: observe``, and ``number`` seconds later as it was."""
        host = self._sim.host
        if self._sim.scheduler.bind_verb:
            return  # a binding is a write: its configuration would be refused
        if isinstance(host, Host) and host.alive and not host.observing:
            self._begin_anew(host, observing=True)
            self._sim.loop.call_later(happening.number, self._acts_again, host)

    def _acts_again(self, host: Host) -> None:
        if host.observing:
            self._begin_anew(host, observing=False)

    def reconfigure(self, happening: Happening) -> None:
        """The process is started with other rules of whom it acts for, and whose pods may go."""
        host = self._sim.host
        if not isinstance(host, Host) or not host.alive or host.observing:
            return
        now = host.settings.enforce
        other = "all" if now.victims == "enforced" else "enforced"
        chosen = SELECTED if now.everybody else NamespaceSelector()
        enforce = self._sim.chance.pick(
            "reconfigure", (replace(now, victims=other), replace(now, namespaces=chosen))
        )
        host.settings = replace(host.settings, enforce=enforce)
        self._begin_anew(host, observing=False)

    def _begin_anew(self, host: Host, *, observing: bool) -> None:
        sim = self._sim
        sim.story.tell("world", "the extender ends; it will", "observe" if observing else "act")
        sim.calm.disturbed.append((sim.loop.time(), ""))
        host.crash()
        host.observing = observing
        sim.loop.call_later(sim.chance.between("starts", *STARTS), sim.doings.start)
