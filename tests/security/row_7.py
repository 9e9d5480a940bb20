"""Plan records that others wrote. Row 7 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import Mutant

ROW = 7
DOUBT = "extender/gang/act/record_check.py"
RECORDS = "extender/gang/act/records.py"
SIGNATURE = "extender/gang/act/signature.py"
TEST_RECORDS = "tests/gang/test_foreign_records.py::"
FOUND = "tests/cli/test_check_unsafe.py::test_unsafe_change_is_found"
NO_PLAN = f"{TEST_RECORDS}test_what_no_plan_could_say_is_kept_aside"

MUTANTS = (
    Mutant(
        ROW,
        "a record is compared with what a plan could say",
        "extender/gang/act/recovery.py",
        "            if why:\n",
        "            if False:\n",
        NO_PLAN,
    ),
    Mutant(
        ROW,
        "no priority beyond the highest",
        DOUBT,
        "if plan.priority > HIGHEST:",
        "if False:",
        f"{NO_PLAN}[no priority]",
    ),
    Mutant(
        ROW,
        "somebody to seat",
        DOUBT,
        "if not seats or len(seats) <",
        "if len(seats) <",
        f"{NO_PLAN}[no seats]",
    ),
    Mutant(
        ROW,
        "a system-critical preemptor is there, or the record is signed",
        DOUBT,
        "        and plan.priority >= SYSTEM_CRITICAL\n        and _justified",
        "        and False\n        and _justified",
        f"{NO_PLAN}[system priority]",
    ),
    Mutant(
        ROW,
        "no member of the gang is its victim",
        DOUBT,
        "    if seats & victims:\n",
        "    if False:\n",
        f"{NO_PLAN}[seats a victim]",
    ),
    Mutant(
        ROW,
        "a victim has the name that its record gives it",
        DOUBT,
        "if (pod.namespace, pod.name) != (victim.namespace, victim.name):",
        "if False:",
        f"{TEST_RECORDS}test_a_victim_under_another_name_is_kept_aside",
    ),
    Mutant(
        ROW,
        "a victim is of the unit that it is to go with",
        DOUBT,
        "return pod is not None and str(gangs.member_key(pod)) != victim.unit",
        "return False",
        f"{TEST_RECORDS}test_a_forged_unit_that_is_gone_in_part_takes_nobody",
    ),
    Mutant(
        ROW,
        "a seat is a member's own",
        DOUBT,
        "(pod.namespace, pod.name) != (plan.gang.namespace, plan.gang.name):",
        "False:",
        f"{TEST_RECORDS}test_a_seat_for_a_pod_of_another_gang_is_not_held",
    ),
    Mutant(
        ROW,
        "without a signature the preemptor's own priority counts",
        DOUBT,
        "return min(record.plan.priority, _justified(record, snapshot, gangs))",
        "return record.plan.priority",
        f"{TEST_RECORDS}test_without_a_key_a_begun_unit_is_finished_at_a_justified_priority",
    ),
    Mutant(
        ROW,
        "with a key an unsigned record does not count",
        SIGNATURE,
        '        if not signature:\n            return "it is not signed"\n',
        '        if not signature:\n            return ""\n',
        f"{TEST_RECORDS}test_with_a_key_only_what_it_has_signed_counts",
    ),
    Mutant(
        ROW,
        "a signature is made with our key",
        SIGNATURE,
        'return "its signature is not made with our key"',
        'return ""',
        f"{TEST_RECORDS}test_with_a_key_only_what_it_has_signed_counts",
    ),
    Mutant(
        ROW,
        "a signature is of its own epoch",
        SIGNATURE,
        'text = f"{name}\\n{epoch}\\n".encode() + digest',
        'text = f"{name}\\n".encode() + digest',
        f"{TEST_RECORDS}test_with_a_key_only_what_it_has_signed_counts",
    ),
    Mutant(
        ROW,
        "a signature is of its own record",
        SIGNATURE,
        'text = f"{name}\\n{epoch}\\n".encode() + digest',
        'text = f"{epoch}\\n".encode() + digest',
        f"{TEST_RECORDS}test_a_signature_is_of_one_record_as_it_is",
    ),
    Mutant(
        ROW,
        "a signature is of what the record says",
        SIGNATURE,
        'text = f"{name}\\n{epoch}\\n".encode() + digest',
        'text = f"{name}\\n{epoch}\\n".encode()',
        f"{TEST_RECORDS}test_a_signature_is_of_one_record_as_it_is",
    ),
    Mutant(
        ROW,
        "a key has bytes enough",
        SIGNATURE,
        "if len(key) < LEAST_KEY_BYTES:",
        "if False:",
        f"{TEST_RECORDS}test_a_key_is_read_from_a_file",
    ),
    Mutant(
        ROW,
        "what is doubtful is not deleted",
        RECORDS,
        "if name in live() or name in self.aside or _epoch(item) > epoch:",
        "if name in live() or _epoch(item) > epoch:",
        NO_PLAN,
    ),
    Mutant(
        ROW,
        "what is doubtful is told with an event",
        RECORDS,
        "        self.told(aside)\n",
        "",
        f"{TEST_RECORDS}test_a_forged_unit_that_is_gone_in_part_takes_nobody",
    ),
    Mutant(
        ROW,
        "check finds who else may write records",
        "extender/cli/record_rules.py",
        "if strangers and writes and (",
        "if False and (",
        f"{FOUND}[editors beside the records, second scheduler]",
    ),
    Mutant(
        ROW,
        "records are not kept where others write",
        "extender/cli/policy_rules.py",
        "if seats.record_namespace in SHARED_NAMESPACES and not seats.record_key_file:",
        "if False:",
        f"{FOUND}[records beside others', second scheduler]",
    ),
)
