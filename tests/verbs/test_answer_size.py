"""A filter answer stays small whatever a tenant wrote: a reason goes out for every node.

See docs/security.md, row 3.
"""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_pod
from extender.fit.static import PodClass
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.names import label_key_problem, label_value_problem, quoted
from extender.model.objects import NodeSelectorTerm, Pod, PodShape, Requirement
from extender.model.plan import Refusal
from extender.model.texts import MOST_BYTES, cut, some
from extender.settings.settings import Settings
from extender.verbs.filter import hold_back
from extender.wire.filter_json import FilterArgs, encode_filter_result
from tests.gang.world import node, pod, snapshot

NODES = 5000
LONG = 250_000


def hostile(number: int, annotations: dict[str, str], labels: dict[str, str]) -> Pod:
    document = {
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"u{number}",
            "annotations": annotations,
            "labels": {"skypilot-cluster-name": "mine", **labels},
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    return decode_pod(msgspec.json.encode(document))


@pytest.mark.parametrize("key", ["required", "preferred"])
def test_long_annotations_make_no_long_answer(key: str) -> None:
    """Two of 250 KB once made 750 MB at 1,500 nodes: quoted in a reason, once for each node."""
    name = f"podgroup-extender.io/{key}-topology"
    pods = [hostile(i, {name: f"{i}" + "x" * LONG}, {}) for i in range(2)]
    nodes = [node(f"node-{number:05}", cpu=0) for number in range(NODES)]
    state = snapshot(nodes, pods)
    resolver = Resolver(Settings().groups)
    tracemalloc.start()
    member = resolver.member_key(pods[0])
    assert member is not None
    question = GangQuestion(resolver.resolve(member, state), state)
    answer = Planner(Settings(), resolver).plan(question)
    assert isinstance(answer, Refusal)
    names = [each.name for each in nodes]
    result = hold_back(names, f"{answer.gang}: {answer.message}")
    (reason,) = {id(text): text for text in result.failed_and_unresolvable.values()}.values()
    assert len(reason.encode()) <= MOST_BYTES
    if key == "required":
        assert "is no label key" in reason
    body = encode_filter_result(result, FilterArgs(pods[0], names))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(body) < NODES * (MOST_BYTES + 40)
    assert peak < 32 * 2**20


def test_a_long_reason_is_cut_once_for_all_nodes() -> None:
    result = hold_back([f"n{i}" for i in range(100)], "x" * 10_000)
    reasons = {id(text): text for text in result.failed_and_unresolvable.values()}
    assert [len(text) for text in reasons.values()] == [256]


def test_a_reason_that_names_what_a_pod_wants_is_one_short_text() -> None:
    """Thousands of values of an affinity were written out, anew for each kind of node."""
    values = tuple(f"zone-{number}" for number in range(20_000))
    terms = tuple(
        NodeSelectorTerm((Requirement("zone", "In", values), Requirement(f"l{i}", "Exists")))
        for i in range(5)
    )
    wants = PodClass(replace(pod("p"), shape=PodShape(node_terms=terms)))
    nodes = [node(f"n{i}", labels={"zone": f"other-{i}"}) for i in range(500)]
    reasons = [wants.why_not(each) for each in nodes]
    assert len({id(reason) for reason in reasons}) == 1
    assert reasons[0] is not None
    assert len(reasons[0]) <= MOST_BYTES
    assert "19997 more" in reasons[0]


def test_texts_are_cut_at_a_whole_letter() -> None:
    assert cut("short") == "short"
    long = "ä" * 300
    assert len(cut(long).encode()) <= MOST_BYTES
    assert cut(long).endswith("ä...")
    assert cut("\ud800" * 300).isprintable()
    assert some(["a", "b"]) == "a, b"
    assert some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("rack", True),
        ("topology.kubernetes.io/zone", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("example.com/", False),
        ("Example.com/zone", False),
        ("a/b/c", False),
        ("-a", False),
        ("a b", False),
        ("a\n", False),
        ("x" * LONG, False),
    ],
)
def test_what_is_a_label_key(text: str, *, fine: bool) -> None:
    why = label_key_problem(text)
    assert bool(why) is not fine
    assert len(why) < 120
    assert why.isprintable()


def test_what_is_a_label_value() -> None:
    assert not label_value_problem("")
    assert not label_value_problem("a.B_c-1")
    assert "40 characters" not in label_value_problem("x" * 40)
    assert "(70 characters)" in label_value_problem("x" * 70)
    assert quoted("a\nb") == "'a\\nb'"
