"""Searches without end. Row 2 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import Mutant

ROW = 2
THREAD = "extender/gang/controller/planner_thread.py"
ADMISSION = "extender/gang/fairness/admission.py"
TEST_SEARCHES = "tests/gang/test_endless_searches.py::"
ENDLESS = f"{TEST_SEARCHES}test_a_search_without_end_is_stopped_and_others_are_planned"

MUTANTS = (
    Mutant(
        ROW,
        "many kinds of members are taken for few",
        "extender/search/kinds/alike.py",
        "return len(problem.classes) > MOST_KINDS",
        "return False",
        "tests/search/test_many_kinds.py::test_the_exact_search_is_asked_about_few_kinds_only",
    ),
    Mutant(
        ROW,
        "the search asks whether to stop with nothing",
        "extender/gang/plan/planner.py",
        "stop = Stop(None, deadline, cancel)",
        "stop = Stop(None, deadline, None)",
        "tests/gang/test_many_kinds.py::test_stopped_for_good_the_planner_comes_back",
    ),
    Mutant(
        ROW,
        "a planner that does not come back is replaced",
        THREAD,
        "        self._new()\n        pool.shutdown",
        "        pool.shutdown",
        ENDLESS,
    ),
    Mutant(
        ROW,
        "its thread is ended by force",
        THREAD,
        "        kill(thread[0])\n        await asyncio.wait",
        "        await asyncio.wait",
        ENDLESS,
    ),
    Mutant(
        ROW,
        "its gang is set aside",
        ADMISSION,
        "        self._suspend(found, gang.members)\n",
        "",
        ENDLESS,
    ),
    Mutant(
        ROW,
        "its pods get a Warning event",
        ADMISSION,
        '        self._notices.warn(pods, "GangSuspended", suspension.told)',
        "",
        ENDLESS,
    ),
    Mutant(
        ROW,
        "a thread that nothing reaches fails /livez",
        THREAD,
        'self._heartbeats.died(name, f"it did not end',
        'print(name, f"it did not end',
        f"{TEST_SEARCHES}test_a_thread_that_nothing_reaches_makes_the_process_unhealthy",
    ),
    Mutant(
        ROW,
        "a search does not outlive the process",
        THREAD,
        "            if thread:\n                kill(thread[0])",
        "",
        f"{TEST_SEARCHES}test_a_search_without_end_does_not_outlive_the_coordinator",
    ),
    Mutant(
        ROW,
        "no change lifts what an endless search led to",
        "extender/gang/plan/suspension.py",
        '        looks="",\n',
        '        looks="x",\n',
        "tests/gang/test_fair_turns.py::test_no_change_lifts_what_an_endless_search_led_to",
    ),
    Mutant(
        ROW,
        "a search that was never told to stop has its time",
        THREAD,
        "                done, _ = await asyncio.wait({running}, timeout=self._overrun / 2)\n",
        "",
        f"{TEST_SEARCHES}test_a_process_that_was_stopped_suspends_nobody",
    ),
    Mutant(
        ROW,
        "a first answer is not worked for after the time",
        "extender/search/reference/region.py",
        "if self.hurries and stop.hurried and len(problem.classes) > 1:",
        "if False:",
        "tests/search/test_many_kinds.py::"
        "test_numbers_too_wide_for_the_core_do_not_make_first_answers_long",
    ),
    Mutant(
        ROW,
        "a restart remembers who was set aside",
        "extender/gang/fairness/suspensions.py",
        "self._held = {e.gang: e for e in found if",
        "self._held = {e.gang: e for e in found if False and",
        f"{TEST_SEARCHES}test_a_restart_remembers_who_kept_the_planner",
    ),
)
