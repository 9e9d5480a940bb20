"""The scenario language: a YAML document that plays on any API server.

A scenario names nodes and priority classes, tells in steps who arrives and what
is expected, and lists what must never happen meanwhile. Times are in seconds,
keys in camelCase; an unknown key, a wrong type and a reference to nobody are
errors that name the place.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

DialectName = Literal[
    "podGroup", "schedulingPlugins", "schedulingPluginsLabel", "skypilot", "jobset", "kueue", "none"
]
PATIENCE = 120.0
"""How long a wait waits unless it says otherwise, in seconds."""
SHORTEST_PAUSE = 1.2
_RANGE = re.compile(r"^(?P<stem>.*)\[(?P<first>\d+)-(?P<last>\d+)\]$")


class ScenarioPart(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every part."""


class Nodes(ScenarioPart, frozen=True, kw_only=True):
    """Equal nodes ``<name>0``, ``<name>1``, ..."""

    name: str = "n"
    count: int
    cpu: str | int
    memory: str = "64Gi"
    pods: int = 110
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    resources: dict[str, str | int] = field(default_factory=dict)
    """Extended resources, for example nvidia.com/gpu."""

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        return [f"{self.name}{index}" for index in range(self.count)]


class JobSet(ScenarioPart, frozen=True, kw_only=True):
    """Indexed Jobs that carry a JobSet's labels; the Job controller runs them."""

    jobs: int
    completions: int


class EqualPods(ScenarioPart, frozen=True, kw_only=True):
    """Equal bare pods of a gang: what differs from the gang's own request."""

    name: str = ""
    count: int
    cpu: str | int | None = None
    memory: str | None = None
    resources: dict[str, str | int] | None = None


class Create(ScenarioPart, frozen=True, kw_only=True):
    """A gang, or single pods, that arrives.

    ``copies`` makes several, named ``<name>-0`` and so on. ``nodes`` gives the pods
    their nodes without a scheduler, in order ("n[0-3]" is n0, n1, n2, n3); only
    bare pods can have that. ``every`` is the pause between two pods, in seconds.
    With dialect kueue they come with its scheduling gate, except where they have their
    nodes, and with its finalizer.
    """

    gang: str = ""
    pod: str = ""
    copies: int = 0
    priority_class: str = ""
    min_count: int | None = None
    """Quorum; by default all pods."""
    disruption: Literal["", "whole", "single"] = ""
    dialect: DialectName = "podGroup"
    jobset: JobSet | None = None
    pods: list[EqualPods] | int | None = None
    cpu: str | int = 1
    memory: str | None = None
    resources: dict[str, str | int] = field(default_factory=dict)
    grace: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    spread: dict[str, int] = field(default_factory=dict)
    """Topology key -> maxSkew of the actor's own pods (DoNotSchedule)."""
    nodes: list[str] = field(default_factory=list)
    every: float = 0.0

    @property
    def name(self) -> str:
        """Name of the gang or pod, without a copy's number."""
        return self.gang or self.pod

    @property
    def actors(self) -> list[str]:
        """Names under which expectations speak of what is made."""
        return [f"{self.name}-{i}" for i in range(self.copies)] if self.copies else [self.name]

    @property
    def classes(self) -> list[EqualPods]:
        """The bare pods by class."""
        if isinstance(self.pods, list):
            return self.pods
        return [EqualPods(count=self.pods or 1)]

    @property
    def size(self) -> int:
        """Pods of one actor."""
        if self.jobset is not None:
            return self.jobset.jobs * self.jobset.completions
        return sum(item.count for item in self.classes)

    @property
    def quorum(self) -> int:
        """The actor's minCount; 1 for a single pod."""
        return self.min_count if self.min_count is not None else self.size


class Wait(ScenarioPart, frozen=True, kw_only=True):
    """Wait until ``count`` pods (default: all) of the actor are as the step says."""

    name: str = ""
    any_of: list[str] = field(default_factory=list)
    """Instead of a name: one of these is enough."""
    count: int | None = None
    timeout: float = PATIENCE


class Admit(ScenarioPart, frozen=True, kw_only=True):
    """Kueue lifts the scheduling gate of ``count`` (default: all) of the actor's gated pods."""

    name: str
    count: int | None = None


class KillAfter(ScenarioPart, frozen=True, kw_only=True):
    """Kill the extender (-9) right after this many of its evictions have gone through."""

    deletes: int


class Running(ScenarioPart, frozen=True, kw_only=True):
    """Where an actor runs: exactly ``nodes`` (one entry a pod), or anywhere ``within``."""

    count: int | None = None
    nodes: list[str] = field(default_factory=list)
    within: list[str] = field(default_factory=list)


class Reason(ScenarioPart, frozen=True, kw_only=True):
    """What the extender's decisions about a gang must say, in any letter case."""

    gang: str
    contains: list[str]
    outcome: str = ""


class Expect(ScenarioPart, frozen=True, kw_only=True):
    """What must be so now. ``evicted`` counts since the beginning and is complete:
    whoever is not named (a trailing ``*`` names several) was not evicted."""

    evicted: dict[str, int] | None = None
    evicted_gangs: int | None = None
    """How many different actors lost a pod."""
    running: dict[str, int | Running] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    not_running: list[str] = field(default_factory=list)
    one_of: list[str] = field(default_factory=list)
    """Exactly one of these runs whole; the others have no pod on a node."""
    reason: Reason | None = None


class Never(ScenarioPart, frozen=True, kw_only=True):
    """What must not happen at any moment. One of:

    whole: the actor has some pods on nodes but, for longer than ``settle``
    seconds, fewer than its quorum; or a pod gets a node before the quorum exists.
    seats: between the first eviction and the actor's running whole, a less or
    equally urgent pod that is as big as one of the actor's gets a node.
    evictionBefore: a pod is evicted before the actor's quorum exists.
    evictionsOver: more pods than this are evicted.
    bound: this actor's pod gets a node.
    """

    whole: str = ""
    settle: float = 15.0
    seats: str = ""
    eviction_before: str = ""
    evictions_over: int | None = None
    bound: str = ""


class ScenarioStep(ScenarioPart, frozen=True, kw_only=True):
    """One step; exactly one key is set."""

    create: Create | None = None
    wait_running: str | Wait | None = None
    wait_pending: str | Wait | None = None
    wait_terminating: str | Wait | None = None
    wait_extender_down: float | None = None
    """Seconds at most."""
    finish: str | None = None
    delete: str | None = None
    admit: str | Admit | None = None
    preempt: str | None = None
    """Kueue does it, for its quota: it marks and deletes the actor's pods until none runs."""
    recreate: str | None = None
    """The owner throws away what is left of the actor's bare pods and makes all of them again,
    under the same names, as SkyPilot does. None of these deletions is an eviction."""
    sleep: float | None = None
    kill_extender: bool | None = None
    start_extender: bool | None = None
    kill_extender_after: KillAfter | None = None
    slow_evictions: float | None = None
    """From now on every eviction takes this many seconds on its way to the API server."""
    expect: Expect | None = None

    @property
    def verb(self) -> str:
        """The field that is set."""
        return next(name for name in self.__struct_fields__ if getattr(self, name) is not None)

    @property
    def keys(self) -> list[str]:
        """The keys that are set, as the document has them."""
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        return [key for name, key in names if getattr(self, name) is not None]

    @property
    def key(self) -> str:
        """The key as the document has it."""
        return self.keys[0]


class Scenario(ScenarioPart, frozen=True, kw_only=True):
    """The whole document."""

    name: str
    about: str
    nodes: list[Nodes]
    priority_classes: dict[str, int] = field(default_factory=dict)
    extender: dict[str, Any] = field(default_factory=dict)
    """What the scenario needs of the extender's configuration, laid over the given one."""
    never: list[Never] = field(default_factory=list)
    steps: list[ScenarioStep]

    @property
    def creates(self) -> list[Create]:
        """Every arrival, in order."""
        return [step.create for step in self.steps if step.create is not None]

    def actor(self, name: str) -> Create:
        """Return the arrival that an actor's name comes from."""
        return next(item for item in self.creates if name in item.actors)


def expand(names: list[str]) -> list[str]:
    """Return node names with every ``n[0-3]`` spelt out."""
    found: list[str] = []
    for name in names:
        match = _RANGE.match(name)
        if match is None:
            found.append(name)
        else:
            numbers = range(int(match["first"]), int(match["last"]) + 1)
            found += [f"{match['stem']}{number}" for number in numbers]
    return found


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with graces, pauses and staggering multiplied.

    A grace stays at least a second and a pause at least SHORTEST_PAUSE: time
    stamps of the API are whole seconds.
    """

    def step(old: ScenarioStep) -> ScenarioStep:
        if old.sleep is not None:
            shortest = min(old.sleep, SHORTEST_PAUSE)
            return msgspec.structs.replace(old, sleep=max(shortest, old.sleep * factor))
        if old.slow_evictions is not None:
            return msgspec.structs.replace(old, slow_evictions=old.slow_evictions * factor)
        if old.create is not None:
            grace = max(1, round(old.create.grace * factor)) if old.create.grace else 0
            create = msgspec.structs.replace(
                old.create, grace=grace, every=old.create.every * factor
            )
            return msgspec.structs.replace(old, create=create)
        return old

    return msgspec.structs.replace(scenario, steps=[step(item) for item in scenario.steps])
