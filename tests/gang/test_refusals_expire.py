"""A seat that was refused is remembered for a while, and asked for again after it."""

from __future__ import annotations

from extender.gang.act.evidence import REFUSED_SECONDS, Evidence
from tests.gang.world import pod


def test_what_is_remembered_and_forgotten_makes_another_answer_possible() -> None:
    """Else a gang refused for a refused seat is never searched for again on a calm cluster."""
    now = [0.0]
    evidence = Evidence(lambda: now[0])
    member, twin = pod("a-0"), pod("a-1")
    versions = [evidence.version()]

    def changed() -> bool:
        versions.append(evidence.version())
        return versions[-1] > versions[-2]

    evidence.refuses(member, "n0")
    assert changed()
    assert not changed()
    now[0] = REFUSED_SECONDS / 2
    evidence.refuses(twin, "n1")
    assert changed()
    now[0] = REFUSED_SECONDS + 1
    assert changed()  # the first is forgotten
    now[0] = 2 * REFUSED_SECONDS
    assert changed()
    assert not changed()
