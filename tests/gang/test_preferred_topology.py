"""A topology domain that a gang would like to share: it decides among equals, and never refuses."""

from __future__ import annotations

from extender.model.objects import Node, Pod, PodShape
from extender.model.plan import Plan, Refusal
from extender.settings.settings import PlanSettings, Settings
from tests.gang.rig import PODS, Rig
from tests.gang.test_rules_in_plans import carried_out, zone
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, seats, snapshot

WISH = {"podgroup-extender.io/preferred-topology": "rack"}


def racks(*sizes: int) -> list[Node]:
    """Racks a, b, ... of so many nodes; names tell the rack."""
    return [
        node(f"{rack}{i}", labels={"rack": rack, "zone": str(i % 2)})
        for rack, size in zip("abcdef", sizes, strict=False)
        for i in range(size)
    ]


def gang(count: int, annotations: dict[str, str] = WISH) -> list[Pod]:
    return [
        pod(f"high-{i}", priority=9, group="high", annotations=annotations) for i in range(count)
    ]


def busy(name: str, *, age: float = 100, priority: int = 1) -> Pod:
    return pod(f"low-{name}", priority=priority, on=name, started=NOW - age)


def used(plan: Plan | Refusal) -> set[str]:
    return {where[0] for where in seats(plan).values()}


def told(plan: Plan | Refusal) -> str:
    assert isinstance(plan, Plan)
    return next(line for line in plan.explanation if line.startswith("preferred"))


def test_free_room_in_one_rack_is_taken_before_free_room_in_two() -> None:
    nodes = racks(2, 3)
    state = snapshot(nodes, gang(3), [group("high", 3)])
    plan = plan_for(state, "high")
    assert used(plan) == {"b"}
    assert told(plan) == "preferred: all members in one rack; kept"
    free = plan_for(snapshot(nodes, gang(3, {}), [group("high", 3)]), "high")
    assert used(free) == {"a", "b"}


def test_among_equally_many_victims_the_rack_counts_before_their_work() -> None:
    """The three youngest pods are in two racks; b has three that ran longer."""
    nodes = racks(2, 3)
    low = [busy("a0", age=1), busy("a1", age=1), busy("b0", age=1)]
    low += [busy("b1", age=5000), busy("b2", age=5000)]
    state = snapshot(nodes, [*low, *gang(3)], [group("high", 3)])
    settings = Settings(plan=PlanSettings(cost_order="gangs-by-priority"))
    plan = plan_for(state, "high", settings)
    assert evicted(plan) == {"low-b0", "low-b1", "low-b2"}
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    other = plan_for(snapshot(nodes, [*low, *gang(3, {})], [group("high", 3)]), "high")
    assert evicted(other) == {"low-a0", "low-a1", "low-b0"}
    # The default counts the work lost before the wish.
    assert evicted(plan_for(state, "high")) == {"low-a0", "low-a1", "low-b0"}


def test_of_plans_that_lose_equally_much_the_rack_decides() -> None:
    low = [busy(f"{rack}{i}", age=60) for rack in "ab" for i in range(3)]
    state = snapshot(racks(3, 3), [*low, *gang(3)], [group("high", 3)])
    assert len(used(plan_for(state, "high"))) == 1


def test_nobody_more_is_evicted_for_a_wish() -> None:
    nodes = racks(2, 3)
    low = [busy("b1"), busy("b2", priority=2)]
    plan = plan_for(snapshot(nodes, [*low, *gang(3)], [group("high", 3)]), "high")
    assert evicted(plan) == set()
    assert used(plan) == {"a", "b"}
    assert told(plan) == "preferred: all members in one rack; not kept"
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    assert [cost.value for cost in plan.costs if cost.level == "topology"] == [1]


def test_an_order_of_ones_own_may_evict_for_it() -> None:
    nodes = racks(2, 3)
    settings = Settings(
        plan=PlanSettings(
            cost_order="near",
            cost_orders={"near": ("pdb-violations", "topology", "by-priority")},
        )
    )
    state = snapshot(nodes, [busy("b1"), *gang(3)], [group("high", 3)])
    plan = plan_for(state, "high", settings)
    assert (evicted(plan), used(plan)) == ({"low-b1"}, {"b"})


def test_a_gang_larger_than_every_rack_is_not_refused() -> None:
    plan = plan_for(snapshot(racks(2, 2), gang(4), [group("high", 4)]), "high")
    assert len(seats(plan)) == 4
    assert "not kept" in told(plan)
    bare = [node(f"n{i}") for i in range(3)]
    assert len(seats(plan_for(snapshot(bare, gang(3), [group("high", 3)]), "high"))) == 3


def test_members_that_run_have_chosen_the_rack() -> None:
    there = pod("high-9", priority=9, group="high", on="a0")
    plan = plan_for(snapshot(racks(3, 3), [there, *gang(2)], [group("high", 3)]), "high")
    assert used(plan) == {"a"}
    assert told(plan).endswith("kept")
    apart = [there, pod("high-8", priority=9, group="high", on="b0")]
    plan = plan_for(snapshot(racks(3, 3), [*apart, *gang(2)], [group("high", 4)]), "high")
    assert "not counted" in told(plan)
    assert isinstance(plan, Plan)
    assert all(cost.level != "topology" for cost in plan.costs)


def test_a_rack_and_spread_over_zones_at_once() -> None:
    shape = PodShape(spread=(zone(1),))
    members = [
        pod(
            f"high-{i}",
            priority=9,
            group="high",
            annotations=WISH,
            labels={"app": "ours"},
            shape=shape,
        )
        for i in range(4)
    ]
    state = snapshot(racks(3, 5), members, [group("high", 4)])
    plan = plan_for(state, "high")
    assert used(plan) == {"b"}
    carried_out(state, plan)


BLOCK_AND_RACK = {"podgroup-extender.io/required-topology": "block", **WISH}


def blocks(**racks: str) -> list[Node]:
    """Nodes by name with the names of their block and rack."""
    return [node(name, labels={"block": place[0], "rack": place}) for name, place in racks.items()]


def test_one_rack_inside_the_required_block_is_taken_first() -> None:
    """The wish was dropped beside a required domain."""
    nodes = blocks(n0="a1", n1="a2", n2="b1", n3="b1")
    plan = plan_for(snapshot(nodes, gang(2, BLOCK_AND_RACK), [group("high", 2)]), "high")
    assert set(seats(plan).values()) == {"n2", "n3"}
    assert told(plan) == "preferred: all members in one rack; kept"


def test_the_block_is_kept_where_no_rack_has_room_for_all() -> None:
    nodes = blocks(n0="a1", n1="b1", n2="b2", n3="b3")
    plan = plan_for(snapshot(nodes, gang(3, BLOCK_AND_RACK), [group("high", 3)]), "high")
    assert set(seats(plan).values()) == {"n1", "n2", "n3"}
    assert told(plan) == "preferred: all members in one rack; not kept"


def test_no_pod_more_is_evicted_for_a_rack_inside_a_block() -> None:
    nodes = blocks(n0="a1", n1="a2", n2="b1", n3="b1")
    low = [busy("n2"), busy("n3")]
    plan = plan_for(snapshot(nodes, [*low, *gang(2, BLOCK_AND_RACK)], [group("high", 2)]), "high")
    assert evicted(plan) == set()
    assert set(seats(plan).values()) == {"n0", "n1"}
    assert told(plan) == "preferred: all members in one rack; not kept"
    full = [*low, busy("n0"), busy("n1")]
    plan = plan_for(snapshot(nodes, [*full, *gang(2, BLOCK_AND_RACK)], [group("high", 2)]), "high")
    assert set(seats(plan).values()) == {"n2", "n3"}
    assert told(plan) == "preferred: all members in one rack; kept"


async def test_kube_scheduler_is_answered_with_the_nodes_of_one_rack() -> None:
    async with Rig() as rig:
        for each in blocks(n0="a1", n1="a2", n2="b1", n3="b1"):
            labels = {"kubernetes.io/hostname": each.name, **dict(each.labels)}
            offer = {"allocatable": {"cpu": "4", "pods": "110"}}
            made = {"metadata": {"name": each.name, "labels": labels}, "status": offer}
            await rig.client.create("/api/v1/nodes", made)
        await rig.classes(high=100)
        await rig.group("g", 2, "high")
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {"schedulingGroup": {"podGroupName": "g"}, "priorityClassName": "high"}
        for name in ("g-0", "g-1"):
            meta = {"name": name, "annotations": BLOCK_AND_RACK}
            pod = {"metadata": meta, "spec": {**spec, "containers": [container]}}
            await rig.client.create(PODS, pod)
        await rig.until(lambda: rig.cache.pod_named("default", "g-1") is not None)
        offered = [await rig.filter(name, "n0", "n1", "n2", "n3") for name in ("g-0", "g-1")]
        assert sorted(name for each in offered for name in each.node_names) == ["n2", "n3"]
