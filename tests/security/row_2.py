"""Searches without end. Row 2 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_SEARCHES = "tests/gang/test_endless_searches.py::"
ENDLESS = f"{TEST_SEARCHES}test_a_search_without_end_is_stopped_and_others_are_planned"

MUTANTS = taken_out(
    2,
    "extender/search/kinds/alike.py",
    (
        "many kinds of members are taken for few",
        "return len(problem.classes) > MOST_KINDS",
        "return False",
        "tests/search/test_many_kinds.py::test_the_exact_search_is_asked_about_few_kinds_only",
    ),
    "extender/gang/plan/planner.py",
    (
        "the search asks whether to stop with nothing",
        "stop = Stop(None, deadline, cancel)",
        "stop = Stop(None, deadline, None)",
        "tests/gang/test_many_kinds.py::test_stopped_for_good_the_planner_comes_back",
    ),
    "extender/gang/controller/planner_thread.py",
    (
        "a planner that does not come back is replaced",
        "        self._new()\n        pool.shutdown",
        "        pool.shutdown",
        ENDLESS,
    ),
    (
        "its thread is ended by force",
        "        kill(thread[0])\n        await asyncio.wait",
        "        await asyncio.wait",
        ENDLESS,
    ),
    (
        "a thread that nothing reaches fails /livez",
        'self._heartbeats.died(name, f"it did not end',
        'print(name, f"it did not end',
        f"{TEST_SEARCHES}test_a_thread_that_nothing_reaches_makes_the_process_unhealthy",
    ),
    (
        "a search does not outlive the process",
        "            if thread:\n                kill(thread[0])",
        "",
        f"{TEST_SEARCHES}test_a_search_without_end_does_not_outlive_the_coordinator",
    ),
    (
        "a search that was never told to stop has its time",
        "                done, _ = await asyncio.wait({running}, timeout=self._overrun / 2)\n",
        "",
        f"{TEST_SEARCHES}test_a_process_that_was_stopped_suspends_nobody",
    ),
    "extender/gang/fairness/admission.py",
    ("its gang is set aside", "        self._suspend(found, gang.members)\n", "", ENDLESS),
    (
        "its pods get a Warning event",
        '        self._notices.warn(pods, "GangSuspended", suspension.told)',
        "",
        ENDLESS,
    ),
    "extender/gang/plan/suspension.py",
    (
        "no change lifts what an endless search led to",
        '        looks="",\n',
        '        looks="x",\n',
        "tests/gang/test_fair_turns.py::test_no_change_lifts_what_an_endless_search_led_to",
    ),
    "extender/search/reference/region.py",
    (
        "a first answer is not worked for after the time",
        "if self.hurries and stop.hurried and len(problem.classes) > 1:",
        "if False:",
        (
            "tests/search/test_many_kinds.py::"
            "test_numbers_too_wide_for_the_core_do_not_make_first_answers_long"
        ),
    ),
    "extender/gang/fairness/suspensions.py",
    (
        "a restart remembers who was set aside",
        "self._held = {e.gang: e for e in found if",
        "self._held = {e.gang: e for e in found if False and",
        f"{TEST_SEARCHES}test_a_restart_remembers_who_kept_the_planner",
    ),
)
