"""Plan records that others wrote. Row 7 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_RECORDS = "tests/gang/test_foreign_records.py::"
FOUND = "tests/cli/test_check_unsafe.py::test_unsafe_change_is_found"
NO_PLAN = f"{TEST_RECORDS}test_what_no_plan_could_say_is_kept_aside"

MUTANTS = taken_out(
    7,
    "extender/gang/controller/recovery.py",
    (
        "a record is compared with what a plan could say",
        "            if why:\n",
        "            if False:\n",
        NO_PLAN,
    ),
    "extender/gang/core/record.py",
    (
        "no priority beyond the highest",
        "if plan.priority > HIGHEST:",
        "if False:",
        f"{NO_PLAN}[no priority]",
    ),
    ("somebody to seat", "if not seats or len(seats) <", "if len(seats) <", f"{NO_PLAN}[no seats]"),
    (
        "a system-critical preemptor is there, or the record is signed",
        "        and plan.priority >= SYSTEM_CRITICAL\n        and _justified",
        "        and False\n        and _justified",
        f"{NO_PLAN}[system priority]",
    ),
    (
        "no member of the gang is its victim",
        "    if seats & victims:\n",
        "    if False:\n",
        f"{NO_PLAN}[seats a victim]",
    ),
    (
        "a victim has the name that its record gives it",
        "if (pod.namespace, pod.name) != (victim.namespace, victim.name):",
        "if False:",
        f"{TEST_RECORDS}test_a_victim_under_another_name_is_kept_aside",
    ),
    (
        "a victim is of the unit that it is to go with",
        "return pod is not None and str(gangs.unit_key(pod)) != victim.unit",
        "return False",
        f"{TEST_RECORDS}test_a_forged_unit_that_is_gone_in_part_takes_nobody",
    ),
    (
        "a seat is a member's own",
        "(pod.namespace, pod.name) != (plan.gang.namespace, plan.gang.name):",
        "False:",
        f"{TEST_RECORDS}test_a_seat_for_a_pod_of_another_gang_is_not_held",
    ),
    (
        "without a signature the preemptor's own priority counts",
        "return min(record.plan.priority, _justified(record, snapshot, gangs))",
        "return record.plan.priority",
        f"{TEST_RECORDS}test_without_a_key_a_begun_unit_is_finished_at_a_justified_priority",
    ),
    "extender/gang/runtime/signature.py",
    (
        "with a key an unsigned record does not count",
        '        if not signature:\n            return "it is not signed"\n',
        '        if not signature:\n            return ""\n',
        f"{TEST_RECORDS}test_with_a_key_only_what_it_has_signed_counts",
    ),
    (
        "a signature is made with our key",
        'return "its signature is not made with our key"',
        'return ""',
        f"{TEST_RECORDS}test_with_a_key_only_what_it_has_signed_counts",
    ),
    (
        "a signature is of its own epoch",
        'text = f"{name}\\n{epoch}\\n".encode() + digest',
        'text = f"{name}\\n".encode() + digest',
        f"{TEST_RECORDS}test_with_a_key_only_what_it_has_signed_counts",
    ),
    (
        "a signature is of its own record",
        'text = f"{name}\\n{epoch}\\n".encode() + digest',
        'text = f"{epoch}\\n".encode() + digest',
        f"{TEST_RECORDS}test_a_signature_is_of_one_record_as_it_is",
    ),
    (
        "a signature is of what the record says",
        'text = f"{name}\\n{epoch}\\n".encode() + digest',
        'text = f"{name}\\n{epoch}\\n".encode()',
        f"{TEST_RECORDS}test_a_signature_is_of_one_record_as_it_is",
    ),
    (
        "a key has bytes enough",
        "if len(key) < LEAST_KEY_BYTES:",
        "if False:",
        f"{TEST_RECORDS}test_a_key_is_read_from_a_file",
    ),
    "extender/gang/controller/records.py",
    (
        "what is doubtful is not deleted",
        "if name in live() or name in self.aside:",
        "if name in live():",
        NO_PLAN,
    ),
    (
        "what is doubtful is told with an event",
        "        self._untold.append(aside)\n",
        "",
        f"{TEST_RECORDS}test_a_forged_unit_that_is_gone_in_part_takes_nobody",
    ),
    (
        "a record of a younger epoch is not ours to change",
        "                if epoch_of(there) > epoch:\n                    raise",
        "                if False:\n                    raise",
        "tests/gang/test_records.py::test_a_younger_lease_keeps_what_it_has_taken_over",
    ),
    (
        "a record that was changed since is not claimed",
        '        meta["resourceVersion"] = self._versions[record.name]\n',
        "",
        "tests/gang/test_records.py::test_a_record_changed_since_it_was_read_is_not_claimed",
    ),
    (
        "what cannot be read is left alone",
        '                self._keep_aside(item, "it holds no plan")\n                continue\n',
        "                pass\n",
        "tests/gang/test_records.py::test_what_somebody_else_put_there_stays",
    ),
    "extender/check/tenant_rules.py",
    (
        "check finds who else may write records",
        "if strangers and writes and (",
        "if False and (",
        f"{FOUND}[editors beside the records, second scheduler]",
    ),
    (
        "records are not kept where others write",
        "if seats.record_namespace in SHARED_NAMESPACES and not seats.record_key_file:",
        "if False:",
        f"{FOUND}[records beside others', second scheduler]",
    ),
    "extender/gang/plan/validity.py",
    (
        "protected pods are not evicted by a record",
        "return protections.why(pod, snapshot, priority, started=started, gang=gang, begun=begun)",
        'return ""',
        "tests/gang/test_foreign_records.py::test_a_begun_unit_of_protected_pods_is_not_finished",
    ),
    (
        "nor pods that are as urgent",
        "    if least >= priority:\n",
        "    if False:\n",
        "tests/gang/test_foreign_records.py::test_without_a_key_a_begun_unit_is_finished_at_a_justified_priority",
    ),
)
