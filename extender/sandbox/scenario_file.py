"""Scenario files: read, checked, and the settings they ask for."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml

from extender.model.errors import InvalidInput
from extender.model.texts import counted
from extender.sandbox.patches import merge
from extender.sandbox.scenario import Admit, Create, Running, Scenario, ScenarioStep, expand
from extender.settings.settings import Settings

MOST_WORDS = 1000
"""Characters of what is wrong with a file."""
MOST_BYTES = 4 * 1024 * 1024
"""Far above any scenario."""


def packaged() -> dict[str, Path]:
    """Return the scenarios that come with the package: name -> file."""
    folder = Path(str(resources.files("extender.sandbox"))) / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load(path: Path) -> Scenario:
    """Read a scenario file; InvalidInput names the file, the place and what is wrong."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)  # a device has no end
        if len(data) > MOST_BYTES:
            raise InvalidInput(f"more than {MOST_BYTES} bytes are no scenario")
        return parse(data.decode("utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not UTF-8 at byte {error.start}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def parse(text: str) -> Scenario:
    """Read a scenario; InvalidInput names the place and what is wrong."""
    try:
        document: Any = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = (error.problem or error.context or "")[:MOST_WORDS]
        raise InvalidInput(f"not YAML{place}: {what}") from error
    except Exception as error:
        # For a wrong !!bool, or for lists without an end, PyYAML raises whatever comes of it.
        what = str(error).partition("\n")[0]
        raise InvalidInput(f"not YAML: {what[:MOST_WORDS]}") from error
    try:
        scenario = msgspec.convert(document, Scenario)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
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


def _problems(scenario: Scenario) -> list[str]:
    """Return what msgspec cannot see: references, choices that exclude each other."""
    wrong: list[str] = []
    nodes = {name for group in scenario.nodes for name in group.names}
    actors = [name for item in scenario.creates for name in item.actors]
    if len(actors) != len(set(actors)):
        wrong.append("$.steps: two arrivals have the same name")
    for at, step in enumerate(scenario.steps):
        place = f"$.steps[{at}]"
        keys = step.keys
        if len(keys) != 1:
            wrong.append(f"{place}: exactly one key is needed, found {', '.join(keys) or 'none'}")
            continue
        if step.create is not None:
            problems = _create_problems(step.create, scenario, nodes)
            wrong += [f"{place}.create: {text}" for text in problems]
        known = {
            name for other in scenario.steps[:at] if other.create for name in other.create.actors
        }
        wrong += [f"{place}.{step.key}: no actor is called {n!r} yet" for n in _named(step) - known]
        wrong += [
            f"{place}.{step.key}: {text}"
            for name in _named(step) & known
            for text in _act_problems(step, scenario.actor(name))
        ]
        for where in _places(step):
            if where not in nodes:
                wrong.append(f"{place}.{step.key}: there is no node {where!r}")
    for at, never in enumerate(scenario.never):
        chosen = (never.whole, never.seats, never.eviction_before, never.bound)
        count = sum(map(bool, chosen)) + (never.evictions_over is not None)
        if count != 1:
            wrong.append(f"$.never[{at}]: exactly one rule is needed, found {count}")
        wrong += [
            f"$.never[{at}]: no actor is called {n!r}" for n in chosen if n and n not in actors
        ]
    return wrong


def _create_problems(create: Create, scenario: Scenario, nodes: set[str]) -> list[str]:
    wrong = []
    if bool(create.gang) == bool(create.pod):
        wrong.append("one of gang and pod is needed")
    if create.jobset is not None and create.pods is not None:
        wrong.append("jobset and pods exclude each other")
    if create.jobset is not None and (create.nodes or create.every):
        wrong.append("nodes and every need bare pods")
    if create.jobset is not None and create.dialect == "kueue":
        wrong.append("dialect kueue needs bare pods")
    if create.pod and (create.jobset or create.pods is not None or create.min_count is not None):
        wrong.append("jobset, pods and minCount are for gangs")
    if create.priority_class and create.priority_class not in scenario.priority_classes:
        wrong.append(f"there is no priority class {create.priority_class!r}")
    if not 1 <= create.quorum <= create.size:
        wrong.append(f"minCount must be between 1 and {create.size}")
    places = expand(create.nodes)
    if places and len(places) != create.size * len(create.actors):
        pods = counted(create.size * len(create.actors), "pod")
        wrong.append(f"nodes names {counted(len(places), 'node')} for {pods}")
    wrong += [f"there is no node {name!r}" for name in places if name not in nodes]
    return wrong


def _act_problems(step: ScenarioStep, create: Create) -> list[str]:
    """Return why the step cannot be done to what this arrival made."""
    if step.key in ("admit", "preempt") and create.dialect != "kueue":
        return [f"{create.name} is not of dialect kueue"]
    if step.key == "recreate" and create.jobset is not None:
        return [f"the Job controller makes the pods of {create.name}"]
    return []


def _named(step: ScenarioStep) -> set[str]:
    """Return the actors a step speaks of."""
    names: set[str] = set()
    for wait in (step.wait_running, step.wait_pending, step.wait_terminating):
        if isinstance(wait, str):
            names.add(wait)
        elif wait is not None:
            names.update(wait.any_of or [wait.name])
    admitted = step.admit.name if isinstance(step.admit, Admit) else step.admit
    others = (step.finish, step.delete, step.preempt, step.recreate, admitted)
    names.update(name for name in others if name)
    if step.expect is not None:
        names.update(step.expect.running, step.expect.pending, step.expect.not_running)
        names.update(step.expect.one_of)
        names.update(n for n in step.expect.evicted or () if not n.endswith("*"))
        if step.expect.reason is not None:
            names.add(step.expect.reason.gang)
    return names


def _places(step: ScenarioStep) -> list[str]:
    if step.expect is None:
        return []
    specs = [spec for spec in step.expect.running.values() if isinstance(spec, Running)]
    return [name for spec in specs for name in expand(spec.nodes) + expand(spec.within)]
