"""Turns of namespaces. Row 6 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import Mutant

ROW = 6
ADMISSION = "extender/gang/fairness/admission.py"
TURNS = "extender/gang/plan/fair_turns.py"
TEST_LIMITS = "tests/gang/test_limits.py::"
TEST_TURNS = "tests/gang/test_fair_turns.py::"

MUTANTS = (
    Mutant(
        ROW,
        "the more urgent first",
        TURNS,
        "return (over, -turn.priority, used",
        "return (over, 0, used",
        f"{TEST_TURNS}test_the_more_urgent_first_then_who_used_least_then_who_waits_longest",
    ),
    Mutant(
        ROW,
        "then who used least",
        TURNS,
        "-turn.priority, used[turn.namespace], turn.since",
        "-turn.priority, 0.0, turn.since",
        f"{TEST_TURNS}test_fifteen_dear_gangs_delay_the_others_by_one",
    ),
    Mutant(
        ROW,
        "planning asks whose turn it is",
        ADMISSION,
        "return self.turns.order(turns, self._clocks.monotonic())",
        "return turns",
        f"{TEST_LIMITS}test_dear_gangs_of_one_namespace_do_not_delay_another_ones",
    ),
    Mutant(
        ROW,
        "the time of a search is counted",
        ADMISSION,
        "self.turns.spend(namespace, seconds / len(namespaces), self._clocks.monotonic())",
        "pass",
        f"{TEST_LIMITS}test_dear_gangs_of_one_namespace_do_not_delay_another_ones",
    ),
    Mutant(
        ROW,
        "a namespace has its share and no more while others wait",
        TURNS,
        "return self._share < 1 and used > self._share * WINDOW",
        "return False",
        f"{TEST_TURNS}test_no_namespace_takes_more_than_its_share_while_others_wait",
    ),
    Mutant(
        ROW,
        "who used up its share is not searched for",
        ADMISSION,
        "if self.turns.must_wait(self.turn_of(gang), waiting, now):",
        "if False:",
        f"{TEST_LIMITS}test_a_namespace_that_used_its_share_waits_for_others",
    ),
    Mutant(
        ROW,
        "system-critical gangs are never late",
        TURNS,
        "if turn.priority >= SYSTEM_CRITICAL or not self._over(self.used(turn.namespace, now)):",
        "if not self._over(self.used(turn.namespace, now)):",
        f"{TEST_TURNS}"
        "test_alone_a_namespace_has_all_the_time_and_system_critical_gangs_are_never_late",
    ),
    Mutant(
        ROW,
        "what was used fades",
        TURNS,
        "return entry.seconds * exp2(-max(0.0, now - entry.at) / HALF_LIFE)",
        "return entry.seconds",
        f"{TEST_TURNS}test_what_was_used_fades",
    ),
    Mutant(
        ROW,
        "a dear refusal stands longer",
        TURNS,
        "return min(max(shortest, longest), times * seconds)",
        "return shortest",
        f"{TEST_TURNS}test_a_dear_refusal_stands_longer",
    ),
    Mutant(
        ROW,
        "a refusal is kept for its pause",
        "extender/gang/controller/waiting.py",
        "refusal, version, now + pause, now + max(0.0, refusal.until - wall)",
        "refusal, version, now, now + max(0.0, refusal.until - wall)",
        "tests/gang/test_waiting.py::test_a_dear_refusal_is_kept_while_the_cluster_changes",
    ),
    Mutant(
        ROW,
        "verbs wait for the planner in the order of turns",
        "extender/gang/fairness/fair_lock.py",
        "first = self._admission.order([turn for turn, _ in self._waiting])[0]",
        "first = self._waiting[0][0]",
        f"{TEST_TURNS}test_the_lock_lets_them_in_by_turns",
    ),
    Mutant(
        ROW,
        "time is shared as long as nobody says otherwise",
        "extender/settings/settings.py",
        "namespace_share: float = 0.5",
        "namespace_share: float = 1.0",
        "tests/cli/test_limit_rules.py::test_every_rule_has_a_case_and_the_defaults_break_none",
    ),
)
