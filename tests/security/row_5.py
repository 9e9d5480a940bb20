"""Grace, seats and evictions in vain. Row 5 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_LIMITS = "tests/gang/test_limits.py::"
TEST_TURNS = "tests/gang/test_fair_turns.py::"
TEST_STAYED = "tests/gang/test_stayed_victims.py::"
TEST_LINGERING = "tests/gang/test_lingering.py::"

MUTANTS = taken_out(
    5,
    "extender/gang/plan/planner.py",
    (
        "grace is cut in the eviction",
        "grace = min(pod.grace, longest)",
        "grace = pod.grace",
        f"{TEST_LIMITS}test_a_grace_of_ten_years_is_cut_in_the_eviction_and_costs_no_immunity",
    ),
    "extender/gang/plan/cost_levels.py",
    (
        "grace is a level of cost",
        "vector[grace] = self._slow.get(unit.uid, 0)",
        "vector[grace] = 0",
        f"{TEST_LIMITS}test_of_victims_alike_otherwise_the_one_that_goes_soon_goes",
    ),
    "extender/gang/incremental/victims.py",
    (
        "a terminating pod with a far deletionTimestamp is a victim",
        "return pod.deleting - now > max(plan.patience_seconds, entitled)",
        "return False",
        f"{TEST_LINGERING}test_a_terminating_pod_with_ten_years_left_is_a_victim_as_any_other",
    ),
    (
        "a terminating pod is not counted on for longer than our patience",
        "return -plan.patience_seconds <= overdue <= seats.victim_slack_seconds",
        "return overdue <= seats.victim_slack_seconds",
        f"{TEST_LINGERING}test_a_terminating_pod_is_let_end_where_an_eviction_would_not_be_quicker",
    ),
    "extender/gang/plan/schedulers.py",
    (
        "members of foreign schedulers get no seat",
        "    if not strangers:\n",
        "    if True:\n",
        f"{TEST_LIMITS}test_members_of_another_scheduler_get_no_seat",
    ),
    "extender/gang/fairness/admission.py",
    (
        "configured schedulers alone are ours",
        "        if configured:\n",
        "        if False:\n",
        f"{TEST_LIMITS}test_a_scheduler_that_asks_is_one_of_ours_unless_others_are_configured",
    ),
    (
        "plans given up are counted",
        "        if found is not None and preemption.plan.priority < SYSTEM_CRITICAL:\n",
        "        if False:\n",
        f"{TEST_LIMITS}test_a_gang_that_never_binds_is_suspended_until_it_changes",
    ),
    (
        "a suspended gang is not planned",
        "if held is not None and held.cause is not Cause.REFUSED and not spared:",
        "if False and held:",
        f"{TEST_LIMITS}test_a_gang_that_never_binds_is_suspended_until_it_changes",
    ),
    (
        "what was evicted is counted when a plan ends",
        "            self.budget.spend(namespace, evictions, now)\n",
        "            pass\n",
        f"{TEST_LIMITS}test_evictions_of_a_plan_count_for_the_next_one",
    ),
    (
        "victims that do not go are not held against the gang",
        "        if self._others_fault(preemption) or preemption.yields or not seen:\n",
        "        self._others_fault(preemption)\n        if preemption.yields or not seen:\n",
        f"{TEST_STAYED}test_victims_of_another_namespace_that_do_not_go_suspend_nobody",
    ),
    (
        "others are tried in the place of victims that do not go",
        "return replace(snapshot, stayed=stayed) if stayed else snapshot",
        "return snapshot",
        f"{TEST_STAYED}test_victims_of_another_namespace_that_do_not_go_suspend_nobody",
    ),
    "extender/gang/plan/suspension.py",
    (
        "three in a row suspend a gang",
        "        if times < self._most:\n",
        "        if True:\n",
        f"{TEST_TURNS}test_three_plans_given_up_in_a_row_suspend_a_gang",
    ),
    (
        "a change earns one try, and no more",
        "        self._failed[key] = replace(self._failed[key], times=self._most - 1)\n",
        "        del self._failed[key]\n",
        f"{TEST_TURNS}test_a_change_earns_one_try_and_a_seated_gang_begins_anew",
    ),
    (
        "a suspension ends when its hour is over",
        "return self.since - CLOCK_SECONDS <= now < self.until",
        "return self.since - CLOCK_SECONDS <= now",
        f"{TEST_TURNS}test_three_plans_given_up_in_a_row_suspend_a_gang",
    ),
    (
        "made anew from its template a gang looks the same",
        "kind = repr((pod.requests,",
        "kind = repr((pod.uid, pod.requests,",
        f"{TEST_TURNS}test_made_anew_a_gang_looks_the_same_and_changed_it_does_not",
    ),
    (
        "gangs that are counted are bounded",
        "            while len(self._failed) > MOST_GANGS:\n",
        "            while False:\n",
        f"{TEST_LIMITS}test_names_that_a_tenant_makes_up_do_not_fill_the_memory",
    ),
    "extender/gang/fairness/suspensions.py",
    (
        "no suspension from outside is longer than ours",
        "if e.runs(now) and e.until <= latest}",
        "if e.runs(now)}",
        f"{TEST_LIMITS}test_a_suspension_longer_than_any_of_ours_is_not_taken_in",
    ),
    "extender/gang/plan/eviction_budget.py",
    (
        "evictions of a namespace are bounded by the hour",
        "if used + planned <= self._most:",
        "if True:",
        f"{TEST_LIMITS}test_a_namespace_over_its_evictions_waits",
    ),
    (
        "evictions on the way count",
        "self.used(namespace, now) + on_the_way",
        "self.used(namespace, now)",
        f"{TEST_TURNS}test_evictions_of_the_last_hour_count_for_the_namespace",
    ),
    "extender/gang/plan/stayed_victims.py",
    (
        "the same pod again is no second time",
        "if known is not None and pods.keys() <= known.pods:",
        "if False:",
        f"{TEST_STAYED}test_how_long_a_namespace_is_not_counted_on",
    ),
    "extender/gang/status/group_conditions.py",
    (
        "a PodGroup says where it stands",
        "        self._want(GangKey.read(decision.gang), wanted)\n",
        "        pass\n",
        "tests/gang/test_group_conditions.py::test_a_podgroup_says_why_it_waits_and_when_it_sits",
    ),
    (
        "a PodGroup is written to once a minute",
        "if known.busy or now - known.at < PAUSE_SECONDS:",
        "if known.busy:",
        (
            "tests/gang/test_group_conditions.py::"
            "test_an_object_is_written_to_once_a_minute_and_on_change_only"
        ),
    ),
    "extender/app/replica_metrics.py",
    (
        "what is limited is a metric",
        "lambda: dict(replica.coordinator.admission.counted),",
        "lambda: {},",
        f"{TEST_LIMITS}test_what_is_limited_is_a_metric",
    ),
    "extender/settings/settings.py",
    (
        "gangs are suspended as long as nobody says otherwise",
        "give_ups: int = 3",
        "give_ups: int = 0",
        "tests/cli/test_check_rules.py::test_every_rule_has_a_case_and_the_defaults_break_none",
    ),
    (
        "grace is cut as long as nobody says otherwise",
        "longest_grace_seconds: int = 3600",
        "longest_grace_seconds: int = 1_000_000_000",
        "tests/cli/test_check_rules.py::test_every_rule_has_a_case_and_the_defaults_break_none",
    ),
)
