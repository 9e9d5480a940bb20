"""What is kept from one picture to the next: never another answer than a fresh reader's."""

from __future__ import annotations

import random

from msgspec.structs import replace

from extender.console.gang_rows import GangReader
from extender.console.node_uses import NodeReader
from extender.console.picture import PictureMaker
from extender.gang.tell.decisions import Outcome
from extender.model.objects import GangKey
from tests.console.stage import NOW, Stage, training_cluster


def changed(stage: Stage, rng: random.Random) -> None:
    """Change something."""
    stage.generation += 1
    at = rng.randrange(len(stage.pods))
    pod = stage.pods[at]
    match rng.randrange(6):
        case 0:
            stage.pods[at] = replace(pod, deleting=NOW + 5)
        case 1:
            del stage.pods[at]
        case 2:
            stage.pods[at] = replace(pod, node=rng.choice(stage.nodes).name)
        case 3:
            stage.tell(f"pod-group:{pod.namespace}/{pod.pod_group}", Outcome.REFUSAL, "no", 0.5)
        case 4:
            stage.preemptions.clear()
        case _:
            node = rng.randrange(len(stage.nodes))
            stage.nodes[node] = replace(stage.nodes[node], unschedulable=rng.random() < 0.5)


def test_rows_and_sums_are_those_of_a_fresh_reader() -> None:
    for seed in range(8):
        stage, rng = training_cluster(), random.Random(seed)
        gangs, nodes = GangReader(stage.resolver), NodeReader()
        for _ in range(12):
            changed(stage, rng)
            capture = stage.capture()
            assert gangs.read(capture) == GangReader(stage.resolver).read(capture)
            assert nodes.read(capture.snapshot) == NodeReader().read(capture.snapshot)


def test_what_did_not_change_is_not_made_again() -> None:
    stage = training_cluster()
    stage.preemptions.clear()
    gangs, nodes = GangReader(stage.resolver), NodeReader()
    capture = stage.capture()
    before, sums = gangs.read(capture), nodes.read(capture.snapshot)
    assert all(a is b for a, b in zip(before, gangs.read(capture), strict=True))
    assert all(a is b for a, b in zip(sums, nodes.read(capture.snapshot), strict=True))


def test_plan_for_a_pod_of_no_gang_has_a_row() -> None:
    stage = training_cluster()
    preemption = stage.preemptions[0]
    single = GangKey("single", "batch", "urgent")
    plan = replace(preemption.plan, gang=single)
    stage.preemptions = [replace(preemption, plan=plan)]
    picture = PictureMaker(stage.resolver).read(stage.capture())
    row = next(row for row in picture.rows if row.key == "single:batch/urgent")
    assert (row.status.state, row.status.seats) == ("waiting", 8)


def test_empty_cluster() -> None:
    picture = PictureMaker(Stage().resolver).read(Stage().capture())
    assert (picture.rows, picture.nodes, picture.resources) == ((), (), ())


def test_suspended_gang_says_until_when() -> None:
    stage = training_cluster()
    name = "pod-group:vision/nightly-distill"
    capture = replace(stage.capture(), suspended={name: "its plans failed, until 12:00"})
    row = next(row for row in GangReader(stage.resolver).read(capture) if row.key == name)
    assert (row.status.state, row.status.what) == ("suspended", "its plans failed, until 12:00")
