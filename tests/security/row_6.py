"""Turns of namespaces. Row 6 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_LIMITS = "tests/gang/test_limits.py::"
TEST_TURNS = "tests/gang/test_fair_turns.py::"

MUTANTS = taken_out(
    6,
    "extender/gang/plan/fair_turns.py",
    (
        "the more urgent first",
        "return (over, -turn.priority, used",
        "return (over, 0, used",
        f"{TEST_TURNS}test_the_more_urgent_first_then_who_used_least_then_who_waits_longest",
    ),
    (
        "then who used least",
        "-turn.priority, used[turn.namespace], turn.since",
        "-turn.priority, 0.0, turn.since",
        f"{TEST_TURNS}test_fifteen_dear_gangs_delay_the_others_by_one",
    ),
    (
        "a namespace has its share and no more while others wait",
        "return self._share < 1 and used > self._share * WINDOW",
        "return False",
        f"{TEST_TURNS}test_no_namespace_takes_more_than_its_share_while_others_wait",
    ),
    (
        "system-critical gangs are never late",
        "if turn.priority >= SYSTEM_CRITICAL or not self._over(self.used(turn.namespace, now)):",
        "if not self._over(self.used(turn.namespace, now)):",
        (
            f"{TEST_TURNS}"
            "test_alone_a_namespace_has_all_the_time_and_system_critical_gangs_are_never_late"
        ),
    ),
    (
        "what was used fades",
        "return entry.seconds * exp2(-max(0.0, now - entry.at) / HALF_LIFE)",
        "return entry.seconds",
        f"{TEST_TURNS}test_what_was_used_fades",
    ),
    (
        "a dear refusal stands longer",
        "return min(max(shortest, longest), times * seconds)",
        "return shortest",
        f"{TEST_TURNS}test_a_dear_refusal_stands_longer",
    ),
    "extender/gang/fairness/admission.py",
    (
        "planning asks whose turn it is",
        "return self.turns.order(turns, self._clocks.monotonic())",
        "return turns",
        f"{TEST_LIMITS}test_dear_gangs_of_one_namespace_do_not_delay_another_ones",
    ),
    (
        "the time of a search is counted",
        "self.turns.spend(namespace, seconds / len(namespaces), self._clocks.monotonic())",
        "pass",
        f"{TEST_LIMITS}test_dear_gangs_of_one_namespace_do_not_delay_another_ones",
    ),
    (
        "who used up its share is not searched for",
        "if self.turns.must_wait(self.turn_of(gang), waiting, now):",
        "if False:",
        f"{TEST_LIMITS}test_a_namespace_that_used_its_share_waits_for_others",
    ),
    "extender/gang/controller/waiting.py",
    (
        "a refusal is kept for its pause",
        "refusal, version, now + pause, now + max(0.0, refusal.until - wall)",
        "refusal, version, now, now + max(0.0, refusal.until - wall)",
        "tests/gang/test_waiting.py::test_a_dear_refusal_is_kept_while_the_cluster_changes",
    ),
    "extender/gang/fairness/fair_lock.py",
    (
        "verbs wait for the planner in the order of turns",
        "first = self._admission.order([turn for turn, _ in self._waiting])[0]",
        "first = self._waiting[0][0]",
        f"{TEST_TURNS}test_the_lock_lets_them_in_by_turns",
    ),
    "extender/settings/settings.py",
    (
        "time is shared as long as nobody says otherwise",
        "namespace_share: float = 0.5",
        "namespace_share: float = 1.0",
        "tests/cli/test_check_rules.py::test_every_rule_has_a_case_and_the_defaults_break_none",
    ),
)
