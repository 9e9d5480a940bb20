"""Sums of who may be on its way to a node, against a walk over all of them for each question."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.model.objects import Pod, Requests
from extender.verbs.allowances import ALLOWANCE_SECONDS, Allowances
from tests.gang.world import pod


class Cluster:
    """Pods that are known, by uid."""

    def __init__(self) -> None:
        self.known: dict[str, Pod] = {}
        self.generation = 0

    def pod(self, uid: str) -> Pod | None:
        return self.known.get(uid)

    def show(self, one: Pod) -> None:
        self.known[one.uid] = one
        self.generation += 1


class Walk:
    """The same by walking over every pod that a node was offered to, each time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._allowed: dict[str, dict[str, tuple[Requests, float]]] = {}

    def add(self, one: Pod, node: str, now: float) -> None:
        offered = self._allowed.setdefault(node, {})
        offered[one.uid] = (one.requests, now + ALLOWANCE_SECONDS)

    def count(self, wants: dict[str, int], node: str, but: str, now: float) -> None:
        for uid, (requests, until) in list(self._allowed.get(node, {}).items()):
            known = self._cluster.pod(uid)
            if until < now or (known is not None and known.node):
                del self._allowed[node][uid]
            elif uid != but:
                for name, amount in requests:
                    if name in wants:
                        wants[name] += amount


NAMES = ("cpu", "memory", "example.com/a")
PODS = st.integers(0, 4)
NODES = st.sampled_from(["n0", "n1", "n2"])
AMOUNTS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 9)), unique_by=lambda each: each[0]
).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), PODS, NODES, AMOUNTS),
        st.tuples(st.just("count"), PODS, NODES, st.sets(st.sampled_from(NAMES))),
        st.tuples(st.just("seen"), PODS),
        st.tuples(st.just("bound"), PODS),
        st.tuples(st.just("later"), st.sampled_from([0.5, 2.0, 2.5, ALLOWANCE_SECONDS, 0.001])),
    ),
    max_size=40,
)


NONE = (("cpu", 0),)
ONE_AND_NONE = [
    ("add", 0, "n0", (("cpu", 5),)),
    *(("add", number, "n0", NONE) for number in (1, 2)),
    *(("bound", number) for number in (0, 1, 2)),
    ("count", 3, "n0", {"cpu"}),
]


@given(steps=STEPS)
@example(steps=ONE_AND_NONE)
def test_sums_are_those_of_a_walk_over_all(steps: list[tuple[object, ...]]) -> None:
    cluster, now = Cluster(), 10.0
    sums, walk = Allowances(cluster, lambda: now), Walk(cluster)
    for step in steps:
        match step:
            case ("add", int(number), str(node), tuple(amounts)):
                one = replace(pod(f"p{number}"), requests=amounts)
                sums.add(one, node)
                walk.add(one, node, now)
            case ("count", int(number), str(node), set(names)):
                found = {str(name): 7 for name in names}
                wanted = dict(found)
                sums.count(found, node, pod(f"p{number}").uid)
                walk.count(wanted, node, pod(f"p{number}").uid, now)
                assert found == wanted
            case ("seen", int(number)):
                cluster.known.setdefault(pod(f"p{number}").uid, pod(f"p{number}"))
                cluster.generation += 1
            case ("bound", int(number)):
                cluster.show(pod(f"p{number}", on="n0"))
            case ("later", float(seconds)):
                now += seconds


def asked(allowances: Allowances, node: str) -> dict[str, int]:
    wants = {"cpu": 0}
    allowances.count(wants, node, but="")
    return wants


def test_a_pod_that_has_gone_somewhere_is_on_its_way_to_no_other_node() -> None:
    """Nor when it is gone from there before anybody asks about the other node."""
    cluster = Cluster()
    allowances = Allowances(cluster, lambda: 0.0)
    one = pod("one", cpu=2)
    for node in ("n0", "n1"):
        allowances.add(one, node)
    assert asked(allowances, "n1") == {"cpu": 2000}
    cluster.show(replace(one, node="n0"))
    assert asked(allowances, "n0") == {"cpu": 0}
    del cluster.known[one.uid]
    cluster.generation += 1
    assert asked(allowances, "n1") == {"cpu": 0}


def test_offers_of_nodes_that_nobody_asks_about_again_are_not_kept() -> None:
    cluster, now = Cluster(), 0.0
    allowances = Allowances(cluster, lambda: now)
    for number in range(10):
        allowances.add(pod(f"p{number}", cpu=1), f"n{number}")
        allowances.add(pod(f"p{number}", cpu=1), "n0")
        now += 1.0
    assert asked(allowances, "another") == {"cpu": 0}
    assert len(allowances) == 2 * 5
    now += ALLOWANCE_SECONDS
    assert asked(allowances, "another") == {"cpu": 0}
    assert len(allowances) == 0


def test_all_are_looked_for_once_for_each_change_and_not_for_each_node() -> None:
    """A call of filter asks about each node on which seats are held."""
    looked: list[str] = []

    class Counted(Cluster):
        def pod(self, uid: str) -> Pod | None:
            looked.append(uid)
            return super().pod(uid)

    cluster = Counted()
    allowances = Allowances(cluster, lambda: 0.0)
    nodes = [f"n{number}" for number in range(20)]
    for number in range(30):
        for node in nodes:
            allowances.add(pod(f"p{number}", cpu=1), node)
    for _ in range(2):
        looked.clear()
        cluster.generation += 1
        for node in nodes:
            assert asked(allowances, node) == {"cpu": 30_000}
        assert len(looked) == 30
