"""The scenario language says what is wrong and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.model.errors import InvalidInput
from extender.sandbox.scenario import ScenarioStep, expand, scaled
from extender.sandbox.scenario_file import configured, load, packaged, parse
from extender.settings.settings import Settings

GOOD = """
name: x
about: y
nodes: [{count: 2, cpu: 4}]
priorityClasses: {low: 1}
never: [{whole: g}]
steps:
  - create: {gang: g, priorityClass: low, pods: 2, cpu: 3, grace: 20, every: 5}
  - waitRunning: g
  - sleep: 4
  - expect: {evicted: {}, running: {g: {nodes: ["n[0-1]"]}}}
"""


def test_a_good_one() -> None:
    scenario = parse(GOOD)
    create = scenario.actor("g")
    assert (create.size, create.quorum) == (2, 2)
    assert [step.key for step in scenario.steps] == ["create", "waitRunning", "sleep", "expect"]
    assert scenario.nodes[0].names == ["n0", "n1"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: x", "nam: x", "unknown field `nam`"),
        ("cpu: 4}", "cpu: [4]}", "$.nodes[0].cpu"),
        ("pods: 2", "pods: two", "$.steps[0].create.pods"),
        ("gang: g,", "gang: g, pod: p,", "$.steps[0].create: one of gang and pod"),
        ("pods: 2", "pods: 2, minCount: 3", "minCount must be between 1 and 2"),
        ("pods: 2", "pods: 2, minCount: 0", "minCount must be between 1 and 2"),
        ("priorityClass: low", "priorityClass: high", "no priority class 'high'"),
        ("pods: 2", "pods: 2, nodes: [n0]", "names 1 node for 2 pods"),
        ("pods: 2", "pods: 2, nodes: [n0, n7]", "no node 'n7'"),
        ("pods: 2", "jobset: {jobs: 1, completions: 2}", "nodes and every need bare pods"),
        ("waitRunning: g", "waitRunning: h", "$.steps[1].waitRunning: no actor is called 'h'"),
        ("sleep: 4", "sleep: 4\n    finish: g", "exactly one key is needed, found finish, sleep"),
        ("sleep: 4", "create: {gang: g}", "two arrivals have the same name"),
        ("sleep: 4", "admit: h", "$.steps[2].admit: no actor is called 'h' yet"),
        ("sleep: 4", "admit: {name: g, count: 1}", "$.steps[2].admit: g is not of dialect kueue"),
        ("sleep: 4", "preempt: g", "$.steps[2].preempt: g is not of dialect kueue"),
        ("sleep: 4", "recreate: h", "$.steps[2].recreate: no actor is called 'h' yet"),
        ("n[0-1]", "n[0-2]", "$.steps[3].expect: there is no node 'n2'"),
        ("{whole: g}", "{whole: h}", "$.never[0]: no actor is called 'h'"),
        ("{whole: g}", "{whole: g, bound: g}", "exactly one rule is needed, found 2"),
        ("never:", "extender: {plan: {seconds: soon}}\nnever:", "extender: Expected `float`"),
        ("name: x", "name: [x", "not YAML"),
    ],
)
def test_a_bad_one_is_refused_with_the_place(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInput) as refused:
        parse(GOOD.replace(old, new, 1))
    assert says in str(refused.value)


def test_jobs_pods_are_neither_kueues_nor_their_owners_to_make_again() -> None:
    jobset = GOOD.replace(
        "pods: 2, cpu: 3, grace: 20, every: 5", "jobset: {jobs: 1, completions: 2}"
    )
    assert "jobset" in jobset
    with pytest.raises(InvalidInput, match="recreate: the Job controller makes the pods of g"):
        parse(jobset.replace("sleep: 4", "recreate: g"))
    with pytest.raises(InvalidInput, match="create: dialect kueue needs bare pods"):
        parse(jobset.replace("gang: g,", "gang: g, dialect: kueue,"))


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    with pytest.raises(InvalidInput, match=r"bad\.yaml: No such file"):
        load(path)
    path.write_text("[]")
    with pytest.raises(InvalidInput, match=r"bad\.yaml: Expected"):
        load(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a: \xff", "not UTF-8 at byte 3"),
        (b"[" * 100_000, "not YAML: maximum recursion depth"),
        (b"a: !!bool perhaps", "not YAML: 'perhaps'"),
        (b"hello", "Expected `object`, got `str`"),
    ],
)
def test_what_is_no_scenario_at_all(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=f"^{path}: {says}"):
        load(path)


def test_ranges() -> None:
    assert expand(["a", "n[2-4]"]) == ["a", "n2", "n3", "n4"]


def test_the_scenarios_settings_lie_over_the_given_ones() -> None:
    scenario = parse(GOOD.replace("never:", "extender: {eviction: {concurrency: 1}}\nnever:"))
    given = replace(Settings(), plan=replace(Settings().plan, seconds=9.0))
    settings = configured(scenario, given)
    assert (settings.eviction.concurrency, settings.plan.seconds) == (1, 9.0)


def test_scaling_keeps_a_grace_of_at_least_a_second() -> None:
    scenario = scaled(parse(GOOD), 0.01)
    create = scenario.actor("g")
    assert (create.grace, create.every) == (1, 0.05)
    assert scenario.steps[2].sleep == pytest.approx(1.2)
    assert scaled(parse(GOOD.replace("sleep: 4", "sleep: 1")), 0.5).steps[2].sleep == 1
    assert scaled(parse(GOOD), 2).steps[2].sleep == 8


@pytest.mark.parametrize("name", packaged())
def test_the_packaged_ones_are_good_and_expect_evictions_exactly(name: str) -> None:
    scenario = load(packaged()[name])
    expected = [step.expect for step in scenario.steps if step.expect is not None]
    assert expected[-1].evicted is not None
    assert scenario.never
    assert all(group.pods == 110 for group in scenario.nodes)


def test_every_variant_is_there() -> None:
    first = {name.split("-")[0] for name in packaged()}
    assert {"jobset", "tour", *"abcdefghijklmnpqrstuvwx", *(f"o{i}" for i in range(1, 6))} == first


def test_an_empty_step_has_no_key() -> None:
    with pytest.raises(InvalidInput, match="exactly one key is needed, found none"):
        parse(GOOD.replace("- sleep: 4", "- {}"))
    assert ScenarioStep(sleep=1.0).key == "sleep"
