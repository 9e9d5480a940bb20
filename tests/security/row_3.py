"""Sizes of what tenants write. Row 3 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_SIZES = "tests/verbs/test_answer_size.py::"
TEST_MEMORY = "tests/model/test_hostile_objects.py::"

MUTANTS = taken_out(
    3,
    "extender/verbs/filter.py",
    (
        "reasons are cut",
        "dict.fromkeys(names, one_reason(reason))",
        "dict.fromkeys(names, reason)",
        f"{TEST_SIZES}test_a_long_reason_is_cut_once_for_all_nodes",
    ),
    "extender/model/texts.py",
    (
        "a text is cut at 256 bytes",
        "MOST_BYTES = 256",
        "MOST_BYTES = 256_000",
        f"{TEST_SIZES}test_a_long_reason_is_cut_once_for_all_nodes",
    ),
    "extender/fit/static.py",
    (
        "a reason is one text for all nodes",
        "return self._texts.setdefault(text, text)",
        "return text",
        f"{TEST_SIZES}test_a_reason_that_names_what_a_pod_wants_is_one_short_text",
    ),
    "extender/groups/topology.py",
    (
        "annotations that name a label are held to its rules",
        "wrong = [why for key in wanted if (why := label_key_problem(key))]",
        "wrong: list[str] = []",
        f"{TEST_SIZES}test_long_annotations_make_no_long_answer",
    ),
    "extender/model/names.py",
    (
        "a stranger's text is quoted in part",
        "if len(text) <= MOST_QUOTED:",
        "if True:",
        f"{TEST_SIZES}test_what_is_a_label_key",
    ),
    "extender/decode/metadata.py",
    (
        "dense mappings are not read",
        "    if dense(text):\n        return NOTHING\n",
        "",
        f"{TEST_MEMORY}test_a_pod_costs_at_most_four_times_its_size[labels]",
    ),
    (
        "large parts are not remembered",
        "return value if len(key) > LARGE else put(",
        "return put(",
        f"{TEST_MEMORY}test_many_large_objects_do_not_pile_up_in_the_memos",
    ),
    "extender/decode/pod_requests.py",
    (
        "kinds of resources are bounded",
        "if len(asked) <= MOST_RESOURCES:",
        "if True:",
        f"{TEST_MEMORY}test_a_pod_costs_at_most_four_times_its_size[requests]",
    ),
    "extender/decode/interning.py",
    (
        "memos are bounded by bytes",
        "self._bytes + size > self._most_bytes:\n            self.clear()",
        "False:\n            self.clear()",
        "tests/model/test_decode.py::test_both_are_bounded_by_bytes",
    ),
    "extender/model/fair_lru.py",
    (
        "what kube-scheduler named is bounded for all pods together",
        "while self.size > self._most and",
        "while False and",
        "tests/gang/test_accepted_nodes.py::test_a_tenants_pods_with_claims_do_not_fill_the_memory",
    ),
    (
        "who has most loses its oldest",
        "most = max(others,",
        "most = min(others,",
        "tests/gang/test_accepted_nodes.py::test_who_has_most_loses_its_oldest",
    ),
    "extender/decode/pod_placement.py",
    (
        "constraints that are too many are not read",
        "if any(part is not NO_RAW and dense(bytes(part)) for part in parts):",
        "if False:",
        "tests/model/test_hostile_objects.py::test_a_pod_costs_at_most_four_times_its_size[tolerations]",
    ),
    (
        "selectors that are too large match nothing",
        "    if not data or dense(data):\n        return None\n",
        "    if not data:\n        return None\n",
        f"{TEST_MEMORY}test_other_objects_cost_at_most_four_times_their_size[budget values]",
    ),
)
