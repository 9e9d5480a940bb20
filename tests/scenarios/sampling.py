"""The same scenario among 150 nodes, of which kube-scheduler offers a hundred at a time.

The added nodes have room for one member each, so kube-scheduler accepts them and fills its sample
with them. No gang can use them: each is in a hall of its own, and every gang is made to ask for one
hall (podgroup-extender.io/required-topology), which only the extender looks at. So the story stays
as it is written, and the seats are missing in a part of the lists.
"""

from __future__ import annotations

from msgspec.structs import replace

from extender.sandbox.scenario import Create, Nodes, Scenario, ScenarioStep

NODES = 150
HALL = "example.com/hall"
STAGE = {HALL: "stage"}
ASKED = {"podgroup-extender.io/required-topology": HALL}


def among_many(scenario: Scenario) -> Scenario:
    """Return the scenario with nodes added up to NODES."""
    own = [replace(group, labels={**group.labels, **STAGE}) for group in scenario.nodes]
    count = NODES - sum(group.count for group in own)
    first = own[0]
    # One pod each: two members of a gang must not find a hall of their own here.
    more = [
        Nodes(
            name=f"z{number}-",
            count=1,
            cpu=first.cpu,
            memory=first.memory,
            pods=1,
            labels={HALL: f"z{number}"},
            resources=first.resources,
        )
        for number in range(count)
    ]
    steps = [_step(step) for step in scenario.steps]
    return replace(scenario, nodes=[*own, *more], steps=steps)


def _step(step: ScenarioStep) -> ScenarioStep:
    return step if step.create is None else replace(step, create=_create(step.create))


def _create(create: Create) -> Create:
    whole = create.gang and 1 < create.quorum == create.size
    if whole and not create.annotations:
        return replace(create, annotations=ASKED)
    # A single pod, or one of a gang's that may be alone, is led by kube-scheduler's own rules.
    return replace(create, node_selector={**create.node_selector, **STAGE})
