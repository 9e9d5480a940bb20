"""The fuzzers find what is planted, and end.

See docs/security.md, rows 4 and 8.
"""

from __future__ import annotations

import json
import time
from itertools import count
from typing import Any

import pytest

from extender.gang.incremental.protection import Protections
from extender.gang.plan import planner
from extender.groups.dialect import Declaration
from extender.groups.yunikorn import YuniKornDialect
from extender.model.names import label_key_problem
from extender.model.objects import GangKey, Part
from extender.search.census import STAYS
from extender.wire.filter_json import FilterArgs, FilterResult
from tests.fuzz import flips
from tests.fuzz.bytes_of import Piece
from tests.fuzz.console import ConsoleFuzz
from tests.fuzz.frames_of import Called, Spoken
from tests.fuzz.grpc_wire import HONEST, GrpcWire
from tests.fuzz.hostile import DEEP, HOSTNAME, TEN_YEARS, TENANT
from tests.fuzz.observing import Observing
from tests.fuzz.pages_of import Visit, Visits
from tests.fuzz.playing import one_round, rounds
from tests.fuzz.tenants import Totals, batch, main, play
from tests.fuzz.wire import Wire, decode
from tests.fuzz.world import MOST_BUDGETS, Broken
from tests.grpc_api.test_calls import FILTER


def test_a_round() -> None:
    with Wire() as target:
        assert one_round(target, 1, 40, lambda: False) >= 40
        target.check()
        assert target.statuses[200] > 0
        assert target.statuses[400] > 0


def test_the_time_ends_a_round_that_is_being_played() -> None:
    """Each look at this clock is a second later."""
    seconds = count()
    lines: list[str] = []
    with Wire() as target:
        tried = rounds(target, 1, 1000, 12.0, lines.append, lambda: float(next(seconds)))
    assert tried <= 12
    assert len(lines) == 1


def test_a_failure_is_shrunk_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tests.fuzz.wire.decode", refuse)
    looks = count()
    with Wire() as target, pytest.raises(ZeroDivisionError):
        one_round(target, 1, 2, lambda: next(looks) > 2)


def test_the_fuzzer_notices() -> None:
    """An internal error, an eviction and an answer of 500 are seen as such."""
    with Wire() as target:
        question = b'{"Pod":{"metadata":{"name":"x","uid":"u"}},"NodeNames":[]}'
        head = b"POST /filter HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(question)
        pieces: list[Piece] = [(head + question, 1)]
        target.talk(pieces)
        target.check()

        async def broken(args: object) -> None:
            raise ZeroDivisionError

        target.rig.verbs.filter = broken  # type: ignore[method-assign, assignment]
        with pytest.raises(AssertionError, match="500"):
            target.talk(pieces)
        target.errors.take()
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match="evicted"):
            target.check()


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"Pod":' * 10_000, b'{"Pod":1e99999}'])
def test_the_decoders_alone(data: bytes) -> None:
    decode(data)


GANGS = b"GET /ui/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ONE = Visits([Visit(GANGS, 1, "all")], 3)


def test_console_a_round() -> None:
    with ConsoleFuzz() as target:
        assert one_round(target, 1, 10, lambda: False) >= 20
        target.check()
        assert target.statuses[400] + target.statuses[404] > 0


def test_console_the_fuzzer_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of somebody else's script, one that cannot be made, and an eviction."""
    with ConsoleFuzz() as target:
        for server in (target.server, target.staged):
            target.visit(ONE, server)
        assert target.statuses == {200: 2}
        target.check()
        with pytest.raises(AssertionError, match="onclick"):
            target._look_at(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n"
                b"<p onclick='x'>"
            )

        def fails(*given: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(target.full.renderings, "get", fails)
        with pytest.raises(AssertionError, match="500"):
            target.visit(ONE, target.staged)
        target.errors.take()
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match="evicted"):
            target.check()


def test_a_story() -> None:
    assert flips.play(2).evicted > 0


def test_flip_the_fuzzer_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eviction for a namespace that has not been chosen for a while; and it tells the story."""
    monkeypatch.setattr(flips.Story, "_chosen", lambda self: False)
    with pytest.raises(AssertionError, match="is evicted, chosen no more") as caught:
        flips.play(2)
    assert "low1 runs" in str(caught.value)


ASKED = Called(FILTER, [HONEST.SerializeToString()], [], None, "reads")


def test_grpc_a_round() -> None:
    with GrpcWire() as target:
        assert one_round(target, 1, 15, lambda: False) >= 30
        target.check()
        assert target.statuses["connection answered"] > 0
        assert len(target.statuses) > 2


def test_grpc_the_fuzzer_notices() -> None:
    """A defect's status, an error that is logged, an eviction and a caller that is kept waiting."""
    with GrpcWire() as target:
        target.call_all([ASKED])
        assert target.statuses["FAILED_PRECONDITION"] == 1
        target.check()
        whole, filters = target.rig.verbs, target.rig.verbs.filter

        async def broken(args: object) -> None:
            raise ZeroDivisionError

        whole.filter = broken  # type: ignore[method-assign, assignment]
        with pytest.raises(AssertionError, match="INTERNAL"):
            target.call_all([ASKED])
        whole.filter = filters  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match="internal error"):
            target.speak(Spoken([(b"GET / HTTP/1.1\r\n\r\n", 1)], reads=True))
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match="evicted"):
            target.check()


def test_observing_a_round() -> None:
    with Observing() as target:
        assert one_round(target, 1, 60, lambda: False) >= 60
        target.check()
        assert {"make", "ask", "pass"} <= set(target.statuses)


def test_observing_the_fuzzer_notices() -> None:
    """A node that is kept from a pod, and somebody who goes."""
    with Observing() as target:
        question = {"Pod": target.names.pods[0], "NodeNames": ["n0", "n1"]}
        target.tell([("ask", json.dumps(question).encode()), ("pass", 61.0)])

        async def fewer(args: FilterArgs) -> FilterResult:
            return FilterResult(args.node_names[:1])

        target.rig.verbs.filter = fewer  # type: ignore[method-assign]
        with pytest.raises(AssertionError):
            target.tell([("ask", json.dumps(question).encode())])
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match=r"evicted: \{'low-0'\}"):
            target.check()


ATTACKS = 60


def test_tenants_harm_only_themselves() -> None:
    totals = Totals()
    batch(1, ATTACKS, time.monotonic() + 600, totals)
    assert totals.plans > totals.examples
    assert totals.victims
    assert totals.refusals


def pods(**spec: Any) -> dict[str, Any]:
    """Pods of 7 CPU on every node."""
    annotations = spec.pop("annotations", {})
    containers = [{"name": "c", "resources": {"requests": {"cpu": "7"}}}]
    return {
        "pod": {
            "metadata": {"labels": {}, "annotations": annotations},
            "spec": {"containers": containers, "priority": 0, **spec},
        },
        "copies": 6,
        "differ": False,
        "bound": True,
        "ends": False,
        "first": 0,
    }


PROTECTED = {"podgroup-extender.io/protected": "true"}


def test_an_opt_out_that_counts_for_everybody_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = (False, [pods(annotations=PROTECTED, terminationGracePeriodSeconds=TEN_YEARS)])
    play(attack)
    monkeypatch.setattr(Protections, "_below", lambda self, key, namespace, state: STAYS)
    with pytest.raises(Broken, match="is refused"):
        play(attack)


def test_pods_that_come_to_the_seats_are_victims_too() -> None:
    squats = {**pods(), "squats": True}
    attack = (False, [pods(), squats, squats])
    world = play(attack)
    assert world.seen["squats"] == 2
    assert world.seen["victims"] > world.seen["plans"]


@pytest.mark.parametrize("key", [HOSTNAME, "rack"])
def test_pods_that_come_in_the_way_by_a_rule_are_victims_and_to_blame(key: str) -> None:
    attack = (False, [pods(), {**pods(), "squats": True, "apart": key}])
    world = play(attack)
    assert world.seen["blamed"]
    assert world.seen["victims"] > world.seen["plans"]


def test_a_bystander_that_is_blamed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = (False, [pods(), {**pods(), "squats": True, "apart": HOSTNAME}])
    play(attack)
    monkeypatch.setattr(planner, "_needed_out", lambda fine, out, among, least: among)
    with pytest.raises(Broken, match="is blamed"):
        play(attack)


def test_budgets_that_are_not_read_and_spare_nobody_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = {"many": MOST_BUDGETS + 1, "how": "In", "keys": 1, "pods": 0}
    attack = (False, [pods(), {"budgets": many, "churn": 1}])
    play(attack)
    monkeypatch.setattr("extender.fit.selector_index.SelectorIndex.count", lambda *given: 0)
    with pytest.raises(Broken, match="budgets are not read"):
        play(attack)


def test_pods_that_take_years_to_end_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = (False, [{**pods(), "ends": TEN_YEARS}])
    play(attack)
    monkeypatch.setattr("extender.gang.incremental.protection.lingers", lambda *given: False)
    with pytest.raises(Broken, match="is refused"):
        play(attack)


def test_pods_that_claim_to_be_static_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = (False, [{**pods(), "mirror": True}])
    play(attack)
    monkeypatch.setattr("extender.gang.incremental.protection._static", lambda *given: True)
    with pytest.raises(Broken, match="is refused"):
        play(attack)


def test_an_answer_that_grows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "podgroup-extender.io/required-topology"
    waiting = {**pods(annotations={name: "x" * 100_000}), "bound": False}
    waiting["pod"]["metadata"]["labels"] = {"skypilot-cluster-name": "a"}
    play((False, [waiting]))
    assert label_key_problem("x" * 100_000)
    monkeypatch.setattr("extender.verbs.filter.one_reason", lambda text: text * 100)
    with pytest.raises(Broken, match="bytes, its reasons"):
        play((False, [waiting]))


def test_memory_is_weighed() -> None:
    play((True, [pods(annotations={"volcano.sh/a": "x" * 200_000})]), weighed=True)


def test_it_runs_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "1", "--seed", "7", "--batch", "5"]) == 0
    assert "nothing broken" in capsys.readouterr().out


def test_a_dialect_that_stumbles_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {**pods(annotations={"yunikorn.apache.org/task-groups": DEEP}), "bound": False}
    waiting["pod"]["metadata"]["labels"] = {"applicationId": "a"}
    play((False, [waiting]))

    def deep(*given: Any) -> Declaration:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(YuniKornDialect, "declare", deep)
    with pytest.raises(Broken, match=r"contained.*RecursionError"):
        play((False, [waiting]))


def owner(replicas: Any, *, gone: bool = False) -> dict[str, Any]:
    """A JobSet with pods of its name, which wait."""
    spec = {"replicatedJobs": [{"name": "w", "replicas": replicas}]}
    document = {"kind": "JobSet", "metadata": {"name": "a"}, "spec": spec, "status": {}}
    waiting = {**pods(), "bound": False}
    waiting["pod"]["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "a"}
    return {"several": [{"owner": "jobset", "document": document, "gone": gone}, waiting]}


def test_an_owner_is_read_as_a_list_of_them_is() -> None:
    key = GangKey("jobset", TENANT, "a")
    for replicas, size in ((9, 9), (-3, 1), (10**30, 2**31 - 1), ("3", 6), (1.5, 6)):
        world = play((False, [owner(replicas)]))
        gang = world.resolver.resolve(key, world.snapshot())
        # What cannot be read leaves what is there.
        assert gang.min_count == size, replicas
        assert world.seen["unreadable"] == (not isinstance(replicas, int))
    world = play((False, [owner(9), owner(9, gone=True)]))
    assert "does not exist" in world.resolver.resolve(key, world.snapshot()).notes[0]


def test_an_owner_whose_size_stumbles_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(part: Part) -> int:
        raise KeyError(part.name)

    play((False, [owner(9)]))
    monkeypatch.setattr("extender.groups.owned._plain", stumbles)
    with pytest.raises(Broken, match=r"contained.*KeyError"):
        play((False, [owner(9)]))


def test_a_plan_beyond_a_budget_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the administrator lets the tenant's budgets count."""
    budget: dict[str, Any] = {"metadata": {"name": "b"}, "spec": {"selector": {}}}
    budget["status"] = {"disruptionsAllowed": 0}
    steps = [{"budget": budget}, pods()]
    play((True, steps))
    budget["status"] |= {"currentHealthy": 1, "desiredHealthy": 1}
    free = play((True, [{"budget": budget}, {**pods(), "unready": True}]))
    assert free.seen["unready"]
    assert free.seen["victims"]
    monkeypatch.setattr("extender.gang.plan.budgets.takes", lambda pod, budget: False)
    with pytest.raises(Broken, match="budget b"):
        play((True, steps))
