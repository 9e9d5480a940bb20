"""Which modules are changed, and which tests have to notice: the narrow ones of each module."""

from __future__ import annotations

from msgspec import Struct

PLANNED = (
    "tests/gang/test_plan_steps.py",
    "tests/gang/test_planner.py",
    "tests/gang/test_opt_outs.py",
    "tests/gang/test_rules_in_plans.py",
    "tests/gang/test_contained.py",
    "tests/gang/test_composite_units.py",
    "tests/gang/test_preferred_topology.py",
    "tests/gang/test_cost_orders.py",
    "tests/gang/test_followers.py",
    "tests/gang/test_many_kinds.py",
    "tests/gang/test_large_amounts.py",
    "tests/gang/test_kept_gangs.py",
)
"""Plans without a control plane around them."""


class Room(Struct, frozen=True):
    """Modules that are tested by the same tests."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = (
    Room(
        "fit",
        (
            "extender.fit.blockers",
            "extender.fit.inter_pod_affinity",
            "extender.fit.namespaces",
            "extender.fit.node_affinity",
            "extender.fit.node_name",
            "extender.fit.node_ports",
            "extender.fit.node_resources_fit",
            "extender.fit.node_state",
            "extender.fit.node_unschedulable",
            "extender.fit.pod_topology_spread",
            "extender.fit.selector_index",
            "extender.fit.selectors",
            "extender.fit.static",
            "extender.fit.taint_toleration",
            "extender.fit.view",
        ),
        (
            "tests/fit/test_node_state.py",
            "tests/fit/test_blockers.py",
            "tests/fit/test_static.py",
            "tests/fit/test_node_resources_fit.py",
            "tests/fit/test_inter_pod_affinity.py",
            "tests/fit/test_pod_topology_spread.py",
            "tests/fit/test_view.py",
            "tests/fit/test_selectors.py",
            "tests/fit/test_selector_index.py",
            "tests/fit/test_properties.py",
            "tests/fit/test_differential.py",
        ),
    ),
    Room(
        "member rules",
        ("extender.fit.member_rules",),
        (
            "tests/fit/test_member_rules.py",
            "tests/fit/test_member_rules_allow.py",
            "tests/gang/test_rules_in_plans.py",
        ),
    ),
    Room(
        "verbs",
        (
            "extender.verbs.pod_lookup",
            "extender.verbs.bind",
            "extender.verbs.filter",
            "extender.verbs.prioritize",
            "extender.verbs.verbs",
        ),
        (
            "tests/verbs/test_filter_choices.py",
            "tests/verbs/test_looked_up.py",
            "tests/verbs/test_bind_choices.py",
            "tests/verbs",
            "tests/gang/test_coordinator.py",
            "tests/gang/test_accepted_nodes.py",
            "tests/gang/test_sampled_lists.py",
            "tests/gang/test_beyond_quorum.py",
            "tests/gang/test_barrier.py",
            "tests/gang/test_posted_bindings.py",
        ),
    ),
    Room(
        "preempt",
        ("extender.verbs.context", "extender.verbs.preempt"),
        ("tests/verbs/test_preempt_choices.py",),
    ),
    Room(
        "spare",
        ("extender.verbs.room_beside_reservations",),
        ("tests/verbs/test_room_beside_reservations.py",),
    ),
    Room("leading", ("extender.verbs.leading",), ("tests/verbs/test_leading.py",)),
    Room(
        "samples",
        ("extender.verbs.sampled_node_lists",),
        ("tests/verbs/test_sampled_node_lists.py",),
    ),
    Room("what if", ("extender.gang.tell.what_ifs",), ("tests/grpc_api/test_planning.py",)),
    Room("evictor", ("extender.gang.controller.requests",), ("tests/gang/test_evictor.py",)),
    Room(
        "plan",
        (
            "extender.gang.plan.budgets",
            "extender.gang.plan.build",
            "extender.gang.plan.cost_levels",
            "extender.gang.plan.explain",
            "extender.gang.plan.held_rules",
            "extender.gang.plan.held_seats",
            "extender.gang.plan.nominated",
            "extender.gang.plan.planner",
            "extender.gang.plan.priority_cutoff",
            "extender.gang.plan.topology_domains",
            "extender.gang.plan.blocker_units",
            "extender.gang.plan.spreads",
            "extender.gang.plan.sure_seats",
            "extender.gang.plan.units",
        ),
        PLANNED,
    ),
    Room(
        "parts",
        ("extender.gang.plan.part_classes", "extender.decode.group_parts"),
        ("tests/gang/test_parts.py", "tests/groups/test_parts.py"),
    ),
    Room(
        "followers",
        ("extender.gang.plan.followers",),
        ("tests/gang/test_followers.py", "tests/gang/test_exclusive_topology.py"),
    ),
    Room(
        "validity",
        ("extender.gang.plan.validity",),
        ("tests/gang/test_plan_holds.py",),
    ),
    Room(
        "stayed victims",
        ("extender.gang.plan.stayed_victims",),
        ("tests/gang/test_stayed_victims.py",),
    ),
    Room(
        "limits",
        (
            "extender.gang.plan.eviction_budget",
            "extender.gang.plan.fair_turns",
            "extender.gang.plan.suspension",
        ),
        (
            "tests/gang/test_fair_turns.py",
            "tests/gang/test_limits.py",
            "tests/gang/test_endless_searches.py",
        ),
    ),
)
