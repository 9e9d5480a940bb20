"""Who may opt out, and against whom. Row 4 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_OWNER_BUDGETS = "tests/gang/test_budgets.py::TestGangsThatGoWhole::"
TEST_OPT_OUTS = "tests/gang/test_opt_outs.py::"

MUTANTS = taken_out(
    4,
    "extender/settings/policy.py",
    (
        "who may opt out is the administrator's",
        'NamespaceSelector(match_labels={OPT_OUT_NAMESPACE_LABEL: "allowed"})',
        "NamespaceSelector()",
        f"{TEST_OPT_OUTS}test_a_tenant_cannot_opt_out_unless_its_namespace_may",
    ),
    (
        "no policy says so either",
        "if not -SYSTEM_CRITICAL <= rule.preemptors_below <= SYSTEM_CRITICAL:",
        "if False:",
        f"{TEST_OPT_OUTS}test_a_policy_that_cannot_be_meant_is_refused",
    ),
    "extender/gang/incremental/protection.py",
    (
        "the policy's namespaces are looked at",
        "if selector is None or not matches(selector, labels):",
        "if selector is None:",
        f"{TEST_OPT_OUTS}test_a_tenant_cannot_opt_out_unless_its_namespace_may",
    ),
    (
        "nobody opts out against system-critical priorities",
        "return self._rules[key].preemptors_below",
        "return STAYS",
        f"{TEST_OPT_OUTS}test_nobody_opts_out_against_a_system_critical_priority",
    ),
    (
        "a policy counts against priorities below its number",
        "return self._rules[key].preemptors_below",
        "return SYSTEM_CRITICAL",
        f"{TEST_OPT_OUTS}test_the_policy_says_against_whom_a_key_counts",
    ),
    (
        "a static pod is owned by its own node",
        "and _static(pod, snapshot):",
        "and True:",
        "tests/gang/test_rules_in_plans.py::test_static_pods_and_those_of_daemon_sets_stay",
    ),
    (
        "a pod that came later does not make its gang young",
        "return min((pod.started for pod in gang.bound if pod.started), default=0.0)",
        "return max((pod.started for pod in gang.bound if pod.started), default=0.0)",
        f"{TEST_OPT_OUTS}test_a_pod_that_came_later_does_not_make_its_gang_young",
    ),
    (
        "a budget is a wish to system-critical priorities",
        (
            'return self._plan.pdb_policy == "respect" and asked < self._below(\n'
            "            BUDGET, namespace, snapshot\n        )"
        ),
        'return self._plan.pdb_policy == "respect"',
        f"{TEST_OPT_OUTS}test_a_budget_is_a_wish_to_system_critical_priorities",
    ),
    (
        "the policy says whether an owner's own budget counts",
        "found.append(self._opted(gang.budget.key, pod, snapshot, why))",
        "found.append(Shield(why, STAYS))",
        f"{TEST_OWNER_BUDGETS}test_they_go_where_it_does_not",
    ),
    (
        "the policy says whose budgets count",
        "if selector is None or not matches(selector, labels):",
        "if selector is None:",
        "tests/gang/test_opt_outs.py::test_the_policy_says_whose_budgets_count",
    ),
    "extender/gang/incremental/preemptability.py",
    (
        "a gang with a problem is single pods",
        "return GangPreemptability(victim, number, now, inf)\n        bound,",
        "return GangPreemptability(victim, number, now, inf, STAYS)\n        bound,",
        f"{TEST_OPT_OUTS}test_a_gang_with_a_problem_is_a_victim_as_single_pods",
    ),
    (
        "a shield is the pod's own",
        "if each.gang and (shield is None",
        "if (shield is None",
        f"{TEST_OPT_OUTS}test_one_tiny_pod_does_not_shield_its_gang",
    ),
    (
        "a gang is as dear as its cheapest pod",
        "least = tiers[0]",
        "least = tiers[-1]",
        f"{TEST_OPT_OUTS}test_one_tiny_pod_does_not_shield_its_gang",
    ),
    "extender/gang/incremental/planning_cache.py",
    (
        "what a pod claims beyond its node counts as the node",
        "(min(amount, whole.get(name, 0) + 1) for name, amount in listed)",
        "(amount for _, amount in listed)",
        "tests/gang/test_large_amounts.py::test_pods_that_claim_more_than_int64_together_are_victims_like_others",
    ),
    "extender/groups/resolver.py",
    (
        "what a dialect stumbles over is that gang's problem",
        "    except Exception as error:",
        "    except KeyError as error:",
        "tests/groups/test_resolver.py::test_a_mistake_about_one_gang_is_that_gangs_problem",
    ),
    "extender/model/owner_budget.py",
    (
        "an owner's budget that is no number spares nobody",
        "if whole and int(digits) > 0 and (digits == text or int(digits) < 100):",
        "if whole:",
        "tests/gang/test_budgets.py::test_what_is_no_number_does_not_count_and_is_told",
    ),
    "extender/decode/group_parts.py",
    (
        "a PodGroup has no more than 256 parts",
        "if count > MOST_PARTS:",
        "if False:",
        "tests/groups/test_parts.py::TestVolcano::test_malformed_minima_are_named",
    ),
    "extender/cache/nesting.py",
    (
        "JSON that is too deep is read without its depths",
        "except RecursionError:",
        "except ZeroDivisionError:",
        "tests/cache/test_hostile_objects.py::test_a_deep_object_among_changes",
    ),
    "extender/cache/reader.py",
    (
        "a mistake about one object leaves that one out",
        "except Exception as error:  # ours about this one included: it is still there next time",
        "except InvalidInput as error:",
        (
            "tests/cache/test_hostile_objects.py::"
            "test_a_mistake_about_one_object_is_that_objects_problem[False]"
        ),
    ),
    (
        "an object that cannot be read, among changes, is left out by itself",
        "if not self.resource.spares_others:",
        "if True:",
        (
            "tests/cache/test_hostile_objects.py::"
            "test_others_are_read_on_while_one_changes_and_cannot_be_read"
        ),
    ),
)
