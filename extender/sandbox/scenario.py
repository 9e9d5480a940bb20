"""The scenario language: a YAML document that plays on any API server.

A scenario names nodes and priority classes, tells in steps who arrives and what
is expected, and lists what must never happen meanwhile. Times are in seconds,
keys in camelCase; an unknown key, a wrong type and a reference to nobody are
errors that name the place.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct, field

from extender.model.errors import InvalidInput
from extender.model.settings import Settings
from extender.sandbox.patches import merge

Dialect = Literal[
    "podGroup", "schedulingPlugins", "schedulingPluginsLabel", "skypilot", "jobset", "none"
]
PATIENCE = 60.0
"""How long a wait waits unless it says otherwise, in seconds."""
SHORTEST_PAUSE = 1.2
_RANGE = re.compile(r"^(?P<stem>.*)\[(?P<first>\d+)-(?P<last>\d+)\]$")


class Part(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every part."""


class Nodes(Part, frozen=True, kw_only=True):
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


class JobSet(Part, frozen=True, kw_only=True):
    """Indexed Jobs that carry a JobSet's labels; the Job controller runs them."""

    jobs: int
    completions: int


class PodClass(Part, frozen=True, kw_only=True):
    """Equal bare pods of a gang: what differs from the gang's own request."""

    name: str = ""
    count: int
    cpu: str | int | None = None
    memory: str | None = None
    resources: dict[str, str | int] | None = None


class Create(Part, frozen=True, kw_only=True):
    """A gang, or single pods, that arrives.

    ``copies`` makes several, named ``<name>-0`` and so on. ``nodes`` gives the pods
    their nodes without a scheduler, in order ("n[0-3]" is n0, n1, n2, n3); only
    bare pods can have that. ``every`` is the pause between two pods, in seconds.
    """

    gang: str = ""
    pod: str = ""
    copies: int = 0
    priority_class: str = ""
    min_count: int | None = None
    """Quorum; by default all pods."""
    disruption: Literal["", "whole", "single"] = ""
    dialect: Dialect = "podGroup"
    jobset: JobSet | None = None
    pods: list[PodClass] | int | None = None
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
    def classes(self) -> list[PodClass]:
        """The bare pods by class."""
        if isinstance(self.pods, list):
            return self.pods
        return [PodClass(count=self.pods or 1)]

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


class Wait(Part, frozen=True, kw_only=True):
    """Wait until ``count`` pods (default: all) of the actor are as the step says."""

    name: str = ""
    any_of: list[str] = field(default_factory=list)
    """Instead of a name: one of these is enough."""
    count: int | None = None
    timeout: float = PATIENCE


class KillAfter(Part, frozen=True, kw_only=True):
    """Kill the extender (-9) right after this many of its evictions have gone through."""

    deletes: int


class Running(Part, frozen=True, kw_only=True):
    """Where an actor runs: exactly ``nodes`` (one entry a pod), or anywhere ``within``."""

    count: int | None = None
    nodes: list[str] = field(default_factory=list)
    within: list[str] = field(default_factory=list)


class Reason(Part, frozen=True, kw_only=True):
    """What the extender's decisions about a gang must say, in any letter case."""

    gang: str
    contains: list[str]
    outcome: str = ""


class Expect(Part, frozen=True, kw_only=True):
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


class Never(Part, frozen=True, kw_only=True):
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


class Step(Part, frozen=True, kw_only=True):
    """One step; exactly one key is set."""

    create: Create | None = None
    wait_running: str | Wait | None = None
    wait_pending: str | Wait | None = None
    wait_terminating: str | Wait | None = None
    wait_extender_down: float | None = None
    """Seconds at most."""
    finish: str | None = None
    delete: str | None = None
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
    def key(self) -> str:
        """The key as the document has it."""
        return _set_keys(self)[0]


class Scenario(Part, frozen=True, kw_only=True):
    """The whole document."""

    name: str
    about: str
    nodes: list[Nodes]
    priority_classes: dict[str, int] = field(default_factory=dict)
    extender: dict[str, Any] = field(default_factory=dict)
    """What the scenario needs of the extender's configuration, laid over the given one."""
    never: list[Never] = field(default_factory=list)
    steps: list[Step]

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


def packaged() -> dict[str, Path]:
    """Return the scenarios that come with the package: name -> file."""
    folder = Path(str(resources.files("extender.sandbox"))) / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load(path: Path) -> Scenario:
    """Read a scenario file; InvalidInput names the file, the place and what is wrong."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def parse(text: str) -> Scenario:
    """Read a scenario; InvalidInput names the place and what is wrong."""
    try:
        document: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(f"not YAML: {' '.join(str(error).split())}") from error
    try:
        scenario = msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from error
    wrong = _problems(scenario)
    if wrong:
        raise InvalidInput("; ".join(wrong))
    configured(scenario, Settings())
    return scenario


def configured(scenario: Scenario, settings: Settings) -> Settings:
    """Return the settings with the scenario's own laid over them; InvalidInput when bad."""
    document = merge(msgspec.to_builtins(settings), scenario.extender)
    try:
        return msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"extender: {error}") from error


def scaled(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with graces, pauses and staggering multiplied.

    A grace stays at least a second and a pause at least SHORTEST_PAUSE: time
    stamps of the API are whole seconds.
    """

    def step(old: Step) -> Step:
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


def _set_keys(part: Struct) -> list[str]:
    names = zip(part.__struct_fields__, part.__struct_encode_fields__, strict=True)
    return [key for name, key in names if getattr(part, name) is not None]


def _problems(scenario: Scenario) -> list[str]:
    """Return what msgspec cannot see: references, choices that exclude each other."""
    wrong: list[str] = []
    nodes = {name for group in scenario.nodes for name in group.names}
    actors = [name for item in scenario.creates for name in item.actors]
    if len(actors) != len(set(actors)):
        wrong.append("$.steps: two arrivals have the same name")
    for at, step in enumerate(scenario.steps):
        place = f"$.steps[{at}]"
        keys = _set_keys(step)
        if len(keys) != 1:
            wrong.append(f"{place}: exactly one key is needed, found {', '.join(keys) or 'none'}")
            continue
        if step.create is not None:
            problems = _create_problems(step.create, scenario, nodes)
            wrong += [f"{place}.create: {text}" for text in problems]
        known = {
            name for other in scenario.steps[:at] if other.create for name in other.create.actors
        }
        wrong += [f"{place}.{step.key}: nobody is called {n!r} yet" for n in _named(step) - known]
        for where in _places(step):
            if where not in nodes:
                wrong.append(f"{place}.{step.key}: there is no node {where!r}")
    for at, never in enumerate(scenario.never):
        chosen = (never.whole, never.seats, never.eviction_before, never.bound)
        count = sum(map(bool, chosen)) + (never.evictions_over is not None)
        if count != 1:
            wrong.append(f"$.never[{at}]: exactly one rule is needed, found {count}")
        wrong += [f"$.never[{at}]: nobody is called {n!r}" for n in chosen if n and n not in actors]
    return wrong


def _create_problems(create: Create, scenario: Scenario, nodes: set[str]) -> list[str]:
    wrong = []
    if bool(create.gang) == bool(create.pod):
        wrong.append("one of gang and pod is needed")
    if create.jobset is not None and create.pods is not None:
        wrong.append("jobset and pods exclude each other")
    if create.jobset is not None and (create.nodes or create.every):
        wrong.append("nodes and every need bare pods")
    if create.pod and (create.jobset or create.pods is not None or create.min_count is not None):
        wrong.append("jobset, pods and minCount are for gangs")
    if create.priority_class and create.priority_class not in scenario.priority_classes:
        wrong.append(f"there is no priority class {create.priority_class!r}")
    if not 1 <= create.quorum <= create.size:
        wrong.append(f"minCount must be between 1 and {create.size}")
    places = expand(create.nodes)
    if places and len(places) != create.size * len(create.actors):
        wrong.append(f"nodes names {len(places)} nodes for {create.size * len(create.actors)} pods")
    wrong += [f"there is no node {name!r}" for name in places if name not in nodes]
    return wrong


def _named(step: Step) -> set[str]:
    """Return the actors a step speaks of."""
    names: set[str] = set()
    for wait in (step.wait_running, step.wait_pending, step.wait_terminating):
        if isinstance(wait, str):
            names.add(wait)
        elif wait is not None:
            names.update(wait.any_of or [wait.name])
    names.update(name for name in (step.finish, step.delete) if name)
    if step.expect is not None:
        names.update(step.expect.running, step.expect.pending, step.expect.not_running)
        names.update(step.expect.one_of)
        names.update(n for n in step.expect.evicted or () if not n.endswith("*"))
        if step.expect.reason is not None:
            names.add(step.expect.reason.gang)
    return names


def _places(step: Step) -> list[str]:
    if step.expect is None:
        return []
    specs = [spec for spec in step.expect.running.values() if isinstance(spec, Running)]
    return [name for spec in specs for name in expand(spec.nodes) + expand(spec.within)]
